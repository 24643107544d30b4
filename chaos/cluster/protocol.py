"""Two requests of Kafka's protocol that no Python client offers: a ping with a time, and who leads the controller quorum.

Frames are ``int32 size, header, body`` (Kafka protocol guide). A ping is ApiVersions v0 (KIP-35), which every broker
answers on every listener; the quorum's leader comes from DescribeQuorum v0 (KIP-595): in KRaft, the controller that Metadata
names is a random broker.
"""

import socket
import struct

from chaos.cluster.addresses import Address
from chaos.common import clock

_API_VERSIONS = 18
_DESCRIBE_QUORUM = 55
_CORRELATION = 7
_CLIENT = b"chaos"


def ping(address: Address, within_s: float = 2.0) -> float:
    """Seconds between an ApiVersions request and its answer, the time to connect left out.

    Raises:
        OSError: refused, reset, or no answer in time (TimeoutError).
    """
    with socket.create_connection(address, timeout=within_s) as connection:
        began_s = clock.monotonic_s()
        send(connection, _API_VERSIONS, b"")
        receive(connection)
        return clock.monotonic_s() - began_s


def refused(address: Address, within_s: float = 2.0) -> bool:
    """Whether nobody listens there (any more)."""
    try:
        with socket.create_connection(address, timeout=within_s):
            return False
    except TimeoutError:
        return False
    except OSError:
        return True


def answers(address: Address, within_s: float = 2.0) -> bool:
    """Whether a ping comes back."""
    try:
        ping(address, within_s)
    except OSError:
        return False
    return True


def quorum_leader(address: Address, within_s: float = 3.0) -> int:
    """Node id of the active controller, as this broker can learn it.

    Raises:
        OSError: no answer.
    """
    topic = b"\x13__cluster_metadata\x02" + struct.pack(">i", 0) + b"\x00\x00"  # compact string, one partition, no tags
    with socket.create_connection(address, timeout=within_s) as connection:
        send(connection, _DESCRIBE_QUORUM, b"\x02" + topic + b"\x00", flexible=True)
        return _leader(receive(connection))


def _leader(answer: bytes) -> int:
    """Header v1 (correlation, tags), error, topics[name, partitions[index, error, leader, …]]."""
    (error,) = struct.unpack_from(">h", answer, 5)
    if error:
        raise ConnectionError(f"DescribeQuorum was answered with error {error}")
    name_length = answer[8] - 1
    at = 9 + name_length + 1  # then the length of the partitions
    _index, partition_error, leader = struct.unpack_from(">ihi", answer, at)
    if partition_error or leader < 0:
        raise ConnectionError(f"the controller quorum has no leader now (error {partition_error})")
    return int(leader)


def send(connection: socket.socket, api: int, body: bytes, *, version: int = 0, flexible: bool = False) -> None:
    """Write one request; a flexible one has tags in its header."""
    header = struct.pack(">hhih", api, version, _CORRELATION, len(_CLIENT)) + _CLIENT + (b"\x00" if flexible else b"")
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)


def receive(connection: socket.socket) -> bytes:
    """Read one answer, header included.

    Raises:
        OSError: it does not come, or not whole.
    """
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the connection was closed before the answer was complete")
        data += chunk
    return data
