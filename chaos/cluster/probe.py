"""A connection of our own through a link: how long so many bytes take, in how many pieces they come, and how it ends.

The requests are ApiVersions v0 (`chaos.cluster.protocol`), which every broker answers on every listener. Their answers of some
hundred bytes each are what comes down; what goes up is made as long as wanted by the client's id.
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from chaos.cluster.addresses import Address
from chaos.common import clock

_API_VERSIONS = 18
_HEAD_BYTES = 14  # size, api, version, correlation, length of the client id
_MOST_PADDING = 32_000  # the length of a client id is an int16
_PIECE = 65_536
_SIZE_BYTES = 4

End = Literal["answered", "closed", "reset", "silent"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """What came of it.

    Attributes:
        took_s: from the first byte sent to the last one received.
        sent, received: bytes.
        pieces: reads that the answers took; the kernel may join pieces that come at once, and never splits one this small.
        end: ``answered`` all of it, ``closed`` or ``reset`` before that, or ``silent``.
    """

    took_s: float
    sent: int
    received: int
    pieces: int
    end: End

    @property
    def facts(self) -> Mapping[str, int | str]:
        """As JSON values."""
        took_ms = round(1000 * self.took_s)
        return {"took_ms": took_ms, "sent": self.sent, "received": self.received, "pieces": self.pieces, "end": self.end}


def upload(address: Address, size: int, within_s: float) -> Transfer:
    """Send at least so many bytes in requests, and wait for the answers to all of them."""
    requests = -(-size // (_MOST_PADDING + _HEAD_BYTES))
    padding = min(_MOST_PADDING, max(0, -(-size // requests) - _HEAD_BYTES))
    return _exchange(address, requests, padding, within_s)


def download(address: Address, size: int, within_s: float) -> Transfer:
    """Ask until at least so many bytes of answers are due, and wait for all of them."""
    one = _exchange(address, 1, 0, within_s)
    if one.end != "answered" or one.received >= size:
        return one
    return _exchange(address, -(-size // one.received), 0, within_s)


def _exchange(address: Address, requests: int, padding: int, within_s: float) -> Transfer:
    frame = struct.pack(">ihhih", _HEAD_BYTES - _SIZE_BYTES + padding, _API_VERSIONS, 0, 7, padding) + b"p" * padding
    began_s = clock.monotonic_s()
    sent, answers = 0, _Answers()
    try:
        with socket.create_connection(address, timeout=within_s) as connection:
            for _ in range(requests):
                connection.sendall(frame)
                sent += len(frame)
            while answers.complete < requests and answers.take(connection):
                pass
        end: End = "answered" if answers.complete >= requests else "closed"
    except TimeoutError:
        end = "silent"
    except (ConnectionResetError, BrokenPipeError):
        end = "reset"
    except OSError:
        end = "closed"
    return Transfer(clock.monotonic_s() - began_s, sent, answers.received, answers.pieces, end)


class _Answers:
    """Frames that come in, counted."""

    def __init__(self) -> None:
        self.received = self.pieces = self.complete = 0
        self._rest = b""

    def take(self, connection: socket.socket) -> bool:
        """Read once; False at the end of the connection."""
        piece = connection.recv(_PIECE)
        self.received += len(piece)
        self.pieces += bool(piece)
        self._rest += piece
        while len(self._rest) >= _SIZE_BYTES and len(self._rest) >= self._size():
            self._rest = self._rest[self._size() :]
            self.complete += 1
        return bool(piece)

    def _size(self) -> int:
        (size,) = struct.unpack_from(">i", self._rest)
        return _SIZE_BYTES + int(size)
