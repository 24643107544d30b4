"""Kafka's protocol over our own sockets, for requests that no client offers: to one broker by its address, with our deadlines.

The message classes of kafka-python, made from Kafka's own schemas, encode requests and answers. Its AdminClient was tried
(3.0.12) and does not serve: it chooses the broker itself, waited ten seconds for a paused one in spite of
``request_timeout_ms=3000``, and takes the error ELECTION_NOT_NEEDED for success. confluent-kafka 2.16.1 has no reassignments,
and its ``elect_leaders`` fails with ``SystemError: more argument specifiers than keyword list entries``.

A ping is ApiVersions v0 (KIP-35), which every broker answers on every listener. The leader of the controller quorum comes from
DescribeQuorum (KIP-595): in KRaft the controller that Metadata names is a random broker. Any broker passes elections (KIP-460)
and reassignments (KIP-455) on to the controller. Fetch v4 with ``read_uncommitted`` shows two things that a consumer hides: the
producer of each offset, and the end of each transaction. DescribeProducers, ListTransactions and DescribeTransactions v0
(KIP-664) show the open transactions of a partition, and their coordinators' state.
"""

import socket
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from chaos.cluster.addresses import Address
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from verifiers.base import Bounds

with warnings.catch_warnings():
    # kafka-python loads its schemas with these; Python 3.13 took the deprecation back
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.errors import KafkaError as KafkaPythonError
    from kafka.errors import for_code, kafka_errors
    from kafka.protocol.admin import (
        AlterPartitionReassignmentsRequest,
        DescribeProducersRequest,
        DescribeQuorumRequest,
        DescribeTransactionsRequest,
        ElectionType,
        ElectLeadersRequest,
        ListTransactionsRequest,
    )
    from kafka.protocol.consumer import FetchRequest, LeaveGroupRequest
    from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
    from kafka.record.default_records import DefaultRecordBatch
    from kafka.record.memory_records import MemoryRecords

BatchHeader: Any = DefaultRecordBatch  # parses the first bytes of a record batch, not its records
_RENAMED = {"UNKNOWN_SERVER_ERROR": -1, "NOT_LEADER_OR_FOLLOWER": 6, "INVALID_TOPIC_EXCEPTION": 17}
ERROR_CODES: Mapping[str, int] = {
    error.message: code for code, error in kafka_errors.items() if error.message and code > 0
} | _RENAMED
"""Kafka's name of an error (https://kafka.apache.org/protocol#protocol_error_codes) -> its code."""
_ID_NOT_FOUND = ERROR_CODES["TRANSACTIONAL_ID_NOT_FOUND"]
_CLIENT = "chaos"
_CORRELATION = 7
_SIZE_BYTES = 4
_ALTER_WITHIN_S = 10.0
_ANSWERS_WITHIN_S = 10.0
_TRANSACTION_STATE = "__transaction_state"
_FORMAT = 2  # of record batches; older ones have no transactions
UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, KafkaPythonError)
"""Errors of a broker that does not answer, or whose answer cannot be read."""
_MARKERS = {0: "ABORT", 1: "COMMIT"}
_HEAD_BYTES = 14  # of a ping: size, api, version, correlation, length of the client id
_MOST_PADDING = 32_000  # the length of a client id is an int16
_PIECE = 65_536


# one request, one answer -----------------------------------------------------------------------------------------------


def ping(address: Address, within_s: float = 2.0) -> float:
    """Seconds between a request and its answer, without the time to connect.

    Raises:
        OSError: refused, reset, or no answer in time (TimeoutError).
    """
    with socket.create_connection(address, timeout=within_s) as connection:
        began_s = clock.monotonic_s()
        connection.sendall(_frame(ApiVersionsRequest(version=0)))
        _receive(connection)
        return clock.monotonic_s() - began_s


def answers(address: Address, within_s: float = 2.0) -> bool:
    """Whether a broker answers a ping."""
    try:
        ping(address, within_s)
    except OSError:
        return False
    return True


