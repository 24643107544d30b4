"""`chaos up` ends everything that it started, however it ends."""

import signal

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chaos.common import clock
from tests.integration.external import end, start_up, survivors

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_nothing_of_it_stays(tmp_path):
    """SIGKILL runs no handler: the warden ends everything, and the addresses can be used again; SIGTERM is like Ctrl-C."""
    first = start_up(tmp_path)
    assert end(first, signal.SIGKILL) == -signal.SIGKILL
    clock.wait_until(lambda: not survivors(), within_s=300, reason="the warden", seen=survivors)

    (tmp_path / "again").mkdir()
    second = start_up(tmp_path / "again")

    assert end(second, signal.SIGTERM) == 0
    assert survivors() == []
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0}).list_topics(timeout=2)
