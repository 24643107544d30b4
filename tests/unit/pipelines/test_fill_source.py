import sys
from pathlib import Path

import pytest

from pipelines.base import Endpoints, Topics
from pipelines.fill_source import FillSource, _parsed

ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092")
TOPICS = Topics("source", "sink", 3)


@pytest.mark.parametrize("idempotence", [True, False])
def test_the_process_understands_its_command(monkeypatch: pytest.MonkeyPatch, idempotence: bool) -> None:  # noqa: FBT001
    """What the description asks for is what the process does, idempotence most of all."""
    command = FillSource(20_000, 2500.5, idempotence).command(ENDPOINTS, TOPICS, Path("/run"))

    assert command.argv[:3] == (sys.executable, "-m", "pipelines.fill_source")
    monkeypatch.setattr(sys, "argv", list(command.argv[2:]))
    assert vars(_parsed()) == {
        "bootstrap": "link:9092",
        "topic": "source",
        "partitions": 3,
        "records": 20_000,
        "rate": 2500.5,
        "ledger": Path("/run/ledger.csv"),
        "no_idempotence": not idempotence,
    }