def knows(address: Address, topics: Iterable[str], within_s: float = 2.0) -> bool:
    """Whether a broker answers, and knows these topics and their leaders; one that it does not know is not made."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    try:
        answer = _ask(address, MetadataRequest(version=4, topics=wanted, allow_auto_topic_creation=False), within_s)
    except OSError:
        return False
    return not any(one.error_code for topic in answer.topics for one in (topic, *topic.partitions))


def refused(address: Address, within_s: float = 2.0) -> bool:
    """Whether nothing listens at this address."""
    try:
        with socket.create_connection(address, timeout=within_s):
            return False
    except TimeoutError:
        return False
    except OSError:
        return True


def quorum_leader(address: Address, within_s: float = 3.0) -> int:
    """Node id of the active controller, as far as this broker knows.

    Raises:
        OSError: no answer, or the quorum has no leader now.
    """
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    answer = _ask(address, DescribeQuorumRequest(version=0, topics=[topic]), within_s)
    if answer.error_code:
        raise ConnectionError(f"the broker answered DescribeQuorum with {_named(answer.error_code)}")
    quorum = answer.topics[0].partitions[0]
    if quorum.error_code or quorum.leader_id < 0:
        raise ConnectionError(f"the controller quorum has no leader now (error {quorum.error_code})")
    return int(quorum.leader_id)


def elect_leader(address: Address, topic: str, partition: int, *, unclean: bool) -> str:
    """Elect the preferred replica as leader or, with `unclean`, any live replica of a partition without a leader.

    Returns:
        The reason of a refusal, e.g. that the partition has this leader already; empty on success.

    Raises:
        OSError: no answer.
    """
    request = ElectLeadersRequest(
        version=1,
        election_type=ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED,
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])],
        timeout_ms=round(1000 * _ALTER_WITHIN_S),
    )
    answer = _ask(address, request, _ALTER_WITHIN_S)
    results = [result for found in answer.replica_election_results for result in found.partition_result]
    return _refusal([answer, *results])


def reassign(address: Address, topic: str, partition: int, replicas: list[int]) -> str:
    """Make these brokers the replicas of a partition, the preferred leader first.

    Returns and errors are those of `elect_leader`.
    """
    wanted = AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[(partition, replicas)])
    request = AlterPartitionReassignmentsRequest(version=0, timeout_ms=round(1000 * _ALTER_WITHIN_S), topics=[wanted])
    answer = _ask(address, request, _ALTER_WITHIN_S)
    return _refusal([answer, *(result for found in answer.responses for result in found.partitions)])


def remove_members(address: Address, group: str, members: Iterable[tuple[str, str | None]]) -> None:
    """Let members leave a consumer group, like an admin client of Java (LeaveGroup v3, KIP-345).

    A static member is removed by its ``group.instance.id``, whoever holds it. A member that is gone already is not an error.

    Args:
        address: of the group's coordinator.
        members: member id and instance id of each; the latter is None for a dynamic member.

    Raises:
        OSError: it does not answer.
    """
    leaving = [
        LeaveGroupRequest.MemberIdentity(member_id="" if instance else member, group_instance_id=instance)
        for member, instance in members
    ]
    _ask(address, LeaveGroupRequest(version=3, group_id=group, members=leaving), _ANSWERS_WITHIN_S)


def _refusal(results: list[Any]) -> str:
    """Return the first error of an answer and its partitions; an empty text without errors."""
    return next((_named(one.error_code, getattr(one, "error_message", None)) for one in results if one.error_code), "")


def _named(code: int, text: str | None = None) -> str:
    """Word a broker's error, e.g. ``ELECTION_NOT_NEEDED (84): Leader election not needed for topic partition.``."""
    error: Any = for_code(code)
    return f"{error.message} ({code}): {text or error.description}"


