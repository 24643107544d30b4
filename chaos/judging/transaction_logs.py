"""Land the logs for `verifiers.transactions`: both internal topics of a cluster, and the batches that transactions wrote.

Nothing is changed on the cluster, and no group is joined: batches are fetched from the leaders, read_uncommitted. Records are
decoded only in the internal topics; in all others only the headers of batches are read, so compression, encryption and schemas
of the application do not matter.

    1  the partitions of ``__consumer_offsets`` that hold the groups, and all of ``__transaction_state``: they show which
       producers moved positions of the groups, and which logs their transactional ids ever wrote to
    2  the ends, in the order that `verifiers.transactions.logs` prescribes
    3  new records of both internal topics, and all other logs up to their ends
"""

import ssl
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chaos.cluster import internal_topics
from chaos.cluster.kafka import java_hash
from chaos.cluster.login import connect
from chaos.cluster.protocol import UNREADABLE, complete_batches, fetch, marker_of
from chaos.cluster.topics import log_ends
from chaos.common.errors import ChaosError, InconclusiveError
from verifiers.base import Bounds
from verifiers.transactions.logs import (
    OFFSETS,
    STATES,
    Batch,
    Extent,
    Forgotten,
    Log,
    Logs,
    Position,
    Produced,
    Start,
    State,
    Unfenced,
    complete_from,
    table,
)

WITHIN_S = 10.0
_MOST_BYTES = 4 << 20
_TRIES = 3  # of an empty answer: records that compaction has removed at the end of a log never come

_NS_PER_MS = 1_000_000
_BY_BROKER = 1  # the type of a timestamp that the broker set (LogAppendTime)

Seen = Iterable[Mapping[str, Any]]
Take = Callable[[Any, Any], None]  # a batch, and a record of it


class NotTransactionalError(ChaosError):
    """The groups have no transactions to judge; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class LandingRequest:
    """The groups and topics to land.

    Attributes:
        options: of librdkafka, TLS and SASL for example.
        sinks: topics to read even if no transaction of the groups names them.
        with_sources: whether to land the topics that the groups read, which comparing rows with records needs.
    """

    bootstrap: str
    groups: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    sinks: tuple[str, ...] = ()
    with_sources: bool = False


def land(asked: LandingRequest) -> Logs:
    """Read all logs.

    Raises:
        NotTransactionalError: the groups never committed, or never in a transaction, or a topic is missing.
        InconclusiveError: a broker does not answer, refuses the login, or its answer cannot be read.
    """
    settings: Mapping[str, str | int] = {
        "bootstrap.servers": asked.bootstrap,
        "log_level": 0,
        "socket.timeout.ms": int(WITHIN_S * 1000),
    }
    admin = AdminClient({**asked.options, **settings})
    try:
        with ExitStack() as stack:
            return _land(_Reader(admin, admin.list_topics(timeout=WITHIN_S), asked, stack))
    except KafkaException as error:
        raise InconclusiveError(
            f"{asked.bootstrap} does not answer within {WITHIN_S:g} s ({error.args[0].str()}): is it up, and reachable?"
        ) from error


@dataclass(frozen=True, slots=True)
class Heard:
    """The proxies' observations of all groups, in their own form (`chaos.cluster.rules`)."""

    starts: Seen
    unfenced: Seen
    produced: Iterable[tuple[str, int]]
    forgotten: Mapping[str, int]


