"""What is asked of the brokers while they are broken: an answer that does not come is no answer, not an end of the run."""

import pytest
from confluent_kafka import IsolationLevel, KafkaException

from chaos.system.cluster import Cluster
from chaos.system.kafka import Kafka


class Late:
    """An answer that librdkafka owes beyond its own time limit."""

    def result(self, _within_s):
        raise TimeoutError


class Admin:
    """An admin client whose answers are late."""

    def list_offsets(self, wanted, **_options):
        return dict.fromkeys(wanted, Late())


def test_offsets_that_are_late_are_asked_for_again():
    """Samplers and drains know `KafkaException`; a TimeoutError of a future would end the run."""
    kafka = Kafka(None, Cluster({}))
    kafka._admin = Admin()

    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        kafka.end("topic", 3, IsolationLevel.READ_COMMITTED)
