"""What is asked of the brokers while they are broken: an answer that does not come is no answer, not an end of the run."""

from itertools import cycle

import pytest
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from chaos.audit import logs
from chaos.cluster.cluster import Cluster
from chaos.cluster.kafka import Kafka


class Late:
    """An answer that librdkafka owes beyond its own time limit."""

    def result(self, _within_s):
        raise TimeoutError


class Invalid:
    """What librdkafka 2.16 answers for a partition whose leader is frozen; it calls this no error."""

    def result(self, _within_s):
        return ListOffsetsResultInfo(-1001, -1, -1)


class Given:
    """An offset."""

    def result(self, _within_s):
        return ListOffsetsResultInfo(1000, -1, 0)


class Admin:
    """An admin client with these answers, over and over."""

    def __init__(self, *answers):
        self._answers = cycle(answers)

    def list_offsets(self, wanted, **_options):
        return dict(zip(wanted, self._answers, strict=False))


def test_a_sum_is_of_all_partitions_or_of_none():
    """A leader that does not answer would put the output back by all that it holds, and what comes next would be growth."""
    kafka = Kafka(None, Cluster({}))
    kafka._admin = Admin(Given(), Invalid())

    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        kafka.end("topic", 3, IsolationLevel.READ_COMMITTED)

    kafka._admin = Admin(Given())
    assert kafka.end("topic", 3, IsolationLevel.READ_COMMITTED) == 3000


def test_offsets_that_are_late_are_asked_for_again():
    """Samplers and drains know `KafkaException`; a TimeoutError of a future would end the run."""
    kafka = Kafka(None, Cluster({}))
    kafka._admin = Admin(Late())

    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        kafka.end("topic", 3, IsolationLevel.READ_COMMITTED)


@pytest.mark.parametrize("answer", [Late(), Invalid()])
def test_an_audit_has_all_bounds_or_none(answer):
    """Rows below an end that is none would be called lost."""
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        logs._bounds(Admin(Given(), answer), "topic", range(3))
