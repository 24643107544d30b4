"""A cluster, and what can be asked of it over a listener that no fault touches; and its brokers, where they are ours."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.broker import Broker
from chaos.cluster.cluster import Cluster
from chaos.cluster.guard import Guard
from chaos.cluster.offsets import listed
from chaos.cluster.partitions import java_hash
from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.runtime.base import Process, Runtime
from verifiers.base import Bounds

PARTITIONS = 3  # of every topic of a run
_ASK_S = 3.0
_OFFSETS_WITHIN_S = 30.0
_TRANSACTION_STATE = "__transaction_state"
_GROUP_OFFSETS = "__consumer_offsets"
_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Kafka:
    """KRaft brokers of ours, or a cluster that is already there."""

    def __init__(self, runtime: Runtime, cluster: Cluster, brokers: Sequence[Broker] = ()) -> None:
        """Describe the cluster; nothing is started yet.

        Args:
            brokers: those that we start; none of a cluster that is already there.
        """
        self.cluster = cluster
        self.guard = Guard(cluster.prefix)
        self.numbers = tuple(cluster.brokers)
        self._runtime = runtime
        self._brokers = brokers
        self.processes: dict[int, Process] = {}
        self._admin: AdminClient | None = None

    @property
    def is_ours(self) -> bool:
        """Whether we start it."""
        return bool(self._brokers)

    @property
    def bootstrap(self) -> str:
        """Where no fault is."""
        return self.cluster.bootstrap

    @property
    def admin(self) -> AdminClient:
        """A client that no fault touches; made at first use."""
        if self._admin is None:
            self._admin = self.cluster.client()
        return self._admin

    def start(self) -> None:
        """Format and start those brokers that are ours; `wait_until_ready` says when they serve."""
        for broker in self._brokers:
            broker.write_files()
        formats = [(broker, self._runtime.start(broker.format_spec())) for broker in self._brokers]
        for broker, process in formats:
            clock.wait_until(partial(_ended, process), within_s=60, reason=f"{process.spec.name} to end")
            if process.exit_code():
                raise RuntimeUnavailableError(f"the storage of {broker.name} could not be formatted; see {process.spec.log}")
        for broker in self._brokers:
            self.processes[broker.number] = self._runtime.start(broker.serve_spec())

    def wait_until_ready(self) -> None:
        """Return when all brokers are registered and, of a cluster that we started, transactions and groups work.

        Raises:
            RuntimeUnavailableError: a broker died at start.
        """
        clock.wait_until(
            self._all_registered, within_s=60, reason="all brokers in the metadata", every_s=0.1, ignore=(KafkaException,)
        )
        for warm_up in (self._warm_up_transactions, self._warm_up_groups) if self.is_ours else ():
            clock.wait_until(
                warm_up, within_s=60, reason="the first coordinators to load", every_s=0.2, ignore=(KafkaException,)
            )
        self.wait_until_healthy()

    def _warm_up_transactions(self) -> bool:
        """The first transactional producer makes ``__transaction_state``; until that has loaded, others are turned away."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "chaos-warm-up", "log_level": 0})
        producer.init_transactions(30)
        return True

    def _warm_up_groups(self) -> bool:
        """The first group makes ``__consumer_offsets``."""
        with closing(Consumer({"bootstrap.servers": self.bootstrap, "group.id": "chaos-warm-up", "log_level": 0})) as consumer:
            consumer.committed([TopicPartition("chaos-warm-up", 0)], timeout=30)
        return True

    def _all_registered(self) -> bool:
        for number, process in self.processes.items():
            if not process.alive():
                raise RuntimeUnavailableError(f"broker-{number} ended with {process.exit_code()}; see {process.spec.log}")
        return len(self.admin.list_topics(timeout=_ASK_S).brokers) == len(self.numbers)

    # what a fault or a verifier asks -----------------------------------------------------------------------------------

    def address(self, number: int) -> Address:
        """Where a broker can always be reached."""
        return self.cluster.brokers[number]

    def unhealthy(self) -> list[str]:
        """What is wrong now, in words; empty when every broker serves and every replica is in sync."""
        dead = [f"broker-{number} does not run" for number, process in self.processes.items() if not process.alive()]
        if dead:
            return dead
        silent = [f"broker-{number} does not answer" for number in self.numbers if not self.cluster.answers(number)]
        if silent:
            return silent
        try:
            topics = self.admin.list_topics(timeout=_ASK_S).topics
        except KafkaException as error:
            return [f"metadata cannot be had: {error}"]
        return [
            f"{name}-{number} has {len(partition.isrs)} of {len(partition.replicas)} replicas in sync"
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
            if self.cluster.watched(name) and (partition.leader < 0 or len(partition.isrs) < len(partition.replicas))
        ]

    def wait_until_healthy(self, within_s: float = 30) -> None:
        """Return when `unhealthy` has nothing to say."""
        clock.wait_until(
            lambda: not self.unhealthy(), within_s=within_s, reason="a healthy cluster", every_s=0.1, seen=self.unhealthy
        )

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition now.

        Raises:
            LookupError: no such partition, or it has no leader.
        """
        metadata = self._partition(topic, partition)
        if metadata.leader < 0:
            raise LookupError(f"{topic}-{partition} has no leader now")
        return int(metadata.leader)

    def followers(self, topic: str, partition: int) -> list[int]:
        """The other replicas of a partition."""
        metadata = self._partition(topic, partition)
        return sorted(replica for replica in metadata.replicas if replica != metadata.leader)

    def replicas(self, topic: str, partition: int) -> list[int]:
        """All replicas of a partition; the first is its preferred leader."""
        return list(self._partition(topic, partition).replicas)

    def in_sync(self, topic: str, partition: int) -> list[int]:
        """The replicas of a partition that are in sync."""
        return sorted(self._partition(topic, partition).isrs)

    def data(self, number: int) -> Path:
        """Where a broker keeps its logs."""
        return self._brokers[number - 1].data

    def _owning(self, topic: str, name: str) -> tuple[str, int]:
        partitions = len(self.admin.list_topics(topic, timeout=_ASK_S).topics[topic].partitions)
        return topic, java_hash(name) % partitions

    def _partition(self, topic: str, partition: int) -> Any:
        topics = self.admin.list_topics(topic, timeout=_ASK_S).topics
        if partition not in topics[topic].partitions:
            raise LookupError(f"there is no partition {topic}-{partition}")
        return topics[topic].partitions[partition]

    def transaction_partition(self, transactional_id: str) -> tuple[str, int]:
        """The partition of ``__transaction_state`` that holds a transactional.id."""
        return self._owning(_TRANSACTION_STATE, transactional_id)

    def group_partition(self, group: str) -> tuple[str, int]:
        """The partition of ``__consumer_offsets`` that holds a consumer group.

        Raises:
            LookupError: there is no group.
        """
        if not group:
            raise LookupError("this pipeline has no consumer group")
        return self._owning(_GROUP_OFFSETS, group)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional.id: the leader of its partition."""
        return self.leader(*self.transaction_partition(transactional_id))

    def group_coordinator(self, group: str) -> int:
        """The broker that coordinates a consumer group: the leader of its partition."""
        return self.leader(*self.group_partition(group))

    def controller(self) -> int:
        """The active controller, asked of the first broker that knows."""
        for number in self.numbers:
            try:
                return protocol.quorum_leader(self.address(number))
            except OSError:
                continue
        raise LookupError("no broker knows the leader of the controller quorum")

    # topics ------------------------------------------------------------------------------------------------------------

    def create(self, topics: Iterable[str], partitions: int) -> None:
        """Create topics, and return when every replica is in sync.

        Partition p is led by broker p + 1 (from the first again when there are fewer): Kafka's own choice is a random one.

        Raises:
            ForeignNameError: one of them is not ours.
        """
        copies = range(self.cluster.replication)
        placed = [[self.numbers[(number + copy) % len(self.numbers)] for copy in copies] for number in range(partitions)]
        self.guard.create(self.admin, topics, placed)
        self.wait_until_healthy()

    def delete(self, topics: Iterable[str]) -> None:
        """Delete topics; one that is not there is no error.

        Raises:
            ForeignNameError: one of them is not ours.
        """
        self.guard.delete(self.admin, topics)

    def delete_group(self, group: str) -> None:
        """Delete a consumer group once its members have left; one that is not there is no error.

        Raises:
            ForeignNameError: it is not ours.
            DeadlineError: a member does not leave.
        """
        self.guard.delete_group(self.admin, group)

    def offsets(self, topic: str, partitions: int) -> dict[int, Bounds]:
        """Low, LSO and HW of every partition, in that order, so that LSO <= HW always.

        Raises:
            KafkaException: a leader does not answer now.
        """
        low = self._list(topic, partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        lso = self._list(topic, partitions, _LATEST, IsolationLevel.READ_COMMITTED)
        hw = self._list(topic, partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        return {number: Bounds(low[number], lso[number], hw[number]) for number in range(partitions)}

    def settled_offsets(self, topic: str, partitions: int) -> dict[int, Bounds]:
        """The same, asked again until every leader answers.

        Raises:
            DeadlineError: one does not.
        """
        return clock.wait_until(
            lambda: self.offsets(topic, partitions),
            within_s=_OFFSETS_WITHIN_S,
            reason=f"the offsets of {topic}",
            every_s=0.2,
            ignore=(KafkaException,),
        )

    def end(self, topic: str, partitions: int, level: IsolationLevel) -> int:
        """Sum of the ends of a topic's partitions at an isolation level; cheap enough to be asked often."""
        ends: Iterable[int] = self._list(topic, partitions, _LATEST, level).values()
        return sum(ends)

    def _list(self, topic: str, partitions: int, spec: Any, level: IsolationLevel) -> dict[int, int]:
        try:
            return listed(self.admin, topic, range(partitions), spec, level, _ASK_S)
        except KafkaException:
            # librdkafka keeps a leader epoch, or a metadata request, that is of no use: a new client asks anew
            self._admin = None
            raise


def _ended(process: Process) -> bool:
    return not process.alive()
