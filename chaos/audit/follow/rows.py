"""Rows and records as a follower sees them, how they are compared, and what is counted of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

Side = Literal["source", "sink"]
Compared = Literal["identity", "value", "row"]
Row = tuple[int, int, bytes | None, bytes | None]  # partition, offset, identity, and the value (of a record: the demanded one)

SIDES: tuple[Side, Side] = ("source", "sink")
WINDOW = 1 << 20
EXAMPLES = 32
_LONGEST = 200  # bytes of an identity that are kept


@dataclass(frozen=True, slots=True)
class Comparison:
    """How both logs are compared.

    Attributes:
        compared: ``identity``: a row is right if its identity is demanded; ``value``: its value must be the demanded one, too;
            ``row``: key and value together are the identity, and either may be null.
        anywhere: whether a row may be in any partition of the sink.
        overdue_ms: the time after which a record without an answer is a gap.
        window: number of answers whose prints are kept.
        begun_within: whether following begins within the source, so that rows for earlier records come first.
    """

    compared: Compared = "value"
    anywhere: bool = False
    overdue_ms: int = 60_000
    window: int = WINDOW
    begun_within: bool = False


class Demand(NamedTuple):
    """A record of the source without an answer so far."""

    since_ms: int
    partition: int
    offset: int
    identity: bytes | None


class Odd(NamedTuple):
    """A row of the sink that answers no record read so far."""

    number: int
    partition: int
    offset: int
    identity: bytes | None
    content: int


class Mark(NamedTuple):
    """How far the sink was read: the number of rows, and the next offset of each partition."""

    rows: int
    offsets: Mapping[int, int]


@dataclass(slots=True)
class Counts:
    """Counts so far; they never fall.

    Attributes:
        source, sink: records and rows read.
        answered: records with an answer, late or not.
        late: answered records that were gaps before.
        earlier: rows that seem to answer records from before the begin.
        unidentified: records of the source without an identity, which demand nothing.
        undecodable: rows of the sink without an identity.
        skipped_source, skipped_sink: offsets that were removed before they were read.
        resets: how often the next offset of a log did not exist any more.
        withdrawn: records that were read, had no answer, and were then truncated from their log.
        doubtful_duplicates, doubtful_unexpected, doubtful_undecodable: such rows that may answer a record which was not read,
            or that may have been written again after the sink was truncated.
    """

    source: int = 0
    sink: int = 0
    answered: int = 0
    late: int = 0
    duplicates: int = 0
    wrong_values: int = 0
    misrouted: int = 0
    unexpected: int = 0
    earlier: int = 0
    unidentified: int = 0
    undecodable: int = 0
    skipped_source: int = 0
    skipped_sink: int = 0
    resets: int = 0
    withdrawn: int = 0
    doubtful_duplicates: int = 0
    doubtful_unexpected: int = 0
    doubtful_undecodable: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """A row with its anomaly, or a gap that was answered after all."""

    anomaly: str
    partition: int
    offset: int
    identity: bytes | None
    detail: str = ""


@dataclass(slots=True)
class Anomalies:
    """The first anomalies of each kind.

    Attributes:
        examples: those found since the begin.
        news: those found since the caller last emptied this list.
    """

    examples: list[Seen] = field(default_factory=list)
    news: list[Seen] = field(default_factory=list)

    def add(self, seen: Seen) -> None:
        """Keep an anomaly, unless there are enough of its kind."""
        for those in (self.news, self.examples):
            if sum(one.anomaly == seen.anomaly for one in those) < EXAMPLES:
                those.append(seen)


def shortened(identity: bytes | None) -> bytes | None:
    """Shorten a long identity to its begin and a hash."""
    if identity is None or len(identity) <= _LONGEST:
        return identity
    return identity[: _LONGEST - 16] + blake2b(identity, digest_size=16).digest()
