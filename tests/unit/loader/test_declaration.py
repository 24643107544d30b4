import sys
from pathlib import Path

import pytest

from chaos.loader.declaration import FillSource
from chaos.loader.plain import settings
from chaos.loader.process import _parsed
from chaos.subject.base import Endpoints, Topic, Topics

ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092")
TOPICS = Topics((Topic("source", 3),), "sink")


@pytest.mark.parametrize("idempotence", [True, False])
def test_the_process_understands_its_command(monkeypatch: pytest.MonkeyPatch, idempotence: bool) -> None:  # noqa: FBT001
    """Every declared value reaches the process, idempotence above all."""
    command = FillSource(20_000, 2500.5, idempotence).command(ENDPOINTS, TOPICS, Path("/run"))

    assert command.argv[:3] == (sys.executable, "-m", "chaos.loader.process")
    monkeypatch.setattr(sys, "argv", list(command.argv[2:]))
    assert vars(_parsed()) == {
        "bootstrap": "link:9092",
        "topic": "source",
        "partitions": 3,
        "records": 20_000,
        "rate": 2500.5,
        "ledger": Path("/run/ledger.csv"),
        "no_idempotence": not idempotence,
        "acks": "all",
        "batch_records": None,
        "in_flight": 5,
        "transaction_records": None,
        "rows": None,
    }


def test_exact_counts_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record in a request, one request under way: what a lost answer or a dead leader costs is exact."""
    command = FillSource(20, 100.0, False, "1", 1, 1).command(ENDPOINTS, TOPICS, Path("/run"))  # noqa: FBT003

    monkeypatch.setattr(sys, "argv", list(command.argv[2:]))
    parsed = _parsed()
    assert (parsed.acks, parsed.batch_records, parsed.in_flight) == ("1", 1, 1)
    exact = settings("link:9092", idempotence=False, acks="1", batch_records=1, in_flight=1)
    assert exact["batch.num.messages"] == exact["max.in.flight.requests.per.connection"] == 1
    assert (exact["acks"], exact["linger.ms"]) == ("1", 0)


def test_transactions_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their id begins as the topic does, whatever cluster that is on, and is the same for every partition."""
    loader = FillSource(20, 100.0, transaction_records=7)

    monkeypatch.setattr(sys, "argv", list(loader.command(ENDPOINTS, TOPICS, Path("/run")).argv[2:]))

    assert _parsed().transaction_records == 7
    assert loader.transactional_ids(TOPICS) == ("source-loader",) * 3
    assert FillSource(20, 100.0).transactional_ids(TOPICS) == ()
