"""Where everything listens: a fixed plan on loopback addresses, so that no two parts ever share a port.

    127.77.0.1:8474            Toxiproxy's API          127.77.0.2:7077, 8080   Spark master and its web page
    127.77.0.(10+i)            worker i                 127.77.0.3              the pipeline's driver
    127.77.1.i                 broker i itself: CONTROLLER 19093, INTERNAL 19092, AUDIT 19095, one port per client group
    127.77.2.(10a+b)           the link broker-a->broker-b, ports 19092 and 19093
    127.77.(10+k).i:19100+k    the link of client group k to broker i
    localhost:20000+10*77+i    broker i again, by a name, for other programs (`chaos up` only)

A second system on the same machine takes another prefix (``CHAOS_NET=127.78``).
"""

import os
import re
from dataclasses import dataclass

from chaos.common.errors import RuntimeUnavailableError

CLIENTS = ("spark", "loader", "app")
CONTROLLER_PORT = 19093
INTERNAL_PORT = 19092
AUDIT_PORT = 19095
_CLIENT_PORT = 19100
_OUTSIDE_PORT = 20_000

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The plan for one prefix.

    Attributes:
        net: the first two bytes, within 127.0.0.0/8.
    """

    net: str = "127.77"

    @property
    def toxiproxy(self) -> Address:
        """Toxiproxy's API."""
        return f"{self.net}.0.1", 8474

    @property
    def master(self) -> Address:
        """Spark's master."""
        return f"{self.net}.0.2", 7077

    @property
    def master_page(self) -> Address:
        """Spark's master, its web page and ``/json/``."""
        return f"{self.net}.0.2", 8080

    @property
    def driver(self) -> str:
        """Host of the pipeline's driver."""
        return f"{self.net}.0.3"

    def worker(self, number: int) -> str:
        """Host of a worker; each has its own, or Spark would never speculate between them."""
        return f"{self.net}.0.{10 + number}"

    def broker(self, number: int) -> str:
        """Host of a broker."""
        return f"{self.net}.1.{number}"

    def audit(self, number: int) -> Address:
        """A broker's listener that no proxy stands before."""
        return self.broker(number), AUDIT_PORT

    def outside(self, number: int) -> Address:
        """A broker's listener for those who know it by a name, as they do any other cluster (`chaos up`)."""
        return "localhost", _OUTSIDE_PORT + 10 * int(self.net.rpartition(".")[2]) + number

    def peer(self, source: int, target: int) -> str:
        """Host of the link from one broker to another."""
        return f"{self.net}.2.{10 * source + target}"

    def client_port(self, client: str) -> int:
        """The port of a client group, the same at the broker and at its proxy."""
        return _CLIENT_PORT + CLIENTS.index(client)

    def client(self, client: str, number: int) -> Address:
        """The link of a client group to a broker: what that broker advertises to this group."""
        return f"{self.net}.{10 + CLIENTS.index(client)}.{number}", self.client_port(client)


def from_environment() -> Addresses:
    """The plan that ``CHAOS_NET`` asks for.

    Raises:
        RuntimeUnavailableError: it is no prefix of loopback addresses.
    """
    net = os.environ.get("CHAOS_NET", "127.77")
    if not re.fullmatch(r"127\.\d{1,3}", net) or int(net[4:]) > 255:  # noqa: PLR2004 - a byte
        raise RuntimeUnavailableError(
            f"CHAOS_NET={net} is no prefix of loopback addresses; set it to 127.N with N from 1 to 255"
        )
    return Addresses(net)


def joined(addresses: list[Address]) -> str:
    """As ``bootstrap.servers`` wants them."""
    return ",".join(f"{host}:{port}" for host, port in addresses)
