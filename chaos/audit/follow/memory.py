"""What a follower remembers: rows and records by their prints, and the prints of the last answers."""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import numpy as np

from chaos.audit.follow.rows import Comparison

T = TypeVar("T", bound=tuple[Any, ...])


@dataclass(slots=True)
class Prints:
    """Numbers of 64 bits by which rows are known: equal rows have equal prints."""

    asked: Comparison
    _salts: dict[int, int] = field(default_factory=dict)

    def content(self, identity: bytes | None, value: bytes | None) -> int:
        """Return the print of what is compared of a row, whatever its partition."""
        if self.asked.compared == "identity":
            return int.from_bytes(blake2b(identity or b"", digest_size=8).digest(), "little")
        head = b"-" if identity is None else b"%d:%b" % (len(identity), identity)
        row = head + (b"-" if value is None else b"+%b" % value)
        return int.from_bytes(blake2b(row, digest_size=8).digest(), "little")

    def salt(self, partition: int) -> int:
        """Return a number that makes equal rows of different partitions differ; 0 if a row may be in any partition.

        The print of a row in its partition is ``content ^ salt``.
        """
        if self.asked.anywhere:
            return 0
        found = self._salts.get(partition)
        if found is None:
            found = int.from_bytes(blake2b(b"%d" % partition, digest_size=8).digest(), "little")
            self._salts[partition] = found
        return found


class Waiting(Generic[T]):
    """Rows that wait for records, or records for rows: by print and partition, equal ones in the order of `add`.

    Attributes:
        held: print -> the only one that has it, or several; one that is alone takes no list, because there may be millions.
    """

    __slots__ = ("_number", "held")

    def __init__(self) -> None:
        self.held: dict[int, T | deque[T]] = {}
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[T]:
        for found in self.held.values():
            if isinstance(found, deque):
                yield from found
            else:
                yield found

    def items(self) -> Iterator[tuple[int, T]]:
        """Yield all with their prints; equal ones in their order."""
        for key, found in self.held.items():
            for one in found if isinstance(found, deque) else (found,):
                yield key, one

    def add(self, key: int, one: T) -> None:
        before = self.held.get(key)
        if before is None:
            self.held[key] = one
        elif isinstance(before, deque):
            before.append(one)
        else:
            self.held[key] = deque((before, one))
        self._number += 1

    def take(self, key: int) -> T | None:
        """Remove and return the oldest one of this print; None if there is none."""
        found = self.held.get(key)
        if found is None:
            return None
        self._number -= 1
        if isinstance(found, deque):
            one = found.popleft()
            if not found:
                del self.held[key]
            return one
        del self.held[key]
        return found

    def remove(self, key: int, one: T) -> None:
        """Remove one that `items` gave."""
        found = self.held[key]
        self._number -= 1
        if isinstance(found, deque) and len(found) > 1:
            found.remove(one)
        else:
            del self.held[key]


class Window:
    """Prints of the last answers: a ring of a fixed size, 8 bytes each.

    Attributes:
        prints: the ring.
        written: how many were ever put in.
    """

    __slots__ = ("_size", "prints", "written")

    def __init__(self, size: int) -> None:
        self._size = size
        self.prints = array("Q", bytes(8 * size))
        self.written = 0

    def add(self, content: int) -> None:
        self.prints[self.written % self._size] = content
        self.written += 1

    def within(self, contents: Iterable[int]) -> set[int]:
        """Return those of these prints that are in the window; this takes time in proportion to its size."""
        kept = np.frombuffer(self.prints, np.uint64)[: min(self.written, self._size)]
        asked = np.unique(np.array(list(contents), np.uint64))
        places = np.minimum(np.searchsorted(asked, kept), len(asked) - 1)
        return set(kept[asked[places] == kept].tolist())
