"""Tables: read as the subject's Spark reads them, and judged as a multiset; each anomaly with its exact count and its place."""

import json
import re
import sys
from dataclasses import replace

import pytest
from pydantic import TypeAdapter
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.common.errors import InconclusiveError
from chaos.contract import read_table
from chaos.contract.read_table import ABOUT, ROWS, SPEC
from chaos.expectation.base import ModelError, view
from chaos.expectation.definitions import Query
from chaos.expectation.forms import TableRows
from chaos.expectation.model import Model
from chaos.judging.judge import check
from chaos.matching import row_ids, table_rows
from chaos.scenario.sinks import Sink
from chaos.scenario.sinks.parquet import ParquetTable
from tests.planted.log import table
from verifiers import evidence
from verifiers.base import Bounds, Verdict

OBSERVED = "partition int, offset long, timestamp_ms long, key string, value string"
COLUMNS = "customer string, `order` bigint, amount decimal(10,2), paid_at timestamp, tags array<string>"
ORDERS = [(f"c-{number % 4}", number) for number in range(60)]
BOUNDS = {0: Bounds(0, 60, 60)}
LINES = row_ids.lines_of(BOUNDS)
NAMES = ("duplicates", "gaps", "values", "ordering")
QUERY = """
    SELECT key AS customer, CAST(value AS BIGINT) AS order, CAST(value AS DECIMAL(10, 2)) / 4 AS amount,
           timestamp_micros(1700000000000001 + CAST(value AS BIGINT)) AS paid_at,
           IF(CAST(value AS BIGINT) % 5 = 0, NULL, array(value)) AS tags
    FROM orders WHERE CAST(value AS BIGINT) % 3 > 0"""
SQL = QUERY.replace("CAST(value AS DECIMAL(10, 2)) / 4", "CAST(CAST(value AS DECIMAL(10, 2)) / 4 AS DECIMAL(10, 2))")
MODEL = Model(Query(SQL), form=TableRows())
BY_ORDER = replace(MODEL, identity="`order`")


def sources(spark, orders=ORDERS):
    rows = [(0, number, 1000 + number, key, str(value)) for number, (key, value) in enumerate(orders)]
    return {"orders": view(spark.createDataFrame(table(rows, OBSERVED)))}


def right(spark):
    """The rows that the query demands."""
    sources(spark)["orders"].createOrReplaceTempView("orders")
    rows = spark.sql(SQL)
    spark.catalog.dropTempView("orders")  # other tests list the views of this session
    return rows


@pytest.fixture
def folder(tmp_path):
    """The folder of the table."""
    return tmp_path / "lake"


@pytest.fixture
def judged(spark, tmp_path, folder):
    """Read the Parquet files of the folder, judge them by a model, and judge the evidence; the findings by verifier."""

    def ask(model=MODEL, positions=None, orders=ORDERS):
        place = tmp_path / "table"
        place.mkdir(exist_ok=True)
        spec = {"format": "parquet", "place": str(folder), "options": {}, "identity": model.identity}
        about = read_table._landed(spark, spec, place / ROWS)
        (place / ABOUT).write_text(json.dumps(about))
        found = table_rows.read(place, ParquetTable(parquet=str(folder)))
        reached = {0: len(orders)} if positions is None else positions
        whole = model.of_columns(found.columns)
        numbering = whole.numbering(spark, sources(spark, orders), reached, LINES, anywhere=True)
        table_rows.land(spark, found, numbering, tmp_path / "evidence", reached, 1)
        one = evidence.load(spark, tmp_path / "evidence", "sink")
        return {name: check(name, one, LINES) for name in NAMES}

    return ask


def verdicts(findings):
    """Verdict and count of those that found something."""
    return {name: (one.verdict.name, one.count) for name, one in findings.items() if one.verdict is not Verdict.VALID}


BOTH = pytest.mark.parametrize("model", [MODEL, BY_ORDER], ids=["as they are", "identity"])


