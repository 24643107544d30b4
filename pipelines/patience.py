"""A call that is given up when it does not come back.

`Producer.send_offsets_to_transaction` takes a time limit and does not keep it: librdkafka 2.16 never compares the clock with
the limit of a request to the group's coordinator (``creq_ts_timeout`` in rdkafka_coord.c; issues 5456 and 5511). When that
broker is down the request waits until some connection of this client changes its state, which may be never. See
docs/findings/send-offsets-hangs.md.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition

_GRACE_S = 1.0
_SEND_OFFSETS = "send_offsets_to_transaction"
_RAISED = (KafkaException, RuntimeError, TypeError, ValueError)  # by confluent-kafka


class HungError(RuntimeError):
    """The call is still under way, in a thread that nobody waits for; its producer must not be used again."""


def send_offsets(producer: Producer, positions: list[TopicPartition], member: Any, limit_s: float) -> None:
    """``producer.send_offsets_to_transaction(positions, member, limit_s)``; errors as in `within`."""
    within(limit_s, lambda limit_s: producer.send_offsets_to_transaction(positions, member, limit_s), _SEND_OFFSETS)


def within(limit_s: float, call: Callable[[float], object], name: str) -> None:
    """Make a call in a thread of its own.

    Args:
        limit_s: what the call is told; it is given up a second later.
        name: what it is called in the error.

    Raises:
        KafkaException: the call did; so with RuntimeError, TypeError, ValueError.
        HungError: it did not come back.
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
        raise HungError(f"{name} did not come back within {limit_s + _GRACE_S:g} s, its limit was {limit_s:g} s") from None
