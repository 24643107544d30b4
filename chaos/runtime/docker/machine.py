"""A machine of the system: addresses on the run's network, which stay while processes on it die and come back.

::

    machine (sleeps)      eth0 172.31.1.1        its network is the machine's: a process that is killed leaves connections that
       ▲ network_mode                            this kernel resets, and a port that it refuses, as on a machine that lives on
    broker-1              killed, started, …     (without it the address would vanish with the process)

Kubernetes does the same for a pod. Toxiproxy's machine has an address for each link, and the one right that adding them needs.
"""

from dataclasses import dataclass, field
from typing import Any

from docker.errors import APIError
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from chaos.runtime.docker import network as docker_networks
from chaos.runtime.docker.engine import asking

_NOBODY = "65534:65534"
_SLEEP = ("sleep", "infinity")
_ADD = 'for host in "$@"; do ip address add "$host/16" dev eth0; done; exec sleep infinity'
_NOT_CONNECTED = "is not connected"


@dataclass(slots=True)
class Machine:
    """One machine.

    Attributes:
        hosts: its addresses, its own first.
        container: it sleeps.
        connected: whether it is on the network.
    """

    hosts: tuple[str, ...]
    container: Any
    network: Any
    connected: bool = field(default=True)

    def disconnect(self) -> None:
        """Pull its network cable: what is sent to it goes nowhere. Idempotent."""
        with asking(f"disconnect {self.hosts[0]}"):
            try:
                self.network.disconnect(self.container)
            except APIError as error:
                if _NOT_CONNECTED not in str(error):
                    raise
        self.connected = False

    def connect(self) -> None:
        """Plug it in again, with the same address; nothing to do for one that is connected."""
        if not self.connected:
            with asking(f"connect {self.hosts[0]}"):
                self.network.connect(self.container, ipv4_address=self.hosts[0])
            self.connected = True


def switch_on(
    container: DockerContainer, client: Any, network: Network, hosts: tuple[str, ...], labels: dict[str, str]
) -> Machine:
    """Start a machine.

    Args:
        container: of an image, with a name; not started.
        hosts: its addresses, at least one.
    """
    own, *others = hosts
    rights = {"cap_add": ["NET_ADMIN"], "user": "0:0"} if others else {"user": _NOBODY}
    container.with_command(["sh", "-c", _ADD, "sh", *others] if others else list(_SLEEP))
    container.with_kwargs(**rights, cap_drop=["ALL"], init=True, labels=labels, **docker_networks.fixed(client, network, own))
    with asking(f"start a machine at {own}"):
        container.start()
        found = client.networks.get(network.id)
    return Machine(hosts, container.get_wrapped_container(), found)
