"""A queue as a source of Structured Streaming, ``format("queue")``; its options are bootstrap, topic, group and hands_out.

The queue is a topic with one partition. It hands out a hundred records at a time. Spark writes down which ones a batch is to
read before it reads them, and asks for them a second time when it has to do the batch again.
"""

from collections.abc import Iterator
from itertools import islice

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

AT_ONCE = 100
WAITS_S = 0.5

Record = tuple[int, bytes | None, bytes | None]


class Queue(DataSource):
    """The data source that a job registers."""

    @classmethod
    def name(cls) -> str:
        return "queue"

    def schema(self) -> str:
        return "partition INT, key BINARY, value BINARY"

    def simpleStreamReader(self, schema: object) -> "Reader":  # noqa: N802, ARG002 - Spark's name and parameter
        return Reader(dict(self.options))


class Reader(SimpleDataSourceStreamReader):
    """Runs beside the driver. An offset is how many records were handed out."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._consumer: Consumer | None = None
        self._came: list[Record] = []

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"handed_out": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Record], dict[str, int]]:
        """The next hundred, or nothing as long as fewer have come."""
        if self._consumer is None:
            self._consumer = self._connected()
            if self._is_once:
                self._consumer.subscribe([self._options["topic"]])
            else:
                self._consumer.assign([self._place(start)])
        self._came += polled(self._consumer, AT_ONCE - len(self._came))
        if len(self._came) < AT_ONCE:
            return iter([]), start
        handed_out, self._came = self._came, []
        if self._is_once:
            self._consumer.commit(asynchronous=False)
        return iter(handed_out), {"handed_out": start["handed_out"] + AT_ONCE}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Record]:  # noqa: N802 - Spark's name
        """Return records again; Spark asks for them when a planned batch is not finished."""
        if self._is_once:
            return iter([])
        consumer, count = self._connected(), end["handed_out"] - start["handed_out"]
        try:
            consumer.assign([self._place(start)])
            return iter(list(islice(endless(consumer), count)))
        finally:
            consumer.close()

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept for a second time."""

    @property
    def _is_once(self) -> bool:
        return self._options["hands_out"] == "once"

    def _place(self, start: dict[str, int]) -> TopicPartition:
        return TopicPartition(self._options["topic"], 0, start["handed_out"])

    def _connected(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._options["bootstrap"],
                "group.id": self._options["group"],
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
            }
        )


def polled(consumer: Consumer, count: int) -> list[Record]:
    """At most so many records."""
    messages = consumer.consume(count, WAITS_S)
    for message in messages:
        if message.error():
            raise KafkaException(message.error())
    return [(message.partition() or 0, message.key(), message.value()) for message in messages]


def endless(consumer: Consumer) -> Iterator[Record]:
    while True:
        yield from polled(consumer, AT_ONCE)
