"""Who leads a partition: elections, reassignments, and the topic settings that stand in their way."""

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.kafka import Kafka
from chaos.common.errors import InjectionError

_WITHIN_S = 10.0


def elect(kafka: Kafka, topic: str, partition: int, *, unclean: bool = False) -> None:
    """Make the preferred replica the leader or, with `unclean`, any live replica of a partition that has no leader.

    Raises:
        OSError: no broker answers.
        InjectionError: it was refused, e.g. because the partition has that leader already.
    """
    refusal = protocol.elect_leader(_answering(kafka), topic, partition, unclean=unclean)
    if refusal:
        raise InjectionError(f"no leader was elected for {topic}-{partition}: {refusal}")


def set_topic(kafka: Kafka, topic: str, key: str, value: str | None) -> None:
    """Give a topic its own value of a setting; None takes it away, so that the cluster's value holds again.

    Raises:
        KafkaException: it was refused.
    """
    how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value or "", incremental_operation=how)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in kafka.admin.incremental_alter_configs([resource], request_timeout=_WITHIN_S).values():
        future.result(_WITHIN_S + 1)


def reassign(kafka: Kafka, topic: str, partition: int, replicas: list[int]) -> None:
    """Move a partition to these brokers, the preferred leader first; it is done when the metadata say so.

    Raises:
        OSError: no broker answers.
        InjectionError: it was refused.
    """
    refusal = protocol.reassign(_answering(kafka), topic, partition, replicas)
    if refusal:
        raise InjectionError(f"{topic}-{partition} cannot be reassigned to {replicas}: {refusal}")


def _answering(kafka: Kafka) -> Address:
    """The address of a live broker.

    Raises:
        ConnectionError: there is none.
    """
    address = next((address for address in kafka.cluster.brokers.values() if protocol.answers(address)), None)
    if address is None:
        raise ConnectionError("no broker answers, so none can be asked to change the leader of a partition")
    return address
