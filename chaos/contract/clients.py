"""Kafka clients: how their options reach the processes of a run, and the positions of a consumer group.

Client options (TLS and SASL above all) pass from process to process in the environment: every user of a machine can read
command lines, and these options hold passwords.
"""

import json
import os
from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.common import clock
from chaos.contract.base import Endpoints, Topics

_LIBRDKAFKA = "KAFKA_CLIENT_OPTIONS"
_JAVA = "KAFKA_JAVA_CLIENT_OPTIONS"
_SPARK = "SPARK_APPLICATION_OPTIONS"
_WITHIN_S = 10.0
_KNOWN_WITHIN_S = 60.0


# client options ---------------------------------------------------------------------------------------------------------------


def option_variables(endpoints: Endpoints) -> dict[str, str]:
    """Return the variables with the options of a process's clients: JSON objects with text values; empty without options."""
    given = {_LIBRDKAFKA: endpoints.options, _JAVA: endpoints.java, _SPARK: endpoints.spark_options}
    return {name: json.dumps(dict(options)) for name, options in given.items() if options}


def librdkafka_options() -> dict[str, str]:
    """Return the options for librdkafka clients from this process's environment."""
    found: dict[str, str] = json.loads(os.environ.get(_LIBRDKAFKA, "{}"))
    return found


def for_spark(options: Mapping[str, str]) -> dict[str, str]:
    """Convert options of Java clients to options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in options.items()}


# positions of a consumer group ------------------------------------------------------------------------------------------------


def seed(endpoints: Endpoints, group: str, topics: Topics) -> None:
    """Commit position 0 in every partition that is read: once, before the first member joins, never at a restart.

    Raises:
        KafkaException: the group's coordinator did not answer.
        DeadlineError: the coordinator does not learn of the topic in time.
    """
    start = [TopicPartition(one.name, partition, 0) for one in topics.sources for partition in range(one.partitions)]
    with closing(_of(endpoints, group)) as asking:

        def committed() -> bool:
            try:
                checked(asking.commit(offsets=start, asynchronous=False))
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return False  # the topic is new, and this broker does not know it yet
            return True

        reason = f"the coordinator of {group} to know {', '.join(one.name for one in topics.sources)}"
        clock.wait_until(committed, within_s=_KNOWN_WITHIN_S, reason=reason, every_s=0.2)


def positions(endpoints: Endpoints, group: str, topics: Topics) -> Mapping[int, int]:
    """Return the committed position in each source partition, exclusive; a partition without one is left out.

    Raises:
        KafkaException: the group's coordinator did not answer.
    """
    asked = [TopicPartition(topics.source, partition) for partition in range(topics.partitions)]
    with closing(_of(endpoints, group)) as asking:
        return known(asking.committed(asked, timeout=_WITHIN_S))


def known(answered: list[TopicPartition]) -> Mapping[int, int]:
    """Convert the answer of a group: partition -> position.

    Raises:
        KafkaException: it has an error for one of its partitions.
    """
    return {one.partition: one.offset for one in checked(answered) if one.offset >= 0}


def checked(answered: list[TopicPartition]) -> list[TopicPartition]:
    """Return the answer of a group if it has no errors.

    Raises:
        KafkaException: it has an error for one of its partitions.
    """
    for one in answered:
        if one.error is not None:
            raise KafkaException(one.error)
    return answered


def observer(options: Mapping[str, str], group: str) -> Consumer:
    """Make a consumer that reads the positions of a group, and never joins it.

    read_committed makes the broker wait for a commit under way (require_stable, KIP-447).

    Args:
        options: those of a librdkafka client, its bootstrap servers among them.
    """
    return Consumer(
        {
            **options,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )


def _of(endpoints: Endpoints, group: str) -> Consumer:
    return observer({**endpoints.options, "bootstrap.servers": endpoints.audit}, group)
