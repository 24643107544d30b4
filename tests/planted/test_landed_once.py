"""Folders that hold no log of Kafka's: a part that is there twice, places that no topic has, files with other columns."""

import re
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
from pyarrow import parquet

from chaos.audit import logs as audit_logs
from chaos.audit.logs import AuditUsageError
from tests.planted.damaged import planted
from tests.planted.examples import EXAMPLES
from tests.planted.log import land, table
from verifiers.base import Bounds

COLUMNS = "partition int, offset long, key string, value string"
VIEWS = f"{COLUMNS}, isolation string"
ROWS = [(0, 0, "a", "1"), (0, 70, "b", "1"), (1, 0, "a", "1")]


@pytest.fixture
def landed(spark, tmp_path):
    """Read a source and a sink that others have landed."""

    def ask(source, sink, columns=COLUMNS):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        land(folder / "source", source, COLUMNS)
        land(folder / "sink", sink, columns)
        return audit_logs.landed(spark, str(folder))

    return ask


@pytest.mark.parametrize("seed", range(EXAMPLES.max_examples))
def test_a_part_that_was_landed_twice(landed, seed):
    """Whatever the keys are, wherever the part is, and though the log has holes, the audit is refused."""
    rng = Random(seed)
    logs = dict(zip(("source", "sink"), (_without_times(rows) for rows in planted(rng)), strict=True))
    side = rng.choice(["source", "sink"])
    again = rng.sample(logs[side], rng.choice([1, 2, len(logs[side])]))
    offsets = {row[:2] for row in logs[side] if row[0] == min(again)[0]}
    count = len(offsets) + sum(row[0] == min(again)[0] for row in again)

    with pytest.raises(AuditUsageError) as caught:
        landed(**logs | {side: [*logs[side], *again]})

    assert str(caught.value).startswith(f"{side}: ")
    assert re.findall(r"\d+", str(caught.value)) == [str(number) for number in (min(again)[0], count, len(offsets))]


def test_what_is_said_of_a_part_that_was_landed_twice(landed, snapshot):
    """Which part it is, and what to do."""
    rows = [(0, 0, "k", "v"), (0, 1, "k", "v")]

    with pytest.raises(AuditUsageError) as caught:
        landed(rows, [*rows, rows[1]])

    assert str(caught.value) == snapshot


@pytest.mark.parametrize("seed", range(EXAMPLES.max_examples))
def test_keys_and_values_may_recur(landed, seed):
    """Records that are alike are at places of their own, so that nothing was landed twice."""
    source, sink = (_without_times(rows) for rows in planted(Random(seed)))

    found = landed(source, sink)

    assert found.records == len(source) + len(sink)


def _without_times(rows):
    return [row[:4] for row in rows]


@pytest.mark.parametrize("side", ["source", "sink"])
@pytest.mark.parametrize(
    ("row", "what"),
    [
        ((-1, 0, "d", "4"), "partition -1, which no Kafka topic can have"),
        ((2**31 - 1, 0, "d", "4"), "partition 2147483647, which no Kafka topic can have"),
        ((0, -7, "d", "4"), "offset -7, which no Kafka log can have"),
        ((1, 2**63 - 1, "d", "4"), "offset 9223372036854775807, which no Kafka log can have"),
        ((1, -(2**63), "d", "4"), "offset -9223372036854775808, which no Kafka log can have"),
    ],
)
def test_places_that_no_topic_has(landed, side, row, what):
    """The audit is refused, and the message has the place."""
    logs = {"source": ROWS, "sink": ROWS}

    with pytest.raises(AuditUsageError, match=rf"/{side}: a row .*{what}"):
        landed(**logs | {side: [*ROWS, row]})


def test_views_are_landed_once_each(landed):
    """A row is in the committed view and in the other one; twice in one of them is once too often."""
    both = [(*row, isolation) for row in ROWS for isolation in ("read_committed", "read_uncommitted")]

    assert landed(ROWS, both, VIEWS).records == 2 * len(ROWS)
    with pytest.raises(AuditUsageError, match="sink: partition 0 has 3 records at 2 offsets"):
        landed(ROWS, [*both, both[1]], VIEWS)


def test_what_the_source_did_not_commit_is_demanded_by_nothing(spark, tmp_path):
    """Rows of the source that are marked as its uncommitted view are no records."""
    land(tmp_path / "source", [*((*row, None) for row in ROWS), (1, 1, "x", "y", "read_uncommitted")], VIEWS)
    land(tmp_path / "sink", ROWS, COLUMNS)

    assert audit_logs.landed(spark, str(tmp_path)).source.count() == len(ROWS)


def test_files_of_one_log_with_other_columns(spark, tmp_path):
    """A column that only some files have is null elsewhere; one of two types is refused, whichever file Spark reads first."""
    for side in ("source", "sink"):
        land(tmp_path / side, ROWS, COLUMNS)
    parquet.write_table(table([(0, 1, "x", "y", "read_uncommitted")], VIEWS), tmp_path / "sink" / "part-1.parquet")
    logs = audit_logs.landed(spark, str(tmp_path))
    assert (logs.sink.count(), logs.uncommitted.count()) == (len(ROWS), 1)

    other = COLUMNS.replace("offset long", "offset int")
    parquet.write_table(table([(0, 1, "x", "y")], other), tmp_path / "source" / "part-1.parquet")
    with pytest.raises(AuditUsageError, match="source: its files have columns of different types"):
        audit_logs.landed(spark, str(tmp_path))


def test_ends_of_a_log_without_rows(landed):
    """There is nothing to refuse."""
    logs = landed([], ROWS)

    assert (logs.fixed.source, sorted(logs.fixed.sink)) == ({}, [0, 1])
    assert isinstance(logs.fixed.sink[1], Bounds)
