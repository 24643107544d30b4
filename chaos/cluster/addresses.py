"""The plan of addresses: fixed loopback addresses, so that no two parts share a port; and the connections of a process.

    127.77.0.1:8474            Toxiproxy's API          127.77.0.2:7077, 8080   Spark master and its web page
    127.77.0.(10+i)            worker i                 127.77.0.3              the pipeline's driver
    127.77.1.i                 broker i itself: CONTROLLER 19093, INTERNAL 19092, AUDIT 19095, one port per client group
    127.77.2.(10a+b)           the link broker-a->broker-b, ports 19092 and 19093
    127.77.(10+k).i:19100+k    the link of client group k to broker i
    127.77.3.j:19200           service j, if it is started by a run
    127.77.(10+k).(100+j):19200  the link of client group k to service j
    localhost:20000+10*77+i    broker i again, under a host name, for other programs (`chaos up` only)

A second system on the same machine takes another prefix (``CHAOS_NET=127.78``).
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError

CLIENTS = ("spark", "loader", "app")
CONTROLLER_PORT = 19093
INTERNAL_PORT = 19092
AUDIT_PORT = 19095
_CLIENT_PORT = 19100
_SERVICE_PORT = 19200
_SERVICES_FROM = 100
_OUTSIDE_PORT = 20_000
_ESTABLISHED = "01"
_SOCKET = "socket:["
_REMOTE, _STATE, _INODE = 2, 3, 9

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
        return f"{self.net}.0.1", 8474

    @property
    def master(self) -> Address:
        return f"{self.net}.0.2", 7077

    @property
    def master_page(self) -> Address:
        """The web page of Spark's master, and its ``/json/``."""
        return f"{self.net}.0.2", 8080

    @property
    def driver(self) -> str:
        return f"{self.net}.0.3"

    def worker(self, number: int) -> str:
        """Host of a worker; they differ, or Spark would never speculate between workers."""
        return f"{self.net}.0.{10 + number}"

    def broker(self, number: int) -> str:
        return f"{self.net}.1.{number}"

    def audit(self, number: int) -> Address:
        """The listener of a broker without a proxy in front of it."""
        return self.broker(number), AUDIT_PORT

    def outside(self, number: int) -> Address:
        """The listener of a broker for other programs, which use a host name as for any cluster (`chaos up`)."""
        return "localhost", _OUTSIDE_PORT + 10 * int(self.net.rpartition(".")[2]) + number

    def peer(self, source: int, target: int) -> str:
        """Host of the link from one broker to another."""
        return f"{self.net}.2.{10 * source + target}"

    def client_port(self, client: str) -> int:
        """The port of a client group, the same at the broker and at its proxy."""
        return _CLIENT_PORT + CLIENTS.index(client)

    def client(self, client: str, number: int) -> Address:
        """The link of a client group to a broker; the broker advertises this address to the group."""
        return f"{self.net}.{10 + CLIENTS.index(client)}.{number}", self.client_port(client)

    def service(self, number: int) -> Address:
        """The address of a service that a run starts; they are numbered from 1."""
        return f"{self.net}.3.{number}", _SERVICE_PORT

    def to_service(self, client: str, number: int) -> Address:
        """The link of a client group to a service."""
        return f"{self.net}.{10 + CLIENTS.index(client)}.{_SERVICES_FROM + number}", _SERVICE_PORT


def from_environment() -> Addresses:
    """The plan for the prefix in ``CHAOS_NET``.

    Raises:
        RuntimeUnavailableError: it is not a prefix of loopback addresses.
    """
    net = os.environ.get("CHAOS_NET", "127.77")
    if not re.fullmatch(r"127\.\d{1,3}", net) or int(net[4:]) > 255:  # noqa: PLR2004 - a byte
        raise RuntimeUnavailableError(
            f"CHAOS_NET={net} is not a prefix of loopback addresses; set it to 127.N with N from 1 to 255"
        )
    return Addresses(net)


def joined(addresses: list[Address]) -> str:
    """Join addresses in the form of ``bootstrap.servers``."""
    return ",".join(f"{host}:{port}" for host, port in addresses)


def remote_ports(pid: int, proc: Path = Path("/proc")) -> set[int]:
    """Return the ports that a process is connected to, in its own network namespace; none once the process is gone.

    Args:
        proc: the folder of the kernel's tables.
    """
    folder = proc / str(pid)
    inodes = set(_inodes(folder))
    return {port for port, inode in _established(folder) if inode in inodes}


def _inodes(folder: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                target = str(link.readlink())
                if target.startswith(_SOCKET):
                    yield target.removeprefix(_SOCKET).removesuffix("]")


def _established(folder: Path) -> Iterator[tuple[int, str]]:
    """Yield the remote port and the inode of each connection; a container has tables of its own (``/proc/PID/net``)."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (folder / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[_STATE] == _ESTABLISHED:
                    yield int(fields[_REMOTE].rpartition(":")[2], 16), fields[_INODE]
