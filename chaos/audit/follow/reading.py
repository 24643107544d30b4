"""What a follower reads: the records of both sides, and the ends of their logs."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.audit.follow.matching import Follow
from chaos.audit.follow.options import Plan, identify
from chaos.audit.follow.report import Numbers
from chaos.audit.follow.rows import SIDES, Mark, Row, Side
from chaos.audit.logs import ASK_S, AuditUsageError, Topics, compacted_why, there_are
from chaos.cluster.topics import log_ends, topic_ids
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.contract.clients import known
from verifiers.base import Bounds

_AT_ONCE = 5000
_POLL_S = 0.1
_ASK_EVERY_S = 1.0
_GONE = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}  # noqa: SLF001 - no other names
)
_HOPELESS = frozenset(  # reading is not authorized, or not possible: records would be missing from the comparison
    {
        *(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION),  # noqa: SLF001
        *(KafkaError.INVALID_MSG, KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED),  # noqa: SLF001
    }
)
_FRUGAL = {  # limits what librdkafka reads ahead, by default 64 MB for each consumer
    "queued.max.messages.kbytes": 16_384,
    "fetch.max.bytes": 16_777_216,
    "reconnect.backoff.max.ms": 1000,
}


class Reader:
    """Read the topics of one side."""

    def __init__(self, side: Side, settings: Mapping[str, Any], plan: Plan) -> None:
        own = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}
        quiet = {"isolation.level": "read_committed", "log_level": 0}
        self._consumer = Consumer(
            {**_FRUGAL, **settings, **own, **quiet, "group.id": f"{plan.topics.groups or 'chaos-audit'}-follow"}
        )
        self._side: Side = side
        self._numbers: Numbers = {}
        self._identify = identify(plan.identity)
        self.lost = set[int]()  # partitions whose next offset does not exist any more
        self.rewritten = set[int]()  # the lost ones whose log was truncated before that offset, and has grown beyond it again

    def assign(self, numbers: Numbers, at: Mapping[int, int]) -> None:
        """Continue at these offsets, and drop what was read ahead."""
        self._numbers = numbers
        self.lost, self.rewritten = set(), set()
        places = [TopicPartition(topic, one, at[own[one]]) for topic, own in numbers.items() for one in own]
        self._consumer.assign(places)

    def read(self, follow: Follow) -> int:
        """Take the available records; return how many.

        Raises:
            InconclusiveError: reading is not authorized, or the records cannot be read.
        """
        found: list[Any] = self._consumer.consume(_AT_ONCE, _POLL_S)
        ends, rows = list[tuple[int, int]](), list[Row]()
        for message in found:
            error = message.error()
            if error is None:
                rows.append((self._number(message), message.offset(), self._identify(message), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
                ends.append((self._number(message), message.offset()))
            elif error.code() in _GONE:
                self.lost.add(self._number(message))
                if error.code() == KafkaError._LOG_TRUNCATION:  # noqa: SLF001 - it has no other name
                    self.rewritten.add(self._number(message))
            elif error.code() in _HOPELESS:
                raise InconclusiveError(f"{message.topic() or self._side} cannot be read: {error.str()}")
        take = follow.read_source if self._side == "source" else follow.read_sink
        take(rows, clock.now_ms())
        for partition, offset in ends:
            follow.reached(self._side, partition, offset)
        return len(rows)

    def _number(self, message: Any) -> int:
        return self._numbers[message.topic()][message.partition()]

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of the logs, as the brokers gave them.

    Attributes:
        asked_ms: the time before they were asked.
        mark: how far the sink was read by then.
        ends: bounds of each partition of each side.
        positions: positions of the group; None without one.
        ids: ids of the topics, read after the ends: if they have not changed, the ends belong to the same logs as before.
    """

    asked_ms: int
    mark: Mark
    ends: Mapping[Side, Mapping[int, Bounds]]
    numbers: Mapping[Side, Numbers]
    positions: Mapping[int, int] | None
    ids: Mapping[str, str] = field(default_factory=dict)

    def unread(self, follow: Follow) -> list[tuple[Side, int]]:
        """Return the sides and partitions that are not read, or not judged, to these ends."""
        to: dict[Side, Mapping[int, int]] = {"source": follow.at["source"], "sink": follow.judged}
        return [(side, one) for side in SIDES for one, ends in self.ends[side].items() if to[side].get(one, 0) < ends.hw]


