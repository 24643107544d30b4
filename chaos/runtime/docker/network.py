"""The network of a run, and the machines on it.

The network is a bridge of its own with 65 534 addresses, so that the plan of addresses fits unchanged. No port is published:
this machine is on the bridge itself, and no other machine is. The network is ``internal``: nothing leads out of it.

A machine is an address that stays while the processes on it die and come back::

    machine (sleeps)      eth0 172.31.1.1        processes share the machine's network: after a kill, this kernel resets their
       ▲ network_mode                            connections and refuses their port, as on a machine that lives on
    broker-1              killed, started, …     (otherwise the address would vanish with the process)

Kubernetes does the same for a pod. Toxiproxy's machine has an address for each link, and the one privilege needed to add them.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from chaos.common.errors import RuntimeUnavailableError
from chaos.runtime.docker.engine import asking

_CANDIDATES = (*(f"172.{number}" for number in range(31, 17, -1)), *(f"10.{number}" for number in range(231, 199, -1)))
_ROUTES = Path("/proc/net/route")
_OVERLAPS = "overlap"
_UNPRIVILEGED = "65534:65534"  # nobody:nogroup
_SLEEP = ("sleep", "infinity")
_ADD = 'for host in "$@"; do ip address add "$host/16" dev eth0; done; exec sleep infinity'
_NOT_CONNECTED = "is not connected"


@dataclass(slots=True)
class Machine:
    """One machine.

    Attributes:
        hosts: its addresses, its own first.
        container: the container that sleeps and owns the addresses.
        connected: whether it is on the network.
    """

    hosts: tuple[str, ...]
    container: Any
    network: Any
    connected: bool = field(default=True)

    def disconnect(self) -> None:
        """Pull its network cable: packets to it go nowhere. Idempotent."""
        with asking(f"disconnect {self.hosts[0]}"):
            try:
                self.network.disconnect(self.container)
            except APIError as error:
                if _NOT_CONNECTED not in str(error):
                    raise
        self.connected = False

    def connect(self) -> None:
        """Plug it in again, with the same address. Idempotent."""
        if not self.connected:
            with asking(f"connect {self.hosts[0]}"):
                self.network.connect(self.container, ipv4_address=self.hosts[0])
            self.connected = True


def create(session: str, labels: dict[str, str]) -> tuple[Network, str]:
    """Make a network on addresses that nothing on this machine uses.

    Returns:
        The network, and the first two bytes of its addresses.

    Raises:
        RuntimeUnavailableError: all candidates are in use.
    """
    for net in free_now():
        network = Network(docker_network_kw={"driver": "bridge", "internal": True, "ipam": _pool(net), "labels": labels})
        network.name = f"chaos-{session[:12]}"
        with asking("make a network"):
            if _created(network):
                return network, net
    raise RuntimeUnavailableError(
        f"no network is free among {_CANDIDATES[-1]}.0.0/16 … {_CANDIDATES[0]}.0.0/16; see `docker network ls` and "
        "`ip route`, and remove unused networks (docker network prune)"
    )


def free_now() -> Iterator[str]:
    """Yield the first two bytes of each candidate that no route of this machine leads to now."""
    return free(_ROUTES.read_text(encoding="ascii").splitlines())


def free(routes: Iterable[str]) -> Iterator[str]:
    """Yield the candidates that none of these routes leads to.

    Args:
        routes: the lines of ``/proc/net/route``.
    """
    taken = list(_routed(routes))
    return (net for net in _CANDIDATES if not any(ipaddress.ip_network(f"{net}.0.0/16").overlaps(other) for other in taken))


def _routed(lines: Iterable[str]) -> Iterator[ipaddress.IPv4Network]:
    """Yield all destinations but the default route's, which is everywhere. Bytes are in the machine's order (little-endian)."""
    for line in list(lines)[1:]:
        fields = line.split()
        destination, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
        if mask:
            yield ipaddress.IPv4Network((destination, mask.bit_count()))


def _pool(net: str) -> IPAMConfig:
    """Keep the gateway, and the addresses that Docker chooses itself, out of the way of the plan."""
    return IPAMConfig(pool_configs=[IPAMPool(f"{net}.0.0/16", iprange=f"{net}.200.0/24", gateway=f"{net}.255.254")])


def _created(network: Network) -> bool:
    try:
        network.create()
    except APIError as error:
        if _OVERLAPS in str(error).lower():
            return False  # Docker has a network on these addresses that has no route here
        raise
    return True


def switch_on(
    container: DockerContainer, client: Any, network: Network, hosts: tuple[str, ...], labels: dict[str, str]
) -> Machine:
    """Start a machine.

    Args:
        container: has an image and a name, and is not started.
        hosts: its addresses, at least one.
    """
    own, *others = hosts
    privileges = {"cap_add": ["NET_ADMIN"], "user": "0:0"} if others else {"user": _UNPRIVILEGED}
    container.with_command(["sh", "-c", _ADD, "sh", *others] if others else list(_SLEEP))
    container.with_kwargs(**privileges, cap_drop=["ALL"], init=True, labels=labels, **at_address(client, network, own))
    with asking(f"start a machine at {own}"):
        container.start()
        found = client.networks.get(network.id)
    return Machine(hosts, container.get_wrapped_container(), found)


def at_address(client: Any, network: Network, address: str) -> dict[str, Any]:
    """Return arguments of ``containers.create`` for a container at this address; "" for any address of the network."""
    endpoint = client.api.create_endpoint_config(ipv4_address=address or None)
    return {"network": network.name, "networking_config": {network.name: endpoint}}
