"""The network of a run: a bridge of its own with 65 534 addresses, so that the plan of addresses fits as it is.

Nothing is published: this machine is on the bridge itself, and nobody else is. The network is ``internal``: nothing leads out.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool
from testcontainers.core.network import Network

from chaos.common.errors import RuntimeUnavailableError
from chaos.runtime.docker.engine import asking

_CANDIDATES = (*(f"172.{number}" for number in range(31, 17, -1)), *(f"10.{number}" for number in range(231, 199, -1)))
_ROUTES = Path("/proc/net/route")
_OVERLAPS = "overlap"


def create(session: str, labels: dict[str, str]) -> tuple[Network, str]:
    """Make a network on addresses that nothing here uses.

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
        f"no network is free among {_CANDIDATES[-1]}.0.0/16 … {_CANDIDATES[0]}.0.0/16; look at `docker network ls` and "
        "`ip route`, and remove what is not needed (docker network prune)"
    )


def free_now() -> Iterator[str]:
    """Candidates that nothing here uses now."""
    return free(_ROUTES.read_text(encoding="ascii").splitlines())


def free(routes: Iterable[str]) -> Iterator[str]:
    """Candidates that no route of this machine leads to.

    Args:
        routes: the lines of ``/proc/net/route``.
    """
    taken = list(_routed(routes))
    return (net for net in _CANDIDATES if not any(ipaddress.ip_network(f"{net}.0.0/16").overlaps(other) for other in taken))


def _routed(lines: Iterable[str]) -> Iterator[ipaddress.IPv4Network]:
    """Destinations; the default route, which leads everywhere, left out. Bytes are in the machine's own order (little end)."""
    for line in list(lines)[1:]:
        fields = line.split()
        destination, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
        if mask:
            yield ipaddress.IPv4Network((destination, mask.bit_count()))


def _pool(net: str) -> IPAMConfig:
    """The gateway is out of the way of the plan, and so are addresses that Docker chooses."""
    return IPAMConfig(pool_configs=[IPAMPool(f"{net}.0.0/16", iprange=f"{net}.200.0/24", gateway=f"{net}.255.254")])


def _created(network: Network) -> bool:
    try:
        network.create()
    except APIError as error:
        if _OVERLAPS in str(error).lower():
            return False  # a network of Docker that has no route here
        raise
    return True


def fixed(client: Any, network: Network, address: str) -> dict[str, Any]:
    """How a container gets this address, in the words of ``containers.create``; any address of the network without one."""
    endpoint = client.api.create_endpoint_config(ipv4_address=address or None)
    return {"network": network.name, "networking_config": {network.name: endpoint}}
