"""The number of records in an output: the end of its log counts offsets, and transaction markers take some of them.

A reader follows the log and counts. An offset that it has not reached may be a marker or a row of an aborted transaction, so
it counts as none. But the reader may be late, e.g. while a leader moves, and progress must not be: then the unread part is
estimated by the share of records in the read part.

librdkafka tells the end of a partition only when a fetch was empty, so a reader behind nothing but aborted transactions would
seem to be late; its statistics tell how far it has come.
"""

import json
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from chaos.cluster.kafka import Cluster
from chaos.common import clock
from chaos.contract.base import Topic

_GROUP = "chaos-counter"  # librdkafka wants one; nothing is committed to it
_AT_ONCE = 10_000
_TURNS_AT_MOST = 20  # per look
_BUFFER_KB = 16_384
_TOLD_EVERY_MS = 500
_LATE_AFTER_S = 5.0  # a reader that has its leader is behind by milliseconds, and tells it after half a second


class Counted:
    """Follows a topic of this run, from its first record on."""

    def __init__(self, cluster: Cluster, topic: Topic) -> None:
        """Prepare, without a connection."""
        own: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"{cluster.prefix}{_GROUP}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "latest",  # if an election has cut the log off: its counted records did exist
            "isolation.level": "read_committed",
            "statistics.interval.ms": _TOLD_EVERY_MS,
            "stats_cb": self._told,
            "queued.max.messages.kbytes": _BUFFER_KB,
            "log_level": 0,
        }
        self._settings: dict[str, Any] = {**cluster.options, **own}
        self._topic = topic
        self._reader: Consumer | None = None
        self._records = 0
        self._read_to: dict[int, int] = {}
        self._awaited: tuple[int, float] | None = None  # an end that the reader has not reached, and since when

    def records(self, end: int) -> int:
        """Return the number of records below the end of the log that were read, with an estimate of the rest if it is late.

        Args:
            end: the sum of the last stable offsets of all partitions.
        """
        self._read_on()
        read = sum(self._read_to.values())
        unread = max(0, end - read) if self._is_late(read, end) else 0
        if self._records and read:  # assume that unread offsets have the same share of records
            unread = unread * self._records // read
        return min(end, self._records + unread)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _is_late(self, read: int, end: int) -> bool:
        now_s = clock.monotonic_s()
        if self._awaited is None or read >= self._awaited[0]:
            self._awaited = (end, now_s) if read < end else None
        return self._awaited is not None and now_s - self._awaited[1] >= _LATE_AFTER_S

    def _read_on(self) -> None:
        reader = self._reader = self._reader or self._begun()
        for _ in range(_TURNS_AT_MOST):
            messages = reader.consume(_AT_ONCE, 0)
            for message in messages:
                self._hear(message)
            if len(messages) < _AT_ONCE:
                return

    def _begun(self) -> Consumer:
        reader = Consumer(self._settings)
        name, partitions = self._topic
        reader.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in range(partitions)])
        return reader

    def _hear(self, message: Any) -> None:
        """Count a record, or note that there is none up to an offset; any other error is temporary."""
        error = message.error()
        if error is None:
            self._records += 1
            self._passed(message.partition(), message.offset() + 1)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
            self._passed(message.partition(), message.offset())

    def _told(self, statistics: str) -> None:
        """Take the next offset to fetch of each partition; below 0 while it is not known."""
        for number, one in json.loads(statistics)["topics"].get(self._topic.name, {"partitions": {}})["partitions"].items():
            if int(number) >= 0:  # -1 is for records without a partition
                self._passed(int(number), one["next_offset"])

    def _passed(self, partition: int, offset: int) -> None:
        self._read_to[partition] = max(offset, self._read_to.get(partition, 0))