def heard(seen: Heard, group: str, ids: Mapping[str, str]) -> Mapping[str, pa.Table]:
    """Make the tables of the proxies' observations of one group, for `Logs`.

    Args:
        ids: hexadecimal id of a topic -> its name; some answers have ids only.
    """
    return {
        "starts": table(
            "starts",
            [
                Start(
                    group,
                    one["topic"] or ids[one["topic_id"]],
                    *(one["partition"], one["position"], one["generation"], one["client_id"]),
                    *(one["asked_ns"] // _NS_PER_MS, one["answered_ns"] // _NS_PER_MS),
                )
                for one in seen.starts
                if one["group"] == group and (one["topic"] or one["topic_id"] in ids)
            ],
        ),
        "unfenced": table(
            "unfenced",
            [
                Unfenced(group, one["producer_id"], one["sent_ns"] // _NS_PER_MS)
                for one in seen.unfenced
                if one["group"] == group
            ],
        ),
        "produced": table("produced", [Produced(*one) for one in seen.produced]),
        "forgotten": table("forgotten", [Forgotten(what, until // _NS_PER_MS) for what, until in seen.forgotten.items()]),
    }


def _land(reader: "_Reader") -> Logs:
    asked = reader.asked
    homes = sorted({(OFFSETS, java_hash(group) % reader.partitions(OFFSETS)) for group in asked.groups})
    coordinators = reader.all_of(STATES)
    first, settled = reader.ends(homes), reader.ends(coordinators)
    for log in homes:
        reader.positions(log, first[log].low, first[log].hw)
    for log in coordinators:
        reader.states(log, settled[log].low, settled[log].hw)
    movers = _movers(reader)
    others = _named(reader, movers) | {log for topic in asked.sinks for log in reader.all_of(topic)}
    others |= _read_by_groups(reader)
    more = sorted(log for log in others if log[0] == OFFSETS and log not in homes)
    rest = sorted(log for log in others if log[0] != OFFSETS)
    now, ends = reader.ends([*homes, *more, *rest]), reader.ends(coordinators)
    for log in homes:
        reader.positions(log, first[log].hw, now[log].hw)
    for log in (*more, *rest):
        reader.batches_of(log, now[log].low, now[log].hw)
    for log in coordinators:
        reader.states(log, settled[log].hw, ends[log].hw)
    lows = {**now, **{log: first[log] for log in homes}, **settled}
    extents = [
        Extent(*log, reader.whole(log, lows[log].low, end), settled[log].hw if log in settled else end, end)
        for log, end in ((log, (ends | now)[log].hw) for log in sorted(lows))
    ]
    return _tables(reader, extents, {log for log in lows if log[0] != STATES})


def _movers(reader: "_Reader") -> frozenset[int]:
    """Return the producers that sent positions of the groups."""
    asked = reader.asked
    name = " or ".join(map(repr, asked.groups))
    if not reader.read_positions:
        raise NotTransactionalError(f"the group {name} never committed a position at {asked.bootstrap}: is that its name?")
    if not reader.movers:
        why = f"the group {name} commits its positions outside of transactions, so there are none to judge"
        raise NotTransactionalError(f"{why}; compare its topics with chaos audit topics")
    return frozenset(reader.movers)


def _named(reader: "_Reader", movers: Collection[int]) -> set[Log]:
    """Return the existing logs that the transactional ids of these producers ever had in a transaction.

    An application's topic counts with all partitions: rows in no transaction may be in one that no transaction has.
    """
    ids = {one.transactional_id for _, _, one in reader.read_states if one.producer_id in movers}
    named = {log for _, _, one in reader.read_states if one.transactional_id in ids for log in one.partitions}
    beside = {(topic, number) for topic in {log[0] for log in named} - {OFFSETS} for number in reader.numbers(topic)}
    return {log for log in named | beside if reader.has(log)}


def _read_by_groups(reader: "_Reader") -> set[Log]:
    """Return the logs that the groups read: all on request, else those with a removed position, to detect a new topic."""
    asked = reader.asked.with_sources
    wanted = {(one.topic, one.partition) for one in reader.read_positions if asked or one.position is None}
    return {log for log in wanted if reader.has(log)}


def _tables(reader: "_Reader", extents: Iterable[Extent], logs: Collection[Log]) -> Logs:
    """Make the tables; states are those of every transactional id that had one of these logs in a transaction."""
    ids = {one.transactional_id for _, _, one in reader.read_states if any(log in logs for log in one.partitions)}
    states = (
        State(number, offset, *one[:4], topic, partition, one.started_ms, one.updated_ms)
        for number, offset, one in reader.read_states
        if one.transactional_id in ids
        for topic, partition in (one.partitions or ((None, None),))
    )
    batches = (batch for log, some in reader.batches.items() if log in logs for batch in some)
    named: Mapping[str, Iterable[tuple[Any, ...]]] = {
        "extents": extents,
        "batches": batches,
        "positions": reader.read_positions,
        "states": states,
    }
    return Logs.of(**{name: table(name, rows) for name, rows in named.items()})


@dataclass(slots=True)
class _Reader:
    """Reads logs of one cluster, over one connection to each broker, and keeps them."""

    admin: AdminClient
    metadata: Any
    asked: LandingRequest
    stack: ExitStack
    batches: dict[Log, list[Batch]] = field(default_factory=lambda: defaultdict(list))
    read_positions: list[Position] = field(default_factory=list)
    read_states: list[tuple[int, int, internal_topics.TransactionState]] = field(default_factory=list)
    movers: set[int] = field(default_factory=set)
    connections: dict[int, Any] = field(default_factory=dict)

    def partitions(self, topic: str) -> int:
        return len(self.all_of(topic))

    def all_of(self, topic: str) -> list[Log]:
        found = self.metadata.topics.get(topic)
        if found is None or not found.partitions:
            hint = (
                "no transaction was ever made there, or this login may not describe it"
                if topic.startswith("__")
                else "see --sink"
            )
            raise NotTransactionalError(f"there is no topic {topic!r} at {self.asked.bootstrap}: {hint}")
        return [(topic, number) for number in sorted(found.partitions)]

    def has(self, log: Log) -> bool:
        return log[1] in self.numbers(log[0])

    def numbers(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic; none if it is missing, or may not be described."""
        found = self.metadata.topics.get(topic)
        return () if found is None else list(found.partitions)

    def ends(self, logs: Iterable[Log]) -> dict[Log, Bounds]:
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, number in logs:
            topics[topic].append(number)
        return {
            (topic, number): bounds
            for topic, numbers in topics.items()
            for number, bounds in log_ends(self.admin, topic, numbers, WITHIN_S).items()
        }

    def whole(self, log: Log, low: int, end: int) -> int:
        return complete_from(low, end, self.batches[log])

    def positions(self, log: Log, low: int, high: int) -> None:
        """Read a log of positions: its batches, and the positions of the groups."""

        def take(batch: Any, record: Any) -> None:
            if record.key is None:
                return
            found = internal_topics.position(bytes(record.key), None if record.value is None else bytes(record.value))
            if found is not None and found.group in self.asked.groups:
                at_ms = record.timestamp if found.position is None else found.committed_at_ms
                place = found.topic, found.partition, found.position
                if batch.is_transactional:
                    self.movers.add(batch.producer_id)
                self.read_positions.append(Position(log[1], record.offset, found.group, *place, at_ms))

        self.batches[log] += self._read(log, low, high, take)

    def states(self, log: Log, low: int, high: int) -> None:
        """Read a coordinator's log; its batches are kept, since they show whether compaction removed any."""

        def take(_batch: Any, record: Any) -> None:
            found = internal_topics.transaction(bytes(record.key), None if record.value is None else bytes(record.value))
            if found is not None:
                self.read_states.append((log[1], record.offset, found))

        self.batches[log] += self._read(log, low, high, take)

    def batches_of(self, log: Log, low: int, high: int) -> None:
        self.batches[log] += self._read(log, low, high, None)

    def _read(self, log: Log, low: int, high: int, take: Take | None) -> Iterator[Batch]:
        """Yield every batch between these offsets; compaction may leave holes."""
        if low >= high:
            return
        leader = self.metadata.topics[log[0]].partitions[log[1]].leader
        try:
            yield from self._fetched(self._connection(leader), log, low, high, take)
        except ssl.SSLError as error:
            raise InconclusiveError(f"the leader of {log[0]}-{log[1]} is not trusted: {error}; see tls: in the file") from error
        except UNREADABLE as error:
            raise InconclusiveError(f"{log[0]}-{log[1]} cannot be read: {error}") from error

    def _connection(self, broker: int) -> Any:
        if broker not in self.metadata.brokers:
            raise ValueError("it has no leader now; audit again when it has one")
        if broker not in self.connections:
            where = self.metadata.brokers[broker]
            made = connect((where.host, where.port), self.asked.options, WITHIN_S)
            self.connections[broker] = self.stack.enter_context(made)
        return self.connections[broker]

    def _fetched(self, connection: Any, log: Log, low: int, high: int, take: Take | None) -> Iterator[Batch]:
        tries = 0
        while low < high and tries < _TRIES:
            found = list(_parsed(log, fetch(connection, *log, _MOST_BYTES, low), low, high, take))
            tries = 0 if found else tries + 1
            yield from found
            low = found[-1].last_offset + 1 if found else low


def _parsed(log: Log, data: bytes, low: int, high: int, take: Take | None) -> Iterator[Batch]:
    """Yield the batches that begin between two offsets, and give their records to `take`."""
    for batch in complete_batches(data):
        if not low <= batch.base_offset < high:
            continue
        control = marker_of(batch)
        yield Batch(
            *log,
            batch.base_offset,
            batch.last_offset,
            batch.records_count,
            batch.producer_id,
            batch.producer_epoch,
            batch.is_transactional,
            control,
            batch.max_timestamp,
            batch.timestamp_type == _BY_BROKER,
        )
        if take is not None and control is None:
            for record in batch:
                take(batch, record)
