"""A Kafka cluster, ours or one that others use: its addresses, requests to it, and the names that we may touch there.

All requests use a listener that no fault touches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from chaos.cluster import committed, groups, members, protocol
from chaos.cluster.addresses import Address, joined
from chaos.cluster.broker import Brokers
from chaos.cluster.committed import Commit, Reached
from chaos.cluster.members import Members
from chaos.cluster.topics import LATEST, list_offsets, log_ends, topic_ids
from chaos.common import clock
from chaos.common.errors import DeadlineError, ForeignNameError, InconclusiveError, InjectionError
from chaos.contract import clients
from verifiers.base import Bounds

T = TypeVar("T")

_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT)  # noqa: SLF001 - librdkafka's own codes

_ASK_S = 3.0
_ANSWER_S = 2.0
_SOCKET_MS = 5000
_SERVER_S = 10
_SETTLE_S = 15.0
_LEAVE_WITHIN_S = 60.0
_ANSWERED_WITHIN_S = 60.0
_KNOWN_WITHIN_S = 60.0
_OFFSETS_WITHIN_S = 30.0
_CHANGED_WITHIN_S = 10.0
_WARM_UP = "chaos-warm-up"
_READER = "chaos-reader"
_TRANSACTION_STATE = "__transaction_state"
_GROUP_OFFSETS = "__consumer_offsets"
STATE_TOPICS = (_TRANSACTION_STATE, _GROUP_OFFSETS)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as its clients see it: addresses of brokers, options for the login, and our part of its names.

    Attributes:
        brokers: node id -> address at which this broker can always be reached, past any proxy.
        prefix: the beginning of every topic, group and transactional id that we make; empty if the cluster is ours.
        replication: number of replicas of a topic.
        options: of librdkafka clients: TLS, SASL and other declared ones.
        java: of Kafka's Java clients, likewise.
    """

    brokers: Mapping[int, Address]
    prefix: str = ""
    replication: int = 3
    options: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """Servers for clients that no fault may touch."""
        return joined(list(self.brokers.values()))

    def client(self, bootstrap: str = "", hear: Callable[[KafkaError], object] = lambda _error: None) -> AdminClient:
        """Make an admin client that writes nothing to our logs.

        Args:
            bootstrap: servers, instead of all brokers.
            hear: called with every error of a connection.
        """
        own: dict[str, Any] = {
            "bootstrap.servers": bootstrap or self.bootstrap,
            "log_level": 0,
            "socket.timeout.ms": _SOCKET_MS,
            "error_cb": hear,
        }
        return AdminClient({**self.options, **own})

    def answers(self, number: int) -> bool:
        """Whether a broker answers a request; an open port alone does not prove that it serves."""
        if not self._security.endswith("SSL"):
            return protocol.answers(self.brokers[number])
        return self._topics_of(number) is not None

    def knows(self, number: int, topics: Sequence[str]) -> bool:
        """Whether a broker knows these topics: each hears of a new one from the controller, some time after the others.

        A group's coordinator refuses positions in topics that it does not know.
        """
        if self._security == "PLAINTEXT":
            return protocol.knows(self.brokers[number], topics)
        there = self._topics_of(number)
        return there is not None and there.issuperset(topics)

    @property
    def _security(self) -> str:
        return self.options.get("security.protocol", "PLAINTEXT").upper()

    def _topics_of(self, number: int) -> set[str] | None:
        """Return the topics that a broker knows; None if it does not answer. A new client asks the broker that it is given."""
        try:
            return set(self.client(joined([self.brokers[number]])).list_topics(timeout=_ANSWER_S).topics)
        except KafkaException:
            return None

    def watched(self, topic: str) -> bool:
        """Whether the health of a topic matters to a run: our own topics, and those of transactions and groups."""
        return topic in STATE_TOPICS or topic.startswith(self.prefix)

    def mine(self, names: Iterable[str]) -> list[str]:
        """Return these names if all are ours: topics, groups, or transactional ids, which a client makes by using them.

        On our own cluster every name is ours. On one that others use, ours begin with the prefix and no other is touched.

        Raises:
            ForeignNameError: a name does not begin with the prefix.
        """
        asked = list(names)
        foreign = [name for name in asked if not name.startswith(self.prefix) or name == self.prefix]
        if foreign:
            raise ForeignNameError(
                f"{', '.join(map(repr, foreign))} does not begin with {self.prefix!r}, so this run may not touch it on a "
                "cluster that others use: nothing was done"
            )
        return asked


