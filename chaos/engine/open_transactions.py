"""The open transactions of an output that is about to be read.

They hide the end of its log from readers of committed rows. A pipeline that has ended may have left one open a moment ago: its
coordinator ends it at the transaction timeout or, if no coordinator knows it, nothing does. `verifiers.hanging` can tell these
apart only once the timeout is over.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from confluent_kafka import KafkaException

from chaos.cluster import protocol
from chaos.cluster.kafka import Kafka
from chaos.cluster.protocol import OpenTransaction
from chaos.common import clock
from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.contract.base import Topic
from verifiers import hanging

WITHIN_S = 100.0  # transaction.timeout.ms is 60 s by default in most clients, and coordinators look every 10 s
_EVERY_S = 0.5

_Place = tuple[int, int, int]


def of_output(kafka: Kafka, output: Topic) -> Sequence[OpenTransaction]:
    """List the transactions that are open in the output now.

    Raises:
        KafkaException: no broker answers.
        InconclusiveError: a leader or a coordinator does not answer, or answers with an error.
    """
    return protocol.open_below(kafka.bootstrap, output.name, kafka.offsets(*output))


def wait_until_decided(open_now: Callable[[], Sequence[OpenTransaction]], within_s: float = WITHIN_S) -> None:
    """Wait until each open transaction has ended, or hangs for certain; at the deadline the output is read as it is.

    These are not waited for: a transaction whose timeout is longer than the deadline, and one that begins meanwhile. The latter
    is of another program, which may write for ever.
    """
    first: set[_Place] | None = None

    def decided() -> bool:
        nonlocal first
        found = [one for one in open_now() if one.timeout_ms <= 1000 * within_s]
        first = {_place(one) for one in found} if first is None else first
        return all(hanging.kind(one._asdict()) == hanging.HANGING for one in found if _place(one) in first)

    with suppress(DeadlineError):
        clock.wait_until(
            decided,
            within_s=within_s,
            reason="the open transactions of the output to end, or to be older than their timeout",
            every_s=_EVERY_S,
            ignore=(KafkaException, InconclusiveError),
        )


def _place(one: OpenTransaction) -> _Place:
    return one.partition, one.producer_id, one.first_offset