def _ask(address: Address, request: Any, within_s: float) -> Any:
    with socket.create_connection(address, timeout=within_s) as connection:
        return answer_to(connection, request)


def answer_to(connection: socket.socket, request: Any) -> Any:
    """Send a request and return its decoded answer.

    Raises:
        OSError: the answer is missing, incomplete, or cannot be decoded.
    """
    connection.sendall(_frame(request))
    data = _receive(connection)
    try:
        return request.header.get_response_class().decode(data, header=True)
    except (ValueError, IndexError, struct.error, KafkaPythonError) as error:
        raise ConnectionError(f"the answer to {request.name} cannot be decoded: {error}") from error


def _frame(request: Any, client: str = _CLIENT) -> bytes:
    request.with_header(correlation_id=_CORRELATION, client_id=client)
    return bytes(request.encode(header=True, framed=True))


def _receive(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        head = stream.read(_SIZE_BYTES)
        size = int.from_bytes(head, "big") if len(head) == _SIZE_BYTES else -1
        data = stream.read(size) if size >= 0 else b""
    if len(data) != size:
        raise ConnectionError("the connection was closed before the answer was complete")
    return data


# record batches --------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """One record batch.

    Attributes:
        last_offset: inclusive.
        producer_id: -1 when the producer is neither idempotent nor transactional.
        control: ``COMMIT`` or ``ABORT`` when it is the marker that ends a transaction, else None.
        timestamp_ms: the latest time in it, milliseconds since the epoch; set by the broker for a marker, by the producer for
            records.
    """

    partition: int
    first_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    control: str | None
    timestamp_ms: int


def read_batches(bootstrap: str, topic: str, ends: Mapping[int, tuple[int, int]], most_bytes: int = 4 << 20) -> Iterator[Batch]:
    """Yield every batch between low (inclusive) and high (exclusive) of each partition, cut to them.

    Args:
        most_bytes: limit of one answer, unless its first batch is larger.

    Raises:
        KafkaException: no broker gives the metadata of the topic.
        InconclusiveError: a leader does not answer, or its batches cannot be read.
    """
    metadata: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=_ANSWERS_WITHIN_S)
    for partition, (low, high) in sorted(ends.items()):
        leader = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
        try:
            with socket.create_connection((leader.host, leader.port), timeout=_ANSWERS_WITHIN_S) as connection:
                get = partial(fetch, connection, topic, partition, most_bytes)
                yield from _between(get, partition, low, high)
        except (OSError, ValueError, KafkaPythonError) as error:
            raise InconclusiveError(f"the batches of {topic}-{partition} cannot be read: {error}; run again") from error


def parse_batches(partition: int, data: bytes) -> Iterator[Batch]:
    """Yield the whole batches in the records of a Fetch; one that was cut off at the end is left out.

    Raises:
        ValueError: a batch is of an older message format, or a control record is not the marker of a transaction.
    """
    for batch in complete_batches(data):
        place = partition, batch.base_offset, batch.last_offset
        of_producer = batch.producer_id, batch.producer_epoch, batch.is_transactional
        yield Batch(*place, *of_producer, marker_of(batch), batch.max_timestamp)


def complete_batches(data: bytes) -> Iterator[Any]:
    """Yield the whole batches as kafka-python's objects, which iterate over records; errors are those of `parse_batches`."""
    for batch in MemoryRecords(data):
        if batch.magic != _FORMAT:
            raise ValueError(
                f"the batch at offset {batch.base_offset} is of message format {batch.magic}, which has no transactions"
            )
        yield batch


def marker_of(batch: Any) -> str | None:
    """Return ``COMMIT`` or ``ABORT``; None if the batch holds records."""
    if not batch.is_control_batch:
        return None
    kind = next(iter(batch)).type
    if kind not in _MARKERS:
        raise ValueError(f"the control record of type {kind} is not the marker of a transaction")
    return _MARKERS[kind]


def _between(get: Callable[[int], bytes], partition: int, low: int, high: int) -> Iterator[Batch]:
    while low < high:
        found = list(parse_batches(partition, get(low)))
        if not found:
            raise ValueError(f"the log has no batch at offset {low}, before its end at {high}")
        for batch in found:
            if batch.first_offset < high:
                yield batch._replace(first_offset=max(low, batch.first_offset), last_offset=min(high - 1, batch.last_offset))
        low = found[-1].last_offset + 1


def fetch(connection: socket.socket, topic: str, partition: int, most_bytes: int, offset: int) -> bytes:
    wanted = FetchRequest.FetchTopic.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes)
    request = FetchRequest(
        version=4,
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=most_bytes,
        isolation_level=0,  # read_uncommitted
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )
    found = answer_to(connection, request).responses[0].partitions[0]
    if found.error_code:
        raise ValueError(f"the leader answered Fetch with {_named(found.error_code)}")
    return found.records or b""


