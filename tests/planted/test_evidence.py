import json
import re
from dataclasses import replace
from pathlib import Path
from shutil import copy, copytree, rmtree

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import ANSWERS, BATCHES, DELIVERIES, EXPECTED, KEYS, LEDGER, OBSERVED, OPEN, TOLD, Open, clean, ledger
from verifiers import arrow, evidence
from verifiers.base import Bounds, Evidence
from verifiers.evidence import EvidenceError


def shown(error: pytest.ExceptionInfo[EvidenceError], folder: Path) -> str:
    """The text of an error without its varying parts: the folder, a size, and words of Spark or Python."""
    text = str(error.value).replace(str(folder), "<folder>")
    return re.sub(r"\(.*\)", "(<why>)", re.sub(r"\d+ bytes", "<size> bytes", text))


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that was not there, with evidence of a sink; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("evidence") / "run" / "evidence"
    evidence.write(folder, clean().evidence(spark))
    return folder


@pytest.fixture(params=["few", "many"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many are written and read by Spark."""
    if request.param == "many":
        monkeypatch.setattr(evidence, "_FEW", -1)


@pytest.mark.usefixtures("rows")
def test_what_is_written_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Every row, every bound, every position, and the types of the contract."""
    log = clean()
    evidence.write(tmp_path, log.evidence(spark))

    found = evidence.load(spark, tmp_path, "sink")

    assert (found.subject, found.bounds, found.positions) == ("sink", log.bounds, log.positions)
    assert sorted(map(tuple, found.expected.collect())) == sorted(log.expected)
    assert sorted(map(tuple, found.observed.collect())) == sorted(log.observed)
    assert dict(found.expected.dtypes) == evidence.EXPECTED
    assert dict(found.observed.dtypes) == evidence.OBSERVED


@pytest.mark.usefixtures("rows")
def test_nulls_survive(spark: SparkSession, tmp_path: Path) -> None:
    """No key, no position, no positions at all: absent is not zero."""
    evidence.write(tmp_path, ledger(1).changed(0, key=None, value=None).evidence(spark))

    found = evidence.load(spark, tmp_path, "sink")

    assert (found.positions, found.expected.collect()[0]["position"]) == ({}, None)
    assert found.observed.collect()[0][3:] == (None, None)


@pytest.mark.parametrize("key", ["CAST(X'ff00c328' AS STRING)", "''", "'\u00fc'"])
@pytest.mark.parametrize("written", [-1, 9])
@pytest.mark.parametrize("read", [-1, 9])
def test_any_bytes_are_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, written: int, read: int
) -> None:
    """Texts need not be UTF-8, whoever writes them and whoever reads them."""
    row = spark.range(1).selectExpr("0 AS partition", "id AS offset", "id AS timestamp_ms", f"{key} AS key", f"{key} AS value")
    expected = spark.range(1).selectExpr("id", "0 AS partition", f"{key} AS value", "true AS required", "id AS position")
    monkeypatch.setattr(evidence, "_FEW", written)
    evidence.write(tmp_path, Evidence("sink", expected, row, {0: Bounds(0, 1, 1)}, {0: 1}))

    monkeypatch.setattr(evidence, "_FEW", read)
    found = evidence.load(spark, tmp_path, "sink")

    asked = f"hex(key) = hex({key}) AND hex(value) = hex({key})"
    assert (found.observed.where(asked).count(), found.expected.where(f"hex(value) = hex({key})").count()) == (1, 1)


def test_views_are_landed_when_they_are_there(spark: SparkSession, tmp_path: Path) -> None:
    """Rows, nulls and types of each; a view that was not asked for is absent, not empty."""
    log = clean().with_aborted(0, 24).told(3, "unknown", None, None)
    log = replace(log, open_transactions=(Open(0), Open(1, coordinator_state=None, coordinator_epoch=None)))
    evidence.write(tmp_path, log.evidence(spark, evidence.VIEWS))

    found = evidence.load(spark, tmp_path, "sink")

    assert sorted(map(tuple, found.uncommitted.collect())) == sorted(log.observed + log.hidden)
    assert sorted(map(tuple, found.again.collect())) == sorted(log.observed)
    assert sorted(map(tuple, found.batches.collect()), key=str) == sorted(map(tuple, log.all_batches()), key=str)
    assert sorted(map(tuple, found.ledger.collect())) == sorted(log.all_lines())
    assert sorted(map(tuple, found.open_transactions.collect())) == sorted(log.open_transactions)
    assert sorted(map(tuple, found.told.collect())) == sorted(log.all_told())
    assert sorted(map(tuple, found.deliveries.collect())) == sorted(log.all_deliveries())
    assert sorted(map(tuple, found.commits.collect())) == sorted(log.all_commits())
    assert sorted(map(tuple, found.places.collect())) == sorted(log.all_places())
    assert {name: dict(getattr(found, name).dtypes) for name in evidence.VIEWS} == evidence.VIEWS


def test_it_is_kept_where_records_may_be(spark: SparkSession, tmp_path: Path) -> None:
    """A log with other partitions than its source."""
    evidence.write(tmp_path, replace(clean().evidence(spark), anywhere=True, source_partitions=2))

    found = evidence.load(spark, tmp_path, "sink")

    assert (found.anywhere, found.source_partitions, found.lines) == (True, 2, 2)
    assert (found.unordered, found.unsaid, found.state, found.ended) == ("", "", False, False)


def test_it_is_kept_what_is_not_asked_of_a_log(spark: SparkSession, tmp_path: Path) -> None:
    """Why its order is not known, why nothing is expected, that it is a state. Whether the pipeline ended, the caller says."""
    evidence.write(tmp_path, replace(clean().evidence(spark), unordered="two writers", unsaid="no model", state=True))

    found = evidence.load(spark, tmp_path, "sink", ended=True)

    assert (found.anywhere, found.source_partitions) == (False, 0)
    assert (found.unordered, found.unsaid, found.state, found.ended) == ("two writers", "no model", True, True)


def test_views_of_an_earlier_run_are_not_taken_for_this_one(spark: SparkSession, tmp_path: Path) -> None:
    """Their rows still lie beside the new ones; the bounds say which views are there."""
    evidence.write(tmp_path, clean().evidence(spark, {"again", "batches"}))
    evidence.write(tmp_path, clean().evidence(spark, {"again"}))

    found = evidence.load(spark, tmp_path, "sink")

    assert (found.again is None, found.batches, found.uncommitted, found.ledger) == (False, None, None, None)


ROUTING = ["anywhere", "source_partitions", "unordered", "unsaid", "state"]


@pytest.mark.parametrize("names", [["views", "files"], ["files"], ROUTING])
def test_evidence_of_an_earlier_version_is_read(spark: SparkSession, landed: Path, tmp_path: Path, names: list[str]) -> None:
    """Evidence from before views, or before counts of files, can still be judged."""
    copytree(landed, tmp_path, dirs_exist_ok=True)
    (tmp_path / "sink" / "bounds.json").write_text(bounds_without(landed, *names), encoding="utf-8")

    found = evidence.load(spark, tmp_path, "sink")

    assert (found.again, found.observed.count()) == (None, len(clean().observed))
    assert [getattr(found, name) for name in ROUTING] == [False, 0, "", "", False]


def bounds_without(landed: Path, *names: str) -> str:
    """The text of ``bounds.json`` as an earlier version wrote it."""
    bounds = json.loads((landed / "sink" / "bounds.json").read_text(encoding="utf-8"))
    return json.dumps({name: value for name, value in bounds.items() if name not in names})


@pytest.mark.parametrize("view", ["expected", "observed", "uncommitted"])
def test_a_file_that_was_lost_is_no_lost_record(
    spark: SparkSession, tmp_path: Path, view: str, snapshot: SnapshotAssertion
) -> None:
    """Spark reads the files that there are."""
    evidence.write(tmp_path, clean().evidence(spark, {"uncommitted"}))
    file = max((tmp_path / "sink" / view).glob("*.parquet"))
    size = file.stat().st_size
    file.unlink()

    with pytest.raises(EvidenceError) as caught:
        evidence.load(spark, tmp_path, "sink")

    assert f"{file} " in str(caught.value)
    assert f" {size} bytes " in str(caught.value)
    assert shown(caught, file) == snapshot


def test_a_file_that_was_copied_is_no_duplicate(
    spark: SparkSession, landed: Path, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """A tool that merges folders may bring one of another run."""
    copytree(landed, tmp_path, dirs_exist_ok=True)
    file = max((tmp_path / "sink" / "observed").glob("*.parquet"))
    copy(file, file.with_name("zz.parquet"))

    with pytest.raises(EvidenceError, match=r"observed/zz\.parquet ") as caught:
        evidence.load(spark, tmp_path, "sink")
    assert shown(caught, tmp_path) == snapshot


def test_a_file_that_was_cut(spark: SparkSession, landed: Path, tmp_path: Path) -> None:
    """Told by its name, before Spark says what a footer is."""
    copytree(landed, tmp_path, dirs_exist_ok=True)
    file = max((tmp_path / "sink" / "observed").glob("*.parquet"))
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:100])

    with pytest.raises(EvidenceError, match=rf"\.parquet is 100 bytes, but was {size} bytes when it was written"):
        evidence.load(spark, tmp_path, "sink")


