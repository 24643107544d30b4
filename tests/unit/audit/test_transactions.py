"""`chaos audit transactions`: what is asked for, and how it is told, without a cluster."""

import json

import pytest

from chaos.audit import command, transactions
from chaos.audit.logs import AuditUsageError
from chaos.audit.transactions import OfTransactions
from chaos.audit.where import Where
from tests.unit.wording import keep, raised
from verifiers.transactions import logs
from verifiers.transactions.logs import Batch, Extent, Logs, Position, State, table
from verifiers.transactions.verifier import RowsPerRecord

OFFSETS, STATES = (logs.OFFSETS, 0), (logs.STATES, 0)


def asked(**given):
    places = {name: given.pop(name) for name in ("bootstrap", "external", "landed", "landing") if name in given}
    return OfTransactions(Where(**places), **given)


def batch(log, first, last, at_ms, control=None):
    topic, partition = log
    return Batch(topic, partition, first, last, last - first + 1, 7, 0, transactional=True, control=control, timestamp_ms=at_ms)


def landed(folder):
    """One producer's logs: a transaction that moved a position, and one that did not."""
    totals = ("totals", 0)
    batches = [
        batch(OFFSETS, 0, 0, 20),
        batch(OFFSETS, 1, 1, 31, "COMMIT"),
        batch(totals, 0, 4, 10),
        batch(totals, 5, 5, 32, "COMMIT"),
        batch(totals, 6, 8, 40),
        batch(totals, 9, 9, 51, "COMMIT"),
    ]
    states = [
        *(State(0, 0, "app", 7, 0, "PrepareCommit", *log, 10, 30) for log in (OFFSETS, totals)),
        State(0, 1, "app", 7, 0, "CompleteCommit", None, None, 10, 33),
        State(0, 2, "app", 7, 0, "PrepareCommit", *totals, 40, 50),
        State(0, 3, "app", 7, 0, "CompleteCommit", None, None, 40, 52),
    ]
    extents = [Extent(*log, 0, end, end) for log, end in ((OFFSETS, 2), (totals, 10), (STATES, 4))]
    rows = {"extents": extents, "batches": batches, "positions": [Position(0, 0, "g", "orders", 0, 5, 20)], "states": states}
    logs.write(folder, Logs.of(**{name: table(name, some) for name, some in rows.items()}))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "--bootstrap, --group; --landed"),
        ({"bootstrap": "a:1"}, "--group; --landed"),
        ({"external": "file", "bootstrap": "a:1"}, "--external --bootstrap: file"),
        ({"landed": "x", "group": "g"}, "--landed --group:"),
        ({"landed": "x", "landing": "y"}, "--landed --landing:"),
        ({"landed": "x", "rows_per_record": "one"}, "--rows-per-record one:"),
        ({"landed": "x", "rows_per_record": "2..1"}, "--rows-per-record 2..1:"),
        (
            {"landed": "x", "sink": ("a",), "shared": ("a",)},
            "--sink --shared-sink a:",
        ),
    ],
)
def test_what_does_not_go_together_is_told(given, names):
    with raised(AuditUsageError, *names.split(" ")):
        asked(**given).check()


def test_how_many_rows_a_record_makes():
    assert transactions.rows_per_record("1") == RowsPerRecord(1, 1)
    assert transactions.rows_per_record("0..2.5") == RowsPerRecord(0, 2.5)
    assert transactions.rows_per_record("") is None


def test_landed_logs_are_audited_and_the_place_is_shown(tmp_path, capsys):
    landed(tmp_path / "logs")

    code = command.main(asked(landed=str(tmp_path / "logs")), tmp_path / "report.json", print)

    (finding,) = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["findings"]
    assert code == 1
    assert (finding["count"], finding["checked"], finding["counts"]["output without positions"]) == (1, 2, 1)
    shown = capsys.readouterr().out
    assert (
        "transactions: output without positions: partition 0 offset 6: in totals: transaction 2 of 'app', producer 7" in shown
    )


@pytest.mark.parametrize(("option", "word"), [("sink", "--sink"), ("shared", "--shared-sink")])
def test_a_topic_that_is_in_none_of_the_landed_logs_is_refused(option, word, tmp_path, capsys):
    """It would be no sink of anybody, and nothing would be asked of it."""
    landed(tmp_path / "logs")

    code = command.main(asked(landed=str(tmp_path / "logs"), **{option: ("total",)}), tmp_path / "report.json", print)

    assert code == 2
    said = keep(capsys.readouterr().out)
    assert f"{word} total: " in said
    assert said.endswith(": totals\n")


def test_logs_that_were_landed_twice_are_refused(tmp_path, capsys):
    landed(tmp_path / "logs")
    part = tmp_path / "logs" / "batches" / "part-0.parquet"
    part.with_name("part-1.parquet").write_bytes(part.read_bytes())

    code = command.main(asked(landed=str(tmp_path / "logs")), tmp_path / "report.json", print)

    assert code == 2
    assert "twice" in keep(capsys.readouterr().out)


def test_a_folder_that_is_not_there(tmp_path, capsys):
    code = command.main(asked(landed=str(tmp_path / "nowhere")), tmp_path / "report.json", print)

    assert code == 2
    said = keep(capsys.readouterr().out)
    assert f"{tmp_path / 'nowhere' / 'extents'} " in said
    assert "FileNotFoundError" in said


def test_logs_that_were_landed_are_not_overwritten(tmp_path, capsys):
    landed(tmp_path)
    way = asked(bootstrap="127.0.0.1:1", group="g", landing=str(tmp_path))

    assert command.main(way, tmp_path / "report.json", print) == 2
    assert "logs are there already: name another, or audit them with --landed" in capsys.readouterr().out


def test_a_cluster_that_does_not_answer_is_unknown(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("chaos.judging.transaction_logs.WITHIN_S", 0.5)

    code = command.main(asked(bootstrap="127.0.0.1:1", group="g"), tmp_path / "report.json", print)

    assert code == 3
    assert "127.0.0.1:1 does not answer within 0.5 s" in capsys.readouterr().out