class Kafka:
    """A cluster as a run uses it: its health, its leaders, its topics and groups, and the ends of its logs.

    Attributes:
        brokers: the brokers that we start; none if the cluster exists already.
    """

    def __init__(self, cluster: Cluster, brokers: Brokers) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.broker_ids = tuple(cluster.brokers)
        self._admin: AdminClient | None = None

    @property
    def is_ours(self) -> bool:
        """Whether we start it."""
        return bool(self.brokers.planned)

    @property
    def bootstrap(self) -> str:
        """Servers that no fault touches."""
        return self.cluster.bootstrap

    @property
    def admin(self) -> AdminClient:
        """A client that no fault touches; made at first use."""
        if self._admin is None:
            self._admin = self.cluster.client()
        return self._admin

    # health ------------------------------------------------------------------------------------------------------------

    def wait_until_ready(self) -> None:
        """Return when all brokers are registered and, in a cluster that we started, transactions and groups work.

        Raises:
            RuntimeUnavailableError: a broker died at start.
        """
        wait = partial(clock.wait_until, within_s=60, ignore=(KafkaException,))
        wait(self._all_registered, reason="all brokers in the metadata", every_s=0.1)
        for warm_up in (_warm_up_transactions, _warm_up_groups) if self.is_ours else ():
            wait(partial(warm_up, self.bootstrap), reason="the first coordinators to load", every_s=0.2)
        self.wait_until_healthy()

    def _all_registered(self) -> bool:
        self.brokers.check()
        return len(self.admin.list_topics(timeout=_ASK_S).brokers) == len(self.broker_ids)

    def unhealthy(self) -> list[str]:
        """Current problems in words; empty when every broker serves and every replica is in sync."""
        silent = (f"broker-{number} does not answer" for number in self.broker_ids if not self.cluster.answers(number))
        wrong = self.brokers.dead() or list(silent)
        if wrong:
            return wrong
        try:
            topics = self.admin.list_topics(timeout=_ASK_S).topics
        except KafkaException as error:
            return [f"no broker gives metadata: {error}"]
        return [
            f"{name}-{number} has {len(partition.isrs)} of {len(partition.replicas)} replicas in sync"
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
            if self.cluster.watched(name) and (partition.leader < 0 or len(partition.isrs) < len(partition.replicas))
        ]

    def wait_until_healthy(self, within_s: float = 30) -> None:
        """Return when `unhealthy` finds nothing.

        Raises:
            DeadlineError: a problem remains.
        """
        clock.wait_until(
            lambda: not self.unhealthy(), within_s=within_s, reason="a healthy cluster", every_s=0.1, seen=self.unhealthy
        )

    # leaders and replicas ----------------------------------------------------------------------------------------------

    def address(self, number: int) -> Address:
        """The address at which a broker can always be reached, past any proxy."""
        return self.cluster.brokers[number]

    def controller(self) -> int:
        """The active controller, from the first broker that knows it.

        Raises:
            LookupError: no broker knows it.
        """
        for address in self.cluster.brokers.values():
            try:
                return protocol.quorum_leader(address)
            except OSError:
                continue
        raise LookupError("no broker knows the leader of the controller quorum")

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition now.

        Raises:
            LookupError: there is no such partition, or it has no leader.
        """
        metadata = self._partition(topic, partition)
        if metadata.leader < 0:
            raise LookupError(f"{topic}-{partition} has no leader now")
        return int(metadata.leader)

    def followers(self, topic: str, partition: int) -> list[int]:
        """The replicas of a partition that do not lead it."""
        metadata = self._partition(topic, partition)
        return sorted(replica for replica in metadata.replicas if replica != metadata.leader)

    def replicas(self, topic: str, partition: int) -> list[int]:
        """All replicas of a partition; the first is its preferred leader."""
        return list(self._partition(topic, partition).replicas)

    def in_sync(self, topic: str, partition: int) -> list[int]:
        """The replicas of a partition that are in sync, sorted."""
        return sorted(self._partition(topic, partition).isrs)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Id of each topic, in hexadecimal digits -> its name."""
        found = self._asked(lambda admin: topic_ids(admin, topics, _ASK_S))
        return {id_: name for name, id_ in found.items()}

    def transaction_partition(self, transactional_id: str) -> tuple[str, int]:
        """The partition of ``__transaction_state`` that holds a transactional id; its leader is the coordinator."""
        return self._owning(_TRANSACTION_STATE, transactional_id)

    def group_partition(self, group: str) -> tuple[str, int]:
        """The partition of ``__consumer_offsets`` that holds a consumer group; its leader is the coordinator.

        Raises:
            LookupError: the pipeline has no group.
        """
        if not group:
            raise LookupError("this pipeline has no consumer group")
        return self._owning(_GROUP_OFFSETS, group)

    def members(self, group: str) -> int:
        """Number of members of a consumer group; 0 while it rebalances, or if it does not exist.

        Raises:
            KafkaException: its coordinator does not answer now.
        """
        found = self.described(group)
        return len(found.members) if found.stable else 0

    def described(self, group: str) -> Members:
        """The members of a consumer group, of the classic protocol or of KIP-848.

        Raises:
            KafkaException: its coordinator does not answer now.
        """
        classic = self._asked(lambda admin: members.of_classic(admin, group, _ASK_S))
        if classic is not None:
            return classic
        try:
            coordinator = self.address(self.leader(*self.group_partition(group)))
        except LookupError:
            return Members()  # the first member of any group makes the topic of positions
        return members.of_consumer_protocol(coordinator, self.cluster.options, group, _ASK_S)

    def committed(self, group: str, topic: str) -> Iterator[Commit]:
        """Yield every position that a consumer group committed in a topic, in order.

        Raises:
            InconclusiveError: they cannot be read.
        """
        options = {**self.cluster.options, "bootstrap.servers": self.bootstrap}
        return committed.read(options, self.group_partition(group), group, topic)

    def reads(self, group: str) -> dict[str, tuple[int, Mapping[int, int]]]:
        """Return topic -> its number of partitions, and the group's positions in it, for all topics that the group reads.

        Deleted topics are left out, and on a cluster that others use also topics that are not ours.

        Raises:
            KafkaException: no broker answers now.
        """
        topics = self._asked(lambda admin: admin.list_topics(timeout=_ASK_S).topics)
        ours = (name for name in topics if name.startswith(self.cluster.prefix) and name not in STATE_TOPICS)
        there = {name: len(topics[name].partitions) for name in ours}
        observer = clients.observer({**self.cluster.options, "bootstrap.servers": self.bootstrap}, group)
        known = groups.positions(observer, there, _ASK_S)
        assigned = {topic for member in self.described(group).members for topic in member.topics}
        names = (known.keys() | assigned | groups.repartitions(group, there)) & there.keys()
        return {name: (there[name], known.get(name, {})) for name in sorted(names)}

    def reached(self, group: str, topics: Iterable[tuple[str, int]]) -> Iterator[Reached]:
        """Yield the committed positions in several topics, partitions numbered through, with the transactions that moved them.

        Args:
            topics: name and number of partitions.

        Raises:
            InconclusiveError: they cannot be read.
        """
        name, number = self.group_partition(group)
        ends = self._asked(lambda admin: log_ends(admin, name, [number], _ASK_S))
        read = {partition: (one.low, one.hw) for partition, one in ends.items()}
        moved = committed.in_transactions(protocol.read_batches(self.bootstrap, name, read))
        first = 0
        for topic, partitions in topics:
            seen = (one for one in self.committed(group, topic) if one.seq < ends[number].hw)  # no batch of the others was read
            yield from committed.with_producers(seen, moved, first)
            first += partitions

    def _owning(self, topic: str, name: str) -> tuple[str, int]:
        partitions = len(self.admin.list_topics(topic, timeout=_ASK_S).topics[topic].partitions)
        return topic, java_hash(name) % partitions

    def _partition(self, topic: str, partition: int) -> Any:
        topics = self.admin.list_topics(topic, timeout=_ASK_S).topics
        if partition not in topics[topic].partitions:
            raise LookupError(f"the partition {topic}-{partition} does not exist")
        return topics[topic].partitions[partition]

    # topics and groups: only here are they made and removed -----------------------------------------------------------

    def create(
        self, topics: Iterable[str], partitions: int, config: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        """Create topics, and return when every broker knows them, and every replica is in sync.

        A request without an answer is repeated.

        Partition p is led by broker p + 1 (from the first again when there are fewer): Kafka's own choice is a random one.

        Args:
            config: settings of each.
            validate_only: let the cluster only check the request, and make nothing.

        Raises:
            ForeignNameError: one of them is not ours.
            KafkaException: the cluster refuses.
            DeadlineError: it does not answer, or a broker does not hear of them; where they are only checked, an answer that is
                missing is a KafkaException.
        """
        names, copies = self.cluster.mine(topics), range(self.cluster.replication)
        placed: Any = [
            [self.broker_ids[(number + copy) % len(self.broker_ids)] for copy in copies] for number in range(partitions)
        ]
        how: dict[str, Any] = {"num_partitions": partitions, "replica_assignment": placed, "config": dict(config or {})}
        wanted = [NewTopic(name, **how) for name in names]
        if validate_only:
            _settle(self.admin.create_topics(wanted, operation_timeout=_SERVER_S, validate_only=True))
            return
        was_sent = False

        def create() -> None:
            nonlocal was_sent
            there = KafkaError.TOPIC_ALREADY_EXISTS if was_sent else None  # perhaps by the request whose answer did not come
            was_sent = True
            self._asked(lambda admin: _settle(admin.create_topics(wanted, operation_timeout=_SERVER_S), there))

        _until_answered(create, f"the topics {', '.join(names)} to be created")

        def not_told() -> list[int]:
            return [number for number in self.broker_ids if not self.cluster.knows(number, names)]

        clock.wait_until(
            lambda: not not_told(),
            within_s=_KNOWN_WITHIN_S,
            reason=f"all brokers to know {', '.join(names)}",
            every_s=0.1,
            seen=not_told,
        )
        self.wait_until_healthy()

    def delete(self, topics: Iterable[str]) -> None:
        """Delete topics; missing ones are passed over.

        Raises:
            ForeignNameError: one of them is not ours.
            KafkaException: the cluster refuses.
            DeadlineError: it does not answer.
        """
        names, gone = self.cluster.mine(topics), KafkaError.UNKNOWN_TOPIC_OR_PART

        def delete() -> None:
            self._asked(lambda admin: _settle(admin.delete_topics(names, operation_timeout=_SERVER_S), gone))

        _until_answered(delete, f"the topics {', '.join(names)} to be deleted")

    def delete_group(self, group: str) -> None:
        """Delete a consumer group, if it exists, once its members have left.

        Raises:
            ForeignNameError: it is not ours.
            DeadlineError: a member does not leave.
        """
        names = self.cluster.mine([group])

        def deleted() -> bool:
            _settle(self.admin.delete_consumer_groups(names, request_timeout=_SERVER_S), KafkaError.GROUP_ID_NOT_FOUND)
            return True

        clock.wait_until(
            deleted, within_s=_LEAVE_WITHIN_S, reason=f"the group {group} to be deleted", every_s=0.5, ignore=(KafkaException,)
        )

    def clear_group(self, group: str) -> None:
        """Delete all traces of a group, and the topics that Kafka Streams made for it.

        A run may have been killed, and a static member stays in its group until its session is over. On our own cluster such
        members are removed; elsewhere this waits for their end.

        Raises:
            ForeignNameError: it is not ours.
            InconclusiveError: a member does not leave.
            KafkaException: the cluster refuses.
        """
        names = self.cluster.mine([group])

        def deleted() -> bool:
            try:
                _settle(self.admin.delete_consumer_groups(names, request_timeout=_SERVER_S), KafkaError.GROUP_ID_NOT_FOUND)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise
                if error.args[0].code() == KafkaError.NON_EMPTY_GROUP:
                    self._remove_members(group)
                return False
            return True

        reason = f"the members of the group {group} to leave"
        try:
            clock.wait_until(deleted, within_s=_LEAVE_WITHIN_S, reason=reason, every_s=0.5)
        except DeadlineError as error:
            mend = "end that program, or put {suffix} into the group's name, so that each run has a group of its own"
            raise InconclusiveError(f"{error}; a program uses it, or an earlier run has left members in it: {mend}") from error
        self.delete_internal(group)

    def delete_internal(self, group: str) -> None:
        """Delete the topics that a Kafka Streams application of this id has made for itself, if they are ours."""
        there = self.admin.list_topics(timeout=_ASK_S).topics if group else ()
        made = [name for name in groups.internal(group, there) if name.startswith(self.cluster.prefix)]
        if made:
            self.delete(made)

    def _remove_members(self, group: str) -> None:
        if not self.is_ours:
            return
        with suppress(KafkaException, OSError, LookupError):  # it is tried again
            there = [(one.member_id, one.instance_id) for one in self.described(group).members]
            protocol.remove_members(self.address(self.leader(*self.group_partition(group))), group, there)

    # ends of logs ------------------------------------------------------------------------------------------------------

    def offsets(self, topic: str, partitions: int) -> dict[int, Bounds]:
        """Return the ends of every partition, like `log_ends`.

        Raises:
            KafkaException: a leader does not answer now.
        """
        return self._asked(lambda admin: log_ends(admin, topic, range(partitions), _ASK_S))

    def settled_offsets(self, topic: str, partitions: int) -> dict[int, Bounds]:
        """Return the ends of every partition, and repeat the request until every leader answers.

        Raises:
            DeadlineError: a leader does not answer.
        """
        return clock.wait_until(
            lambda: self.offsets(topic, partitions),
            within_s=_OFFSETS_WITHIN_S,
            reason=f"the offsets of {topic}",
            every_s=0.2,
            ignore=(KafkaException,),
        )

    def end(self, topic: str, partitions: int, level: IsolationLevel) -> int:
        """Sum of the ends of a topic's partitions at an isolation level; cheap enough for frequent calls.

        Raises:
            KafkaException: a leader does not answer now.
        """
        return sum(self.ends(topic, partitions, level).values())

    def ends(self, topic: str, partitions: int, level: IsolationLevel) -> dict[int, int]:
        """End of each partition at an isolation level; cheap enough for frequent calls.

        Raises:
            KafkaException: a leader does not answer now.
        """
        return self._asked(lambda admin: list_offsets(admin, topic, range(partitions), LATEST, level, _ASK_S))

    def has_records(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a read_committed reader that begins at an offset gets a record; markers are hidden from it.

        Raises:
            KafkaException: the leader does not answer now.
        """
        options: dict[str, Any] = {
            **self.cluster.options,
            "bootstrap.servers": self.bootstrap,
            "group.id": f"{self.cluster.prefix}{_READER}",  # librdkafka wants one; nothing is committed to it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        with closing(Consumer(options)) as reader:
            reader.assign([TopicPartition(topic, partition, offset)])
            found = reader.poll(_ASK_S)
        error = KafkaError(KafkaError._TIMED_OUT) if found is None else found.error()  # noqa: SLF001 - librdkafka's own codes
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - likewise
            raise KafkaException(error)
        return error is None

    def _asked(self, ask: Callable[[AdminClient], T]) -> T:
        try:
            return ask(self.admin)
        except KafkaException:
            # librdkafka keeps a stale leader epoch or metadata request: a new client starts afresh
            self._admin = None
            raise

    # who leads a partition ---------------------------------------------------------------------------------

    def elect(self, topic: str, partition: int, *, unclean: bool = False) -> None:
        """Make the preferred replica the leader or, with `unclean`, any live replica of a partition that has no leader.

        Raises:
            OSError: no broker answers.
            InjectionError: it was refused, e.g. because the partition has that leader already.
        """
        refusal = protocol.elect_leader(self._answering(), topic, partition, unclean=unclean)
        if refusal:
            raise InjectionError(f"no leader was elected for {topic}-{partition}: {refusal}")

    def set_topic(self, topic: str, key: str, value: str | None) -> None:
        """Give a topic its own value of a setting; None removes it, so that the cluster's value holds again.

        Raises:
            KafkaException: it was refused.
        """
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value or "", incremental_operation=how)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource], request_timeout=_CHANGED_WITHIN_S).values():
            future.result(_CHANGED_WITHIN_S + 1)

    def reassign(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Start to move a partition to these brokers, the preferred leader first; the metadata show when it is done.

        Raises:
            OSError: no broker answers.
            InjectionError: it was refused.
        """
        refusal = protocol.reassign(self._answering(), topic, partition, replicas)
        if refusal:
            raise InjectionError(f"{topic}-{partition} cannot be reassigned to {replicas}: {refusal}")

    def _answering(self) -> Address:
        """The address of a live broker.

        Raises:
            ConnectionError: no broker answers.
        """
        address = next((address for address in self.cluster.brokers.values() if protocol.answers(address)), None)
        if address is None:
            raise ConnectionError("no broker answers, so the leader of a partition cannot be changed")
        return address


def _settle(futures: Mapping[str, Future[Any]], missing: int | None = None) -> None:
    """Wait for all, and ignore errors with the code `missing`."""
    for future in futures.values():
        try:
            future.result(_SETTLE_S)
        except KafkaException as error:
            if error.args[0].code() != missing:
                raise


def _until_answered(send: Callable[[], None], reason: str) -> None:
    """Send a request again for as long as its answer does not come: the broker may be busy, or an answer was lost."""
    last = ""

    def answered() -> bool:
        nonlocal last
        try:
            send()
        except KafkaException as error:
            if error.args[0].code() not in _NO_ANSWER:
                raise
            last = str(error)
            return False
        return True

    clock.wait_until(answered, within_s=_ANSWERED_WITHIN_S, reason=reason, every_s=0.5, seen=lambda: last)


def _warm_up_transactions(bootstrap: str) -> bool:
    """Make ``__transaction_state`` by a first transactional producer; until it has loaded, brokers refuse others."""
    Producer({"bootstrap.servers": bootstrap, "transactional.id": _WARM_UP, "log_level": 0}).init_transactions(30)
    return True


def _warm_up_groups(bootstrap: str) -> bool:
    """Make ``__consumer_offsets`` by a first group."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": _WARM_UP, "log_level": 0})) as consumer:
        consumer.committed([TopicPartition(_WARM_UP, 0)], timeout=30)
    return True


def java_hash(text: str) -> int:
    """Absolute value of ``text.hashCode()``, by which Kafka finds the partition of a group or a transactional id.

    Like Kafka's ``Utils.abs`` (GroupCoordinatorService.partitionFor), it is 0 for the smallest number, which has none.
    """
    data, value = text.encode("utf-16-be"), 0
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) & 0xFFFFFFFF
    return min(value, (1 << 32) - value) % (1 << 31)