@BOTH
def test_a_table_that_is_right(spark, judged, folder, model, snapshot):
    """All kinds of columns: decimals, times to the microsecond, arrays and nulls are the same on both sides."""
    right(spark).repartition(3).write.parquet(str(folder))

    found = judged(model)

    assert verdicts(found) == {}
    assert (found["gaps"].checked, found["duplicates"].checked, found["values"].checked) == (40, 40, 40)
    assert found["ordering"].note == snapshot


@BOTH
def test_a_batch_that_was_appended_twice(spark, judged, folder, model):
    """Each row too many counts, and names its file and that of the copy before it."""
    right(spark).coalesce(1).write.parquet(str(folder))
    right(spark).where("order < 30").coalesce(1).write.mode("append").parquet(str(folder))

    found = judged(model)

    assert verdicts(found) == {"duplicates": ("INVALID", 20)}
    files = {f"file {file.name}" for file in folder.glob("part-*")}
    example = found["duplicates"].examples[0]
    assert {example.place, example.words.removeprefix("also at ").partition(";")[0]} == files
    assert (int(example.id) if model is BY_ORDER else json.loads(example.id)["order"]) < 30


def test_recurring_rows_are_a_multiset(spark, judged, folder):
    """An order that comes three times must be there three times: once less is a gap, once more a duplicate."""
    orders = [*ORDERS, ("c-1", 1), ("c-1", 1)]
    right(spark).unionByName(right(spark).where("order = 1")).write.parquet(str(folder))

    assert verdicts(judged(orders=orders)) == {"gaps": ("INVALID", 1)}


@pytest.mark.parametrize(("model", "wrong"), [(MODEL, "phantom"), (BY_ORDER, "wrong value")], ids=["as they are", "identity"])
def test_a_wrong_amount(spark, judged, folder, model, wrong):
    """By its identity it is told from a row that nothing demands, and from one that is missing."""
    changed = F.expr("IF(order = 7, amount + 0.01, amount)")
    right(spark).withColumn("amount", changed.cast("decimal(10,2)")).write.parquet(str(folder))

    found = judged(model)

    assert {name: count for name, count in found["values"].counts.items() if count} == {wrong: 1}
    assert found["gaps"].count == (1 if model is MODEL else 0)
    assert found["values"].examples[0].place.startswith("file part-")


def test_rows_that_are_missing(spark, judged, folder):
    """They are said to be demanded by the source as a whole, and to be nowhere."""
    right(spark).where("order <> 7").write.parquet(str(folder))

    found = judged()

    assert verdicts(found) == {"gaps": ("INVALID", 1)}
    assert found["gaps"].examples[0].place == "not in the table"


def test_files_that_a_file_sink_has_not_committed(spark, judged, folder, tmp_path):
    """Files of a killed task are not in the sink's log, and therefore not in the table."""
    right(spark).coalesce(2).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "in"))
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(str(folder)).awaitTermination(120)
    orphan = next(folder.glob("part-*.parquet"))
    (folder / "part-00009-orphan.parquet").write_bytes(orphan.read_bytes())
    (folder / "part-00008-empty.parquet").touch()

    assert verdicts(judged()) == {}


@pytest.mark.parametrize(
    "sql",
    [SQL.replace("AS order", "AS number"), SQL.replace("FROM", ", 1 AS one FROM", 1), QUERY],
    ids=["missing", "one more", "type"],
)
def test_a_model_whose_columns_are_not_those_of_the_table(spark, judged, folder, sql, snapshot):
    """It is never VALID: nothing was compared, and the line says what there is."""
    right(spark).write.parquet(str(folder))

    found = judged(Model(Query(sql), form=TableRows()))

    assert {found[name].verdict for name in ("duplicates", "gaps", "values")} == {Verdict.UNKNOWN}
    assert found["gaps"].note == snapshot


def test_whole_numbers_may_be_of_another_size(spark, judged, folder):
    """A count is a BIGINT in SQL, and an INT in many tables."""
    right(spark).withColumn("order", F.expr("CAST(order AS INT)")).write.parquet(str(folder))

    assert verdicts(judged()) == {}


