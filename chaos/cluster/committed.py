"""All positions that a consumer group committed, in order, as its coordinator wrote them to ``__consumer_offsets``.

A client learns the last position only. The topic has every committed position, until compaction removes all but the last of a
partition. It is read with read_committed, since a position of an aborted transaction never counted.

A record without a value is a position that was deleted, or expired. `chaos.cluster.internal_topics` has the layout of records.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from chaos.cluster import internal_topics
from chaos.cluster.protocol import Batch
from chaos.common import clock
from chaos.common.errors import InconclusiveError

_AT_ONCE = 10_000
_POLL_S = 0.1  # `consume` waits so long for more, also behind the end
_READ_WITHIN_S = 300.0


class Commit(NamedTuple):
    """A row of `verifiers.evidence.COMMITS`."""

    partition: int
    seq: int
    position: int | None
    committed_at_ms: int


class Moved(NamedTuple):
    """A batch of positions that a transaction moved.

    Attributes:
        ended_ms: time of the marker that let them take effect, milliseconds since the epoch, by the broker's clock; None
            without a marker.
    """

    last_offset: int
    producer_id: int
    ended_ms: int | None


class Reached(NamedTuple):
    """A row of `verifiers.evidence.REACHED`."""

    partition: int
    position: int
    committed_at_ms: int
    producer_id: int


_OUTSIDE = -1


def in_transactions(batches: Iterable[Batch]) -> Mapping[int, Moved]:
    """Return first offset -> batch, for the batches of one partition in transactions that were not aborted."""
    moved: dict[int, Moved] = {}
    waiting: dict[int, list[Batch]] = {}
    for batch in batches:
        if batch.transactional and batch.control is None:
            waiting.setdefault(batch.producer_id, []).append(batch)
        elif batch.control is not None:
            ended = waiting.pop(batch.producer_id, [])
            if batch.control == "COMMIT":
                moved |= {one.first_offset: Moved(one.last_offset, one.producer_id, batch.timestamp_ms) for one in ended}
    return moved | {one.first_offset: Moved(one.last_offset, one.producer_id, None) for one in chain(*waiting.values())}


def with_producers(commits: Iterable[Commit], moved: Mapping[int, Moved], first: int) -> Iterator[Reached]:
    """Yield the positions that were not removed, each with the producer whose transaction moved it, and its time of effect.

    A position without a marker has no known time, and is left out.

    Args:
        moved: the result of `in_transactions`.
        first: an offset for partition numbers, so that several topics are numbered through.
    """
    begins = sorted(moved)
    for commit in commits:
        if commit.position is None:
            continue
        at = bisect_right(begins, commit.seq) - 1
        by = moved[begins[at]] if at >= 0 else None
        place = first + commit.partition, commit.position
        if by is None or commit.seq > by.last_offset:
            yield Reached(*place, commit.committed_at_ms, _OUTSIDE)
        elif by.ended_ms is not None:
            yield Reached(*place, by.ended_ms, by.producer_id)


def read(options: Mapping[str, str], place: tuple[str, int], group: str, topic: str) -> Iterator[Commit]:
    """Yield the positions of a group in a topic.

    Args:
        options: of a librdkafka client: bootstrap servers and login.
        place: the partition of ``__consumer_offsets`` that holds the group.

    Raises:
        InconclusiveError: the partition cannot be read.
    """
    ours = {"group.id": group, "enable.auto.commit": "false", "enable.partition.eof": "true", "log_level": "0"}
    from_the_start = {"auto.offset.reset": "earliest", "fetch.wait.max.ms": "10", "isolation.level": "read_committed"}
    ends_at_s = clock.monotonic_s() + _READ_WITHIN_S
    with closing(Consumer({**options, **ours, **from_the_start})) as consumer:
        # Half a second quicker than OFFSET_BEGINNING, which librdkafka looks up; "earliest" is for a log that begins above 0.
        consumer.assign([TopicPartition(*place, 0)])
        while clock.monotonic_s() < ends_at_s:
            for message in consumer.consume(_AT_ONCE, _POLL_S):
                error = message.error()
                if error is None:
                    yield from _commit(message, group, topic)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
                    return
                elif not error.retriable():
                    raise InconclusiveError(f"{place[0]}-{place[1]} cannot be read: {error}")
    raise InconclusiveError(f"{place[0]}-{place[1]} was not read to its end within {_READ_WITHIN_S:g} s")


def _commit(message: Message, group: str, topic: str) -> Iterator[Commit]:
    """Yield a row if the record is a position of this group in this topic."""
    found = internal_topics.position(_bytes(message.key()), _bytes(message.value()) or None)
    if found is not None and (found.group, found.topic) == (group, topic):
        yield Commit(found.partition, message.offset() or 0, found.position, message.timestamp()[1])


def _bytes(found: str | bytes | None) -> bytes:
    return found if isinstance(found, bytes) else b""