class Brokers:
    """Ask the brokers in a thread, because a leader that is gone answers late; one question at a time."""

    def __init__(self, topics: Topics, settings: Mapping[str, Any]) -> None:
        self._topics = topics
        self._admin = AdminClient({**settings, "log_level": 0, "socket.timeout.ms": int(ASK_S * 1000)})
        group = {"group.id": topics.group, "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0}
        self._group = Consumer({**settings, **group}) if topics.group else None
        self._thread = ThreadPoolExecutor(1, "ends")

    def ask(self, mark: Mark) -> "Future[Ends]":
        return self._thread.submit(self.ends, mark)

    def ends(self, mark: Mark) -> Ends:
        """Read the ends, the sink's first: the records of its rows are in the source before the source's ends are read.

        Raises:
            AuditUsageError: a topic does not exist, or the group never committed.
            KafkaException: a leader does not answer now.
        """
        asked_ms = clock.now_ms()
        metadata, topics = there_are(self._admin, self._topics), self._topics
        step = max(len(topics.sources), len(topics.sinks))

        def numbered(those: tuple[str, ...]) -> Numbers:
            """Give the n-th topics of both sides the same numbers, which do not change when partitions are added."""
            asked = enumerate(those)
            return {topic: {one: one * step + place for one in sorted(metadata[topic].partitions)} for place, topic in asked}

        numbers: dict[Side, Numbers] = {"source": numbered(topics.sources), "sink": numbered(topics.sinks)}
        positions = self._positions(numbers["source"])
        sink, source = self._of(numbers["sink"]), self._of(numbers["source"])
        ids = topic_ids(self._admin, (*topics.sources, *topics.sinks), ASK_S)
        return Ends(asked_ms, mark, {"source": source, "sink": sink}, numbers, positions, ids)

    def compacted(self, numbers: Numbers) -> str:
        return compacted_why(self._admin, numbers)

    def cluster(self) -> str:
        return str(self._admin.list_topics(timeout=ASK_S).cluster_id)

    def _of(self, numbers: Numbers) -> Mapping[int, Bounds]:
        ends = {topic: log_ends(self._admin, topic, own, ASK_S) for topic, own in numbers.items()}
        return {own[one]: ends[topic][one] for topic, own in numbers.items() for one in own}

    def _positions(self, numbers: Numbers) -> Mapping[int, int] | None:
        if self._group is None:
            return None
        asked = {topic: [TopicPartition(topic, one) for one in own] for topic, own in numbers.items()}
        found = {topic: known(self._group.committed(those, timeout=ASK_S)) for topic, those in asked.items()}
        if not any(found.values()):
            names = " or ".join(map(repr, numbers))
            raise AuditUsageError(f"the group {self._topics.group!r} never committed a position in {names}: is that its name?")
        return {numbers[topic][one]: at for topic, those in found.items() for one, at in those.items()}

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._group is not None:
            self._group.close()


class Questions:
    """Ask the brokers for the ends again and again, and print when they do not answer."""

    def __init__(self, brokers: Brokers, say: Callable[[str], None], now_ms: int) -> None:
        self._brokers, self._say = brokers, say
        self._asking: Future[Ends] | None = None
        self._asked_ms = self._due_ms = now_ms
        self._every_ms = round(1000 * _ASK_EVERY_S)
        self._silent_ms = 0
        self.silent_why = ""  # why the brokers do not answer; empty while they do
        self.read_to: Mapping[int, int] = {}  # how far the source was read when the last question was asked

    def hurry(self, every_ms: int) -> None:
        """Ask now, and more often from now on."""
        self._due_ms, self._every_ms = 0, every_ms

    def ask(self, follow: Follow) -> None:
        """Ask if it is time, and if no question is open."""
        if self._asking is None and clock.now_ms() >= self._due_ms:
            self._asked_ms = clock.now_ms()
            self._due_ms = self._asked_ms + self._every_ms
            self.read_to = dict(follow.at["source"])
            self._asking = self._brokers.ask(follow.mark())

    def answer(self) -> Ends | None:
        """Return the answer of the last question, once; None if there is none."""
        if self._asking is None or not self._asking.done():
            return None
        asking, self._asking = self._asking, None
        now_ms = clock.now_ms()
        try:
            found = asking.result()
        except (KafkaException, AuditUsageError) as error:
            if not self._silent_ms:
                self._silent_ms = self._asked_ms
                self.silent_why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
                self._say(f"the brokers do not give the ends of the logs ({self.silent_why}): judging waits until they answer")
            return None
        if self._silent_ms:
            self._say(f"the brokers answer again after {self.silent_s(now_ms):.0f} s")
            self._silent_ms, self.silent_why = 0, ""
        return found

    def silent_s(self, now_ms: int) -> float:
        """Return how long the brokers have not answered; 0 while they do."""
        return (now_ms - self._silent_ms) / 1000 if self._silent_ms else 0.0


def place(numbers: Numbers, partition: int) -> tuple[str, int]:
    return next((topic, one) for topic, own in numbers.items() for one, there in own.items() if there == partition)