def test_an_identity_that_is_no_column(spark):
    """It is told before anything is sent, and names the columns that there are."""
    with pytest.raises(ModelError, match=r"`nummer`.*The columns customer, order, amount, paid_at, tags"):
        replace(MODEL, identity="nummer").demanded(spark, sources(spark))


def test_a_pipeline_that_is_not_at_the_end_of_its_source(spark, judged, folder):
    """Which rows of a table are due cannot be told then."""
    right(spark).where("order < 30").write.parquet(str(folder))

    found = judged(positions={0: 30})

    assert found["gaps"].verdict is Verdict.UNKNOWN
    assert "30 records are left" in found["gaps"].note


NO_DRIVER = {"url": "jdbc:x:y", "driver": "x.Y"}


@pytest.fixture
def reads(tmp_path, monkeypatch):
    """Read a table as the process does that the subject's Spark runs."""

    def read(format_, place, options, **arguments):
        spec = {
            "format": format_,
            "place": place,
            "options": options,
            "password_in": "",
            "arguments": arguments,
            "identity": "",
            "places": {},
        }
        (tmp_path / SPEC).write_text(json.dumps(spec))
        monkeypatch.setattr(sys, "argv", ["read_table.py", str(tmp_path)])
        monkeypatch.setattr(sys, "path", ["", *sys.path])
        read_table.main()
        sink = {"jdbc": {"table": place, **options}} if format_ == "jdbc" else {format_: place, **options}
        return table_rows.read(tmp_path, TypeAdapter(Sink).validate_python(sink))

    return read


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("format_", "place", "options", "named"),
    [
        ("parquet", "/no/where", {}, "/no/where"),
        ("delta", "/no/where", {}, "/no/where"),
        ("jdbc", "kept", NO_DRIVER, "driver"),
        ("iceberg", "lake.shop.orders", {}, "iceberg"),
        ("python", "shop_of_tests:nothing", {}, "shop_of_tests:nothing"),
        ("python", "shop_of_tests:fails", {}, "shop_of_tests:fails raised ValueError: no such shop ("),
        ("python", "shop_of_tests:asks", {}, "shop_of_tests.py:6)"),
    ],
    ids=["no folder", "no table", "no driver", "no package", "no rows", "raises", "asks for what is not there"],
)
def test_a_table_that_cannot_be_read(reads, tmp_path, format_, place, options, named, snapshot):
    """A line with what to do about it."""
    functions = (
        "def nothing(spark, places):\n    return 'nothing'\n",
        "def fails(spark, places):\n    raise ValueError('no such shop')\n",
        "def asks(spark, places):\n    return spark.range(1).where('no_such_column')\n",
    )
    (tmp_path / "shop_of_tests.py").write_text("".join(functions))

    with pytest.raises(InconclusiveError) as caught:
        reads(format_, place, {"folder": str(tmp_path)} if format_ == "python" else options)

    assert str(caught.value).startswith(f"pipeline, sink, {format_}: ")
    assert named in str(caught.value)
    errors = r"raised .*\)|\b(java|org)\..*(?=; the job)"  # Python's, or Java's
    assert re.sub(errors, "<error>", str(caught.value)) == snapshot


def test_rows_that_a_function_reads(spark, reads, tmp_path):
    """It is given the session, the places of the run and its own arguments; its rows are judged like those of any table."""
    code = "def kept(spark, places, count):\n    return spark.range(count).selectExpr('id AS order', 'NULL AS note')\n"
    (tmp_path / "shop_that_keeps.py").write_text(code)

    found = reads("python", "shop_that_keeps:kept", {"folder": str(tmp_path)}, count=3)

    assert (found.count, found.columns) == (3, (("order", "bigint"), ("note", "void")))
    rows = spark.read.parquet(str(found.rows)).orderBy("value").collect()
    assert rows[0].asDict() == {
        "key": '{"order":0,"note":null}',
        "value": '{"order":0,"note":null}',
        "place": "as the function gives it",
        "timestamp_ms": None,
    }
