"""`chaos audit tables` on local folders: what it finds, what it says that it read, and what does not compare."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.audit.command import table as shown
from chaos.audit.logs import AuditUsageError
from chaos.audit.tables.command import OfTables
from chaos.audit.where import Where
from chaos.common.errors import InconclusiveError
from chaos.report.summary import as_text
from verifiers.base import Verdict

RECORDS = 60


@pytest.fixture
def audited(spark, tmp_path):
    """Write both tables, and audit them in the session of all planted logs."""

    def ask(source, sink, **asked):
        for name, rows in (("source", source), ("sink", sink)):
            write(tmp_path / name, rows)
        return options(tmp_path, **asked).compared(spark, ())

    return ask


def options(place, **asked):
    """Of an audit that leaves the settings of the session as they are."""
    sides = {"source": f"parquet:{place}/source", "sink": f"parquet:{place}/sink"}
    return OfTables(Where(), **(sides | {"key": ("id",), "conf": ("spark.sql.shuffle.partitions=2",)} | asked))


def write(folder, rows, name="part-0.parquet"):
    folder.mkdir(exist_ok=True)
    parquet.write_table(rows, folder / name)


def orders(ids=range(RECORDS), amount=lambda at: at * 7 % 30):
    found = list(ids)
    return pa.table(
        {
            "id": pa.array(found, pa.int64()),
            "region": pa.array([f"r{at % 3}" for at in found], pa.string()),
            "at": pa.array(range(len(found)), pa.int64()),
            "amount": pa.array([amount(at) for at in found], pa.int64()),
        }
    )


def numbers(audit):
    """Verdict and count of each verifier that was asked."""
    return {one.verifier: (one.verdict, one.count) for one in audit.findings if one.asked}


RIGHT = dict.fromkeys(("duplicates", "gaps", "values"), (Verdict.VALID, 0))


def test_a_copy(audited, tmp_path):
    """In another order; without --order that does not count."""
    found = audited(orders(), orders(range(RECORDS - 1, -1, -1)), columns=("region, amount",))

    assert (found.verdict, numbers(found), found.records) == (Verdict.VALID, RIGHT, 2 * RECORDS)
    assert found.read == {"source": f"parquet:{tmp_path}/source", "sink": f"parquet:{tmp_path}/sink"}


def test_each_anomaly(audited):
    """A record is lost, a row is there twice, one is wrong, one has no record, and one is too late, as the second copy is."""
    ids = [*range(5), *range(6, 50), 7, 999, *range(51, RECORDS), 50]

    found = audited(orders(), orders(ids, lambda at: 1 if at == 9 else at * 7 % 30), order=("region,at",), columns=("amount",))

    assert {one.verifier: {kind: count for kind, count in one.counts.items() if count} for one in found.findings} == {
        "duplicates": {"duplicate": 1},
        "gaps": {"lost": 1},
        "ordering": {"inversion": 2},
        "values": {"wrong value": 1, "phantom": 1},
    }
    text = as_text(shown(found, 120), width=120, colour=False)
    assert all(f"{side}: {address}" in text for side, address in found.read.items())
    assert "gaps: lost: id 5: nothing answers it; its record is at region r2 at 5" in text
    assert "values: wrong value: id 9, region r0 at 8: amount 1, expected 3" in text
    assert "ordering: inversion: id 50, region r2 at 60: " in text


def test_a_query_says_what_is_right(audited):
    """Over the table ``source``; a key of several columns."""
    totals = pa.table({"region": ["r0", "r1", "r2"], "orders": [20, 20, 19]})
    query = "SELECT region, count(*) AS orders FROM source GROUP BY region"

    found = audited(orders(), totals, key=("region",), expected=query)

    assert numbers(found) == RIGHT | {"values": (Verdict.INVALID, 1)}
    assert str(found.findings[-1].examples[0].detail) == "orders 19, expected 20"


def test_a_key_of_several_columns_and_of_sql(audited):
    for key in (("id,region",), ("id", "region"), ("concat(CAST(id AS STRING), ',', region)",)):
        assert numbers(audited(orders(), orders(range(1, RECORDS)), key=key, columns=("amount",))) == RIGHT | {
            "gaps": (Verdict.INVALID, 1)
        }


def test_files_that_a_sink_left_behind_are_not_in_its_table(spark, tmp_path):
    """`_spark_metadata` says which files are."""
    write(tmp_path / "source", orders())
    stream = spark.readStream.schema("id long, region string, at long, amount long").parquet(str(tmp_path / "source"))
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert query.trigger(availableNow=True).start(str(tmp_path / "sink")).awaitTermination(1800)
    write(tmp_path / "sink", orders(), "part-of-a-killed-task.parquet")

    assert numbers(options(tmp_path).compared(spark, ())) == RIGHT


@pytest.mark.parametrize(
    ("sink", "asked", "names"),
    [
        pytest.param(orders(), {"key": ("ids",)}, ("key: source ", " ids;", " id?"), id="no such key"),
        pytest.param(orders(), {"key": ("id +",)}, ("key id +: ", "PARSE_SYNTAX_ERROR"), id="a key that is no SQL"),
        pytest.param(orders(), {"columns": ("amounts",)}, ("columns: source ", " amounts;", " amount?"), id="no such column"),
        pytest.param(orders(), {"order": ("offset",)}, ("order: source ", " offset;"), id="no such order"),
        pytest.param(orders(), {"expected": "SELEC 1"}, ("expected: ", "PARSE_SYNTAX_ERROR"), id="a query that is no SQL"),
        pytest.param(orders().drop_columns(["id"]), {}, ("key: sink ", " id;"), id="no key in the sink"),
        pytest.param(
            orders().set_column(0, "id", pa.array(map(str, range(RECORDS)))),
            {},
            ("key id ", " bigint in source ", " string in sink"),
            id="other types",
        ),
    ],
)
def test_tables_that_do_not_compare(audited, sink, asked, names, snapshot):
    """Wrong usage, in one line."""
    with pytest.raises(AuditUsageError) as refused:
        audited(orders(), sink, **asked)

    said = str(refused.value)
    assert [name for name in names if name not in said] == []
    assert "\n" not in said
    assert said.partition("[")[0] == snapshot  # what comes then is Spark's


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (orders([]), "source is empty, so that nothing can be compared"),
        (orders().set_column(0, "id", pa.array([None, *range(RECORDS - 1)], pa.int64())), "1 demanded rows have no key"),
    ],
)
def test_rows_that_cannot_be_judged(audited, source, says):
    """UNKNOWN: the question is right, and the rows do not answer it."""
    with pytest.raises(InconclusiveError, match=says):
        audited(source, orders())


def test_files_that_are_no_table(spark, tmp_path):
    """Two do not have the same types: Spark says which, in one line."""
    for name in ("source", "sink"):
        write(tmp_path / name, orders())
    write(tmp_path / "sink", orders().set_column(0, "id", pa.array(map(str, range(RECORDS)))), "part-1.parquet")

    with pytest.raises(InconclusiveError, match=r"--sink parquet:\S+/sink: .*it must be a folder of Parquet files") as found:
        options(tmp_path).compared(spark, ())

    assert "\n" not in str(found.value)


def test_a_reader_that_spark_lacks(spark, tmp_path):
    """A session without the jars of Delta, and a driver that no jar has; the line says what to do."""
    for address, says in {
        f"delta:{tmp_path}/lake@1": " --packages GROUP:ARTIFACT:VERSION",
        "jdbc:oracle:thin:@//db:1521/shop#orders": r" oracle; .* --packages ",
        "iceberg:lake.shop.orders@1": r" --spark-conf spark\.sql\.catalog\.lake=",
    }.items():
        with pytest.raises(AuditUsageError, match=says) as refused:
            options(tmp_path, sink=address).compared(spark, ())
        assert "\n" not in str(refused.value)
