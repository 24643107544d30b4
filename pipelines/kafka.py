"""Shared parts of the pipelines as Kafka clients: their options, the id of a topic, and a call with a deadline.

Client options (TLS and SASL above all) come in the environment: every user of a machine can read command lines, and these
options hold passwords.

`Producer.send_offsets_to_transaction` takes a time limit and does not keep it: librdkafka 2.16 never compares the clock with
the limit of a request to the group's coordinator (``creq_ts_timeout`` in rdkafka_coord.c; issues 5456 and 5511). When that
broker is down, the request waits until some connection of this client changes its state, which may be never. See
docs/findings/send-offsets-hangs.md. So this module makes the call with a deadline.
"""

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

_LIBRDKAFKA = "KAFKA_CLIENT_OPTIONS"
_JAVA = "KAFKA_JAVA_CLIENT_OPTIONS"
_SPARK = "SPARK_APPLICATION_OPTIONS"
_WITHIN_S = 10.0
_GRACE_S = 1.0
_SEND_OFFSETS = "send_offsets_to_transaction"
_RAISED = (KafkaException, RuntimeError, TypeError, ValueError)  # errors of confluent-kafka


class HungError(RuntimeError):
    """The call is still under way, in an abandoned thread; its producer must not be used again."""


def topic_id(bootstrap: str, topic: str, options: Mapping[str, str]) -> str:
    """Return the id of a topic (KIP-516); a topic that is removed and made again under its name has another one.

    Raises:
        KafkaException: no broker answered, or there is no such topic.
    """
    admin = AdminClient({**options, "bootstrap.servers": bootstrap, "log_level": 0})
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_WITHIN_S)[topic].result(_WITHIN_S + _GRACE_S)
    return str(described.topic_id)


# client options ---------------------------------------------------------------------------------------------------------------


def librdkafka_options() -> dict[str, str]:
    """Return the options for librdkafka clients from this process's environment."""
    return _given(_LIBRDKAFKA)


def java_options() -> dict[str, str]:
    """Return the options for Java clients from this process's environment."""
    return _given(_JAVA)


def spark_options() -> dict[str, str]:
    """Return the settings for the Spark application from this process's environment."""
    return _given(_SPARK)


def for_spark(options: Mapping[str, str]) -> dict[str, str]:
    """Convert options of Java clients to options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in options.items()}


def _given(variable: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(os.environ.get(variable, "{}"))
    return found


# a call with a deadline -------------------------------------------------------------------------------------------------------


def send_offsets(producer: Producer, offsets: list[TopicPartition], member: Any, limit_s: float) -> None:
    """Call ``producer.send_offsets_to_transaction(offsets, member, limit_s)``; errors as in `call_with_deadline`."""
    call_with_deadline(limit_s, lambda limit_s: producer.send_offsets_to_transaction(offsets, member, limit_s), _SEND_OFFSETS)


def call_with_deadline(limit_s: float, call: Callable[[float], object], name: str) -> None:
    """Make a call in a thread of its own.

    Args:
        limit_s: the limit that is passed to the call; the call is given up one second later.
        name: the name of the call in the error.

    Raises:
        KafkaException: the call raised it; likewise RuntimeError, TypeError, ValueError.
        HungError: it did not return.
    """
    ended: Future[None] = Future()

    def run() -> None:
        try:
            call(limit_s)
        except _RAISED as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    Thread(target=run, name=name, daemon=True).start()
    try:
        ended.result(limit_s + _GRACE_S)
    except TimeoutError:
        raise HungError(f"{name} did not return within {limit_s + _GRACE_S:g} s, its limit was {limit_s:g} s") from None