def test_a_byte_that_was_changed(spark: SparkSession, landed: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """It is not a record of another value."""
    copytree(landed, tmp_path, dirs_exist_ok=True)
    file = max((tmp_path / "sink" / "observed").glob("*.parquet"))
    there = bytearray(file.read_bytes())
    there[60] ^= 1
    file.write_bytes(there)

    with pytest.raises(EvidenceError, match=r"sink/observed .*\(.*CRC.*\)") as caught:
        evidence.load(spark, tmp_path, "sink")
    assert shown(caught, tmp_path) == snapshot


def test_rows_of_a_view_that_is_not_named_do_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    """They are those of an earlier run, and not read."""
    evidence.write(tmp_path, clean().evidence(spark, {"again"}))
    evidence.write(tmp_path, clean().evidence(spark))
    rmtree(tmp_path / "sink" / "again")

    assert evidence.load(spark, tmp_path, "sink").observed.count() == len(clean().observed)


def test_the_second_read_begins_when_the_first_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    """A read beside the first proves nothing, so there is no second read if the first fails."""
    planted = clean().evidence(spark, {"again"})
    breaking = planted.observed.withColumn("value", planted.observed.value.cast("boolean").cast("string"))

    with pytest.raises((PySparkException, Py4JError)):  # 3.5 hands on what Py4J raises
        evidence.write(tmp_path, replace(planted, observed=breaking))

    assert not (tmp_path / "sink" / "again").exists()


@pytest.mark.usefixtures("rows")
def test_writing_again_replaces(spark: SparkSession, tmp_path: Path) -> None:
    """Evidence of two runs is never mixed."""
    evidence.write(tmp_path, clean(24).evidence(spark))
    evidence.write(tmp_path, clean(3).evidence(spark))

    found = evidence.load(spark, tmp_path, "sink")

    assert (found.expected.count(), found.observed.count(), found.positions) == (3, 3, {0: 1, 1: 1, 2: 1})


def test_columns_beyond_the_contract_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """The order of columns does not matter either."""
    planted = clean().evidence(spark)
    wide = planted.observed.selectExpr("'no' AS note", "value", "key", "timestamp_ms", "offset", "partition")

    evidence.write(tmp_path, replace(planted, observed=wide))

    assert sorted(map(tuple, evidence.load(spark, tmp_path, "sink").observed.collect())) == sorted(clean().observed)


@pytest.mark.usefixtures("rows")
def test_a_column_beyond_the_contract_may_be_of_another_type(spark: SparkSession, landed: Path, tmp_path: Path) -> None:
    """PySpark makes no frame of unsigned numbers, and is not given them."""
    copytree(landed, tmp_path, dirs_exist_ok=True)
    (tmp_path / "sink" / "bounds.json").write_text(bounds_without(landed, "files"), encoding="utf-8")
    file = next((tmp_path / "sink" / "observed").glob("*.parquet"))
    there = parquet.read_table(file)
    parquet.write_table(there.append_column("weight", pa.nulls(len(there), pa.uint64())), file)

    assert evidence.load(spark, tmp_path, "sink").observed.count() == len(clean().observed)


def test_a_write_that_breaks_off_leaves_nothing_to_judge(spark: SparkSession, tmp_path: Path) -> None:
    """Old bounds beside new rows would be judged as one: they are gone before the first row is written."""
    planted = clean().evidence(spark)
    evidence.write(tmp_path, planted)
    breaking = planted.observed.withColumn("value", planted.observed.value.cast("boolean").cast("string"))

    with pytest.raises((PySparkException, Py4JError)):  # 3.5 hands on what Py4J raises
        evidence.write(tmp_path, replace(planted, observed=breaking))

    with pytest.raises(EvidenceError, match=r"sink/bounds\.json is missing, .* run the scenario again"):
        evidence.load(spark, tmp_path, "sink")


def test_rows_that_a_jvm_sent_before_it_ended_are_not_taken_for_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of them looks like any other."""
    evidence.write(tmp_path, clean().evidence(spark))

    def ended(_spark: SparkSession) -> None:
        raise ConnectionError("it was killed")

    monkeypatch.setattr(arrow, "require_alive", ended)
    with pytest.raises(ConnectionError, match="it was killed"):
        evidence.write(tmp_path, clean().evidence(spark))

    with pytest.raises(EvidenceError, match=r"sink/bounds\.json is missing, .* run the scenario again"):
        evidence.load(spark, tmp_path, "sink")


def test_no_evidence_at_all(spark: SparkSession, tmp_path: Path) -> None:
    """A wrong folder is told by its path."""
    with pytest.raises(EvidenceError, match=r"elsewhere/sink/bounds\.json is missing"):
        evidence.load(spark, tmp_path / "elsewhere", "sink")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"bounds": {"0": {"low": 0, "lso": 9, "hw": 9}}',
        '{"bounds": {}}',
        '{"bounds": {"0": {"low": 0, "lso": 9}}, "positions": {}}',
        '{"bounds": {"0": {"low": 0, "lso": null, "hw": 9}}, "positions": {}}',
        '{"bounds": {"zero": {"low": 0, "lso": 9, "hw": 9}}, "positions": {}}',
        "[]",
    ],
)
def test_damaged_bounds(spark: SparkSession, tmp_path: Path, text: str, snapshot: SnapshotAssertion) -> None:
    """Half a file, or one of another shape, is told apart from none."""
    (tmp_path / "sink").mkdir()
    (tmp_path / "sink" / "bounds.json").write_text(text, encoding="utf-8")

    with pytest.raises(EvidenceError, match=r"sink/bounds\.json .*\([A-Za-z]+Error: .+\)") as caught:
        evidence.load(spark, tmp_path, "sink")
    assert shown(caught, tmp_path) == snapshot


def test_rows_missing_beside_the_bounds(spark: SparkSession, landed: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """The bounds say it is complete, but the rows were taken away."""
    (tmp_path / "sink").mkdir()
    (tmp_path / "sink" / "bounds.json").write_text(bounds_without(landed, "files"), encoding="utf-8")

    with pytest.raises(EvidenceError, match=r"sink/expected .*\(PATH_NOT_FOUND\)") as caught:
        evidence.load(spark, tmp_path, "sink")
    assert shown(caught, tmp_path) == snapshot


def test_rows_that_are_no_parquet(spark: SparkSession, landed: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """A file cut short has no footer; the message names the folder."""
    (tmp_path / "sink" / "expected").mkdir(parents=True)
    (tmp_path / "sink" / "bounds.json").write_text(bounds_without(landed, "files"), encoding="utf-8")
    (tmp_path / "sink" / "expected" / "part-0.parquet").write_bytes(b"PAR1 cut")

    with pytest.raises(EvidenceError, match=r"sink/expected .*\(FAILED_READ_FILE\..+\)") as caught:
        evidence.load(spark, tmp_path, "sink")
    assert shown(caught, tmp_path) == snapshot


def test_a_folder_that_spark_takes_for_a_scheme(
    spark: SparkSession, landed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """Not every error of Spark's has a condition; what there is of it is told."""
    copytree(landed / "sink", tmp_path / "day:" / "sink")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(EvidenceError, match=r"day:/sink/expected .*\([A-Za-z0-9]+Error\)") as caught:
        evidence.load(spark, Path("day:"), "sink")
    assert shown(caught, tmp_path) == snapshot


@pytest.mark.usefixtures("rows")
def test_rows_of_another_contract(spark: SparkSession, landed: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """The rows of one view in the place of another: the message names the folder and all that is missing."""
    copytree(landed / "sink", tmp_path / "sink")
    (tmp_path / "sink" / "bounds.json").write_text(bounds_without(landed, "files"), encoding="utf-8")
    rmtree(tmp_path / "sink" / "expected")
    copytree(landed / "sink" / "observed", tmp_path / "sink" / "expected")

    with pytest.raises(EvidenceError) as caught:
        evidence.load(spark, tmp_path, "sink")

    assert str(caught.value).replace(str(tmp_path), "<folder>") == snapshot


@pytest.mark.parametrize(
    ("column", "needed"),
    [("required", "required boolean \\(found: none\\)"), ("position", "position bigint \\(found: none\\)")],
)
def test_an_expected_column_is_missing(spark: SparkSession, tmp_path: Path, column: str, needed: str) -> None:
    """It is told before anything is written, with the type that is needed."""
    planted = clean().evidence(spark)

    with pytest.raises(EvidenceError, match=f"expected rows of 'sink': wrong or missing columns: {needed}; select and cast"):
        evidence.write(tmp_path, replace(planted, expected=planted.expected.drop(column)))

    assert list(tmp_path.iterdir()) == []


def test_a_column_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    """Keys as Kafka gives them are bytes: they must be cast before they are landed."""
    planted = clean().evidence(spark)
    raw = planted.observed.withColumn("key", planted.observed.key.cast("binary"))

    with pytest.raises(EvidenceError, match=r"observed rows of 'sink': wrong or missing columns: key string \(found: binary\)"):
        evidence.write(tmp_path, replace(planted, observed=raw))


def test_the_contract_is_the_one_of_the_planted_logs() -> None:
    """Verifiers are tested on frames of the types that are landed."""
    spoken = {"bigint": "long"}
    contracts = (
        *(evidence.EXPECTED, evidence.OBSERVED, evidence.BATCHES, evidence.LEDGER),
        *(evidence.OPEN_TRANSACTIONS, evidence.TOLD, evidence.DELIVERIES, evidence.ANSWERS, evidence.KEYS),
    )
    planted = (EXPECTED, OBSERVED, BATCHES, LEDGER, OPEN, TOLD, DELIVERIES, ANSWERS, KEYS)

    for contract, columns in zip(contracts, planted, strict=True):
        assert ", ".join(f"{name} {spoken.get(kind, kind)}" for name, kind in contract.items()) == columns