# open transactions -----------------------------------------------------------------------------------------------------


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition, with its coordinator's state; a row of `verifiers.base.Evidence`."""

    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp_ms: int
    asked_at_ms: int
    transactional_id: str | None
    coordinator_state: str | None
    coordinator_producer_id: int | None
    coordinator_epoch: int | None
    timeout_ms: int
    listed: bool


def open_below(bootstrap: str, topic: str, ends: Mapping[int, Bounds]) -> Sequence[OpenTransaction]:
    """List the open transactions of the partitions whose committed rows end below the last row; no other has one.

    Raises:
        KafkaException, InconclusiveError: as `open_transactions`.
    """
    behind = [partition for partition, one in ends.items() if one.lso < one.hw]
    return open_transactions(bootstrap, topic, behind) if behind else []


def open_transactions(bootstrap: str, topic: str, partitions: Iterable[int]) -> list[OpenTransaction]:
    """List the transactions that are open in these partitions both before and after the requests to their coordinators.

    Otherwise a transaction that ended meanwhile would look as if its coordinator had forgotten it.

    Raises:
        KafkaException: no broker gives the metadata, or the longest transaction timeout.
        InconclusiveError: a leader or a coordinator does not answer, or answers with an error.
    """
    client: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    metadata, asked = client.list_topics(timeout=_ANSWERS_WITHIN_S), sorted(partitions)
    try:
        before = _open(metadata, topic, asked)
        if not before:
            return []
        owners = _owners(metadata, {producer_id for _, producer_id, *_ in before})
        longest_ms = _longest_timeout_ms(client, min(metadata.brokers))
        asked_at_ms = clock.now_ms()
        after = _open(metadata, topic, asked)
    except (OSError, ValueError, KafkaPythonError) as error:
        raise InconclusiveError(f"the open transactions of {topic} cannot be listed: {error}; run again") from error
    return [
        OpenTransaction(*place, last_ms, asked_at_ms, *_said(owners.get(place[1]), topic, place[0], longest_ms))
        for place, last_ms in after.items()
        if place in before
    ]


def _open(metadata: Any, topic: str, partitions: Iterable[int]) -> dict[tuple[int, int, int, int], int]:
    """Return partition, producer id, epoch and first offset of each open transaction -> time of its producer's last batch."""
    found = {}
    for partition in partitions:
        leader = metadata.brokers.get(metadata.topics[topic].partitions[partition].leader)
        if leader is None:
            raise ValueError(f"{topic}-{partition} has no leader now")
        wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        answer = _ask((leader.host, leader.port), DescribeProducersRequest(version=0, topics=[wanted]), _ANSWERS_WITHIN_S)
        described = _checked("DescribeProducers", answer.topics[0].partitions[0])
        for one in described.active_producers:
            if one.current_txn_start_offset >= 0:
                place = partition, one.producer_id, one.producer_epoch, one.current_txn_start_offset
                found[place] = one.last_timestamp
    return found


