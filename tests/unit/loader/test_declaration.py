"""The file of orders for the loader's process, and how the process reads it."""

import json
import sys
from dataclasses import fields
from io import StringIO
from pathlib import Path

import pytest

from chaos.contract.base import Endpoints, Topic, Topics
from chaos.loader import process
from chaos.loader.declaration import FillSource
from chaos.loader.plain import Loader, Producing
from chaos.loader.transactions import TransactionalLoader
from chaos.scenario.workload import Producer

ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092")
TOPICS = Topics((Topic("source", 3),), "sink")


def told(loader: FillSource, folder: Path) -> dict:
    """The orders that the process reads."""
    *program, file = loader.command(ENDPOINTS, TOPICS, folder).argv
    assert program == [sys.executable, "-m", "chaos.loader.process"]
    found: dict = json.loads(Path(file).read_text(encoding="utf-8"))
    return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The settings of the producers that are made."""
    settings: list[dict] = []
    monkeypatch.setattr(process, "Producer", settings.append)
    return settings


@pytest.mark.parametrize("idempotence", [True, False])
def test_the_process_is_told_what_is_declared(tmp_path: Path, idempotence: bool) -> None:  # noqa: FBT001
    """Every declared value is in the file, idempotence above all."""
    assert told(FillSource(20_000, 2500.5, Producing(idempotence)), tmp_path) == {
        "bootstrap": "link:9092",
        "topic": "source",
        "partitions": 3,
        "records": 20_000,
        "rate_per_s": 2500.5,
        "ledger": str(tmp_path / "ledger.csv"),
        "rows": None,
        "producing": {
            "idempotence": idempotence,
            "acks": "all",
            "batch_records": None,
            "in_flight": 5,
            "transaction_records": None,
        },
    }


def test_each_topic_has_a_file_of_its_own(tmp_path: Path) -> None:
    """It is beside the ledger, and so is told which one that is."""
    told(FillSource(1, 1.0), tmp_path)
    told(FillSource(2, 1.0, ledger="ledger-customers.csv"), tmp_path)

    files = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in tmp_path.iterdir()}
    assert {name: one["records"] for name, one in files.items()} == {"ledger.json": 1, "ledger-customers.json": 2}


@pytest.mark.parametrize(
    ("producing", "kind"), [(Producing(), Loader), (Producing(transaction_records=7), TransactionalLoader)]
)
def test_the_process_sends_as_it_is_told(tmp_path: Path, made: list[dict], producing: Producing, kind: type) -> None:
    """The file has exactly what was declared, and rows may be as large as the brokers allow."""
    loader = process._loader(told(FillSource(20, 100.0, producing, tmp_path / "rows.parquet"), tmp_path), StringIO())

    assert isinstance(loader, kind)
    (settings,) = made
    assert settings["message.max.bytes"] > 64 << 20
    assert ("transactional.id" in settings) == (kind is TransactionalLoader)
    assert {name: settings[name] for name in ("bootstrap.servers", "acks")} == {"bootstrap.servers": "link:9092", "acks": "all"}


def test_what_a_workload_says_of_its_producer_is_what_the_loader_knows() -> None:
    """So a key is declared in the grammar, and used where records are sent, and named nowhere else."""
    assert Producing(**Producer().model_dump()) == Producing()
    assert [field.name for field in fields(Producing)] == list(Producer.model_fields)


def test_exact_counts_can_be_asked_for(tmp_path: Path, made: list[dict]) -> None:
    """One record in a request, one request under way: what a lost answer or a dead leader costs is exact."""
    exact = Producing(idempotence=False, acks=1, batch_records=1, in_flight=1)

    process._loader(told(FillSource(20, 100.0, exact), tmp_path), StringIO())

    (settings,) = made
    assert settings["batch.num.messages"] == settings["max.in.flight.requests.per.connection"] == 1
    assert (settings["acks"], settings["linger.ms"], settings["enable.idempotence"]) == ("1", 0, False)


def test_transactions_can_be_asked_for() -> None:
    """Their id begins as the topic does, whatever cluster that is on, and is the same for every partition."""
    assert FillSource(20, 100.0, Producing(transaction_records=7)).transactional_ids(TOPICS) == ("source-loader",) * 3
    assert FillSource(20, 100.0).transactional_ids(TOPICS) == ()