def _owners(metadata: Any, producer_ids: set[int]) -> dict[int, Any]:
    """Return producer id -> DescribeTransactions of its coordinator; every broker is one, and lists its own ids only."""
    state_topic = metadata.topics.get(_TRANSACTION_STATE)
    if state_topic and any(partition.leader not in metadata.brokers for partition in state_topic.partitions.values()):
        raise ValueError(f"a partition of {_TRANSACTION_STATE} has no leader now, so one coordinator cannot be reached")
    owners = {}
    for broker in metadata.brokers.values():
        ask = partial(_ask, (broker.host, broker.port), within_s=_ANSWERS_WITHIN_S)
        wanted = ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=sorted(producer_ids))
        for one in _checked("ListTransactions", ask(wanted)).transaction_states:
            answer = ask(DescribeTransactionsRequest(version=0, transactional_ids=[one.transactional_id]))
            owners[one.producer_id] = _checked("DescribeTransactions", answer.transaction_states[0], _ID_NOT_FOUND)
    return owners


def _said(owner: Any, topic: str, partition: int, longest_ms: int) -> tuple[Any, ...]:
    """Return the last fields of an `OpenTransaction`, except the time."""
    if owner is None or owner.error_code:
        name = None if owner is None else owner.transactional_id
        return name, None, None, None, longest_ms, False
    listed = any(one.topic == topic and partition in one.partitions for one in owner.topics)
    producer = owner.producer_id, owner.producer_epoch
    return owner.transactional_id, owner.transaction_state, *producer, owner.transaction_timeout_ms, listed


def _checked(what: str, answer: Any, but: int = 0) -> Any:
    """Return the answer; raise ValueError if it has an error other than `but`."""
    if answer.error_code not in {0, but}:
        raise ValueError(f"the broker answered {what} with {_named(answer.error_code)}")
    return answer


def _longest_timeout_ms(client: Any, broker: int) -> int:
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    found = client.describe_configs([resource], request_timeout=_ANSWERS_WITHIN_S)[resource].result(_ANSWERS_WITHIN_S + 1)
    return int(found["transaction.max.timeout.ms"].value)


# transfers -------------------------------------------------------------------------------------------------------------

End = Literal["answered", "closed", "reset", "silent"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """The passage of a number of bytes over a connection of our own, e.g. through a link.

    Attributes:
        took_s: seconds from the first byte sent to the last one received.
        sent, received: bytes.
        pieces: number of reads of the answers; the kernel may join simultaneous pieces, and never splits one this small.
        end: ``answered`` all of it, ``closed`` or ``reset`` before that, or ``silent``.
    """

    took_s: float
    sent: int
    received: int
    pieces: int
    end: End

    @property
    def facts(self) -> Mapping[str, int | str]:
        """The passage as JSON values."""
        took_ms = round(1000 * self.took_s)
        return {"took_ms": took_ms, "sent": self.sent, "received": self.received, "pieces": self.pieces, "end": self.end}


def upload(address: Address, size: int, within_s: float) -> Transfer:
    """Send at least `size` bytes in pings, whose client id is as long as needed, and wait for all answers."""
    requests = -(-size // (_MOST_PADDING + _HEAD_BYTES))
    padding = min(_MOST_PADDING, max(0, -(-size // requests) - _HEAD_BYTES))
    return _exchange(address, requests, padding, within_s)


def download(address: Address, size: int, within_s: float) -> Transfer:
    """Send pings until at least `size` bytes of answers are due (some hundred each), and wait for all of them."""
    one = _exchange(address, 1, 0, within_s)
    if one.end != "answered" or one.received >= size:
        return one
    return _exchange(address, -(-size // one.received), 0, within_s)


def _exchange(address: Address, requests: int, padding: int, within_s: float) -> Transfer:
    frame = _frame(ApiVersionsRequest(version=0), client="p" * padding)
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
    """Counts the frames that come in."""

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
        return _SIZE_BYTES + int.from_bytes(self._rest[:_SIZE_BYTES], "big")
