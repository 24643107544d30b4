"""`verifiers.audit` of two DataFrames: equal to counting one by one, and to what `chaos audit` finds in the same logs."""

import ast
import contextlib
import io
import json
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from unittest.mock import Mock
from zlib import crc32

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

import verifiers
from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit import prepared
from chaos.audit.judge import judge
from tests.planted.disordered import out_of_place
from tests.planted.examples import EXAMPLES
from tests.planted.log import land, table
from tests.planted.test_multisets import by_counting, damaged
from verifiers import arrow
from verifiers.base import Verdict
from verifiers.frames import sums

COLUMNS = "partition int, offset long, key string, value string"
NOTEBOOK = Path(__file__).parents[2] / "docs" / "guides" / "audit-notebook.ipynb"
PLACES = ("partition", "offset")
DOUBLES = "doubles in the source"
SEEDS = range(max(2, EXAMPLES.max_examples // 2))
VALID = dict.fromkeys(("duplicates", "gaps", "ordering", "values"), (Verdict.VALID, 0))


@pytest.fixture
def frame(spark):
    """Makes a frame of these rows."""
    return lambda rows, columns=COLUMNS: arrow.frame(spark, table(rows, columns))


@pytest.fixture
def audited(frame):
    """Audits two logs by their keys and places."""

    def ask(source, sink, **asked):
        return verifiers.audit(frame(source), frame(sink), **({"key": "key", "order": PLACES} | asked))

    return ask


@pytest.fixture
def by_chaos(spark, tmp_path):
    """What `chaos audit topics --identity key --routing any` finds in these logs: the findings by verifier."""

    def ask(source, sink):
        folder = Path(mkdtemp(dir=tmp_path))
        for name, rows in (("source", source), ("sink", sink)):
            land(folder / name, rows, COLUMNS)
        logs = audit_logs.landed(spark, str(folder))
        asked = prepared.by_key(logs, audit_identity.model("identity"), anywhere=True)
        return {one.verifier: one for one in judge(logs, asked)}

    yield ask
    spark.catalog.clearCache()


def log(*rows):
    """One partition: key and value of each record, at offsets from 0 on."""
    return [(0, offset, key, value) for offset, (key, value) in enumerate(rows)]


def verdicts(report):
    """Verdict and count of each verifier."""
    return {one.verifier: (one.verdict, one.count) for one in report.findings}


def counts(findings):
    """All numbers of the findings: those that went wrong, by kind, and those that were checked.

    Not how many rows were left out of the order: `chaos audit` includes those that nothing demands. Nor the doubles of the
    source, which are a frame of the report.
    """
    return {
        one.verifier: (
            one.verdict,
            one.count,
            one.checked,
            {kind: count for kind, count in one.counts.items() if kind not in {"unordered", DOUBLES}},
        )
        for one in findings
    }


def finding(report, verifier):
    (found,) = (one for one in report.findings if one.verifier == verifier)
    return found


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def moved(source, rng, often):
    """A copy of a log, spread over four groups, in which some rows come too late or too early."""
    order = sorted(range(len(source)), key=lambda at: at + (rng.randrange(-9, 9) if rng.random() < often else 0))
    ends = Counter()
    copied = []
    for at in order:
        home = crc32(source[at][2].encode()) % 4 if often < 1 else rng.randrange(4)
        copied.append((home, ends[home], *source[at][2:]))
        ends[home] += 1
    return copied


# clean -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_is_valid(audited, seed):
    """Whatever its keys are, however often they recur, and in whatever order the frame has its rows."""
    rng = Random(seed)
    source = [(at % 3, at // 3, f"k{rng.randrange(20)}", rng.choice(["a", "b", None])) for at in range(200)]

    report = audited(source, rng.sample(source, len(source)))

    assert verdicts(report) == VALID, report
    assert report.valid
    assert [rows(one) for one in (report.lost, report.duplicated, report.wrong, report.phantom, report.late)] == [[]] * 5
    seen = Counter[tuple[str, str | None]]()
    firsts = [row for row in sorted(source) if not seen[row[2:]] and not seen.update([row[2:]])]
    assert rows(report.repeated) == sorted(set(source) - set(firsts))


def test_each_anomaly_is_invalid(audited):
    """One of each, and the frames have the rows."""
    source = log(*((f"k{at}", "v") for at in range(20)))
    sink = [row for row in source if row[1] not in {3, 9, 15}]
    sink += [(0, 20, "k1", "v"), (0, 9, "k9", "x"), (0, 21, "new", "v"), (0, 22, None, "v"), (0, 23, "k15", "v")]

    report = audited(source, sink)

    assert rows(report.lost) == [source[3]]
    assert rows(report.duplicated) == [(0, 20, "k1", "v")]
    assert rows(report.wrong) == [(0, 9, "k9", "x")]
    assert {row[1:3] for row in (tuple(one) for one in report.phantom.collect())} == {(21, "new"), (22, None)}
    assert rows(report.late) == [(0, 20, "k1", "v"), (0, 23, "k15", "v")]
    assert not report.valid
    assert verdicts(report) == {
        "duplicates": (Verdict.INVALID, 1),
        "gaps": (Verdict.INVALID, 1),
        "ordering": (Verdict.INVALID, 2),
        "values": (Verdict.INVALID, 3),
    }
    assert finding(report, "values").counts == {"wrong value": 1, "phantom": 1, "misrouted": 0, "undecodable": 1}


# by chance -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buckets", ["named", "too many"])
@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_those_of_multisets(audited, by_chaos, monkeypatch, seed, buckets):
    """Lost, again, elsewhere, changed, and of keys that nothing demands: as counted one by one, and as `chaos audit` counts."""
    rng = Random(seed)
    source = [(at % 3, at // 3, f"k{rng.randrange(60)}", rng.choice(["a", "b", None])) for at in range(240)]
    sink = damaged(source, rng)
    if buckets == "too many":
        monkeypatch.setattr(sums, "_MOST", 3)

    report = audited(source, sink)

    again, lost, kinds = by_counting(*([(0, *row[1:]) for row in log] for log in (source, sorted(sink))))
    found = by_chaos(source, sink)
    assert counts(report.findings) == counts(found.values())
    assert report.repeated.count() == found["duplicates"].counts.get(DOUBLES, 0)
    assert (finding(report, "duplicates").count, finding(report, "gaps").count) == (again, lost)
    assert finding(report, "values").counts == kinds
    assert (report.duplicated.count(), report.lost.count()) == (again, lost)
    assert (report.wrong.count(), report.phantom.count()) == (kinds["wrong value"], kinds["phantom"])
    assert report.late.count() == finding(report, "ordering").count


@pytest.mark.parametrize("often", [0.02, 0.5, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_order_is_that_of_the_reference(audited, by_chaos, seed, often):
    """Unlike records in several groups: as found one by one, by the definition; no number of theirs needs to be dense."""
    rng = Random(seed)
    source = [(at % 3, 7 * at, f"k{at}", str(rng.randrange(3))) for at in range(150)]
    sink = moved(source, rng, often)
    place = {row[2]: row[:2] for row in source}
    lines = {}
    for row in sorted(sink):
        line, number = place[row[2]]
        lines.setdefault((row[0], line), []).append((number, row))
    late = [line[at][1] for line in lines.values() for at, _ in out_of_place([number for number, _ in line])]

    report = audited(source, sink)

    assert rows(report.late) == sorted(late)
    assert counts(report.findings) == counts(by_chaos(source, sink).values())
    assert len(finding(report, "ordering").examples) == min(32, len(late))


@pytest.mark.parametrize("seed", SEEDS)
def test_order_of_what_recurs(audited, by_chaos, seed):
    """Order that equal records leave open is no error, with the same numbers as `chaos audit`."""
    rng = Random(seed)
    source = [(at % 2, at // 2, f"k{rng.randrange(12)}", rng.choice("ab")) for at in range(120)]
    sink = moved(source, rng, 0.3)
    lost = [row for row in sink if rng.random() > 0.05]

    for copied in (sink, lost):
        assert counts(audited(source, copied).findings) == counts(by_chaos(source, copied).values())


@pytest.mark.parametrize("holds", [True, False])
def test_nothing_is_held_in_the_end(spark, frame, audited, monkeypatch, holds):
    """A service that holds no frames finds the same: each is made again."""
    source = log(*((f"k{number}", "v") for number in range(40)))
    sink = [(0, offset, *row[2:]) for offset, row in enumerate([*source[:10], *source[20:], *source[10:20]])]
    if not holds:
        refused = PySparkException("[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported on serverless compute.")
        monkeypatch.setattr(type(frame(source)), "persist", Mock(side_effect=refused))

    before = len(spark.sparkContext._jsc.getPersistentRDDs())

    report = audited(source, sink)

    assert (finding(report, "ordering").count, report.late.count()) == (10, 10)
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == before


# what is asked ---------------------------------------------------------------------------------------------------------------


def test_without_order_it_is_not_judged(audited):
    """The report says so, and is VALID; the columns of places are compared like any others unless they are left out."""
    source = log(("a", "1"), ("b", "2"))
    sink = log(("b", "2"), ("a", "1"))

    report = audited(source, sink, order=None, columns="value")

    assert report.valid
    assert not finding(report, "ordering").asked
    assert "not asked" in str(report)
    assert finding(audited(source, sink, order=None), "values").counts["wrong value"] == 2


def test_a_key_of_several_columns_and_of_sql(frame):
    """Its parts may be columns, SQL and Columns."""
    columns = "day string, number int, amount int"
    source = frame([("mon", 1, 5), ("mon", 2, 6), ("tue", 1, 7)], columns)
    sink = frame([("mon", 1, 5), ("tue", 1, 8)], columns)

    for key in (["day", "number"], "concat(day, '-', number)", ["day", F.col("number")], F.expr("struct(day, number)")):
        report = verifiers.audit(source, sink, key=key, columns="amount")

        assert [one.count for one in report.findings] == [0, 1, 0, 1], (key, report)
    assert "amount 8, expected 7" in str(report)


@pytest.mark.parametrize("form", ["sql", "function"])
def test_expected_rows(frame, form):
    """A query over the source, with braces and a comment, or a function of it."""
    source = frame([("a", 1), ("a", 2), ("b", 5)], "name string, amount long")
    sink = frame([("a", 3), ("b", 6)], "name string, total long")
    query = "SELECT name, sum(amount) AS total FROM source WHERE name <> '{x}' GROUP BY name -- each\n;"
    asked = query if form == "sql" else lambda rows: rows.groupBy("name").agg(F.sum("amount").alias("total"))

    report = verifiers.audit(source, sink, key="name", expected=asked)

    assert finding(report, "values").counts["wrong value"] == 1
    assert (report.records, report.rows) == (2, 2)
    assert rows(report.wrong) == [("b", 6)]


def test_nothing_compared_is_unknown(frame):
    """Neither side has a row, because the query selects none."""
    source, sink = frame([("a", 1)], "name string, amount long"), frame([], "name string, amount long")

    report = verifiers.audit(source, sink, key="name", expected="SELECT * FROM source WHERE amount > 1")

    assert (report.verdict, report.valid) == (Verdict.UNKNOWN, False)


def test_nested_and_special_values(spark):
    """Nulls inside of arrays, parts of a second inside of structs, NaN and -0.0: as Spark groups them."""
    columns = "id int, a array<int>, s struct<at: timestamp, b: binary>, d double"

    def made(a, at, d):
        return spark.sql(f"SELECT 1 AS id, {a} AS a, named_struct('at', TIMESTAMP '{at}', 'b', X'00FF') AS s, {d} AS d")

    right = made("array(1, NULL)", "2026-01-01 00:00:00.000001", "double('NaN')")
    for other in (
        made("array(NULL, 1)", "2026-01-01 00:00:00.000001", "double('NaN')"),
        made("array(1, NULL)", "2026-01-01 00:00:00.000002", "double('NaN')"),
        made("array(1, NULL)", "2026-01-01 00:00:00.000001", "0D"),
    ):
        assert finding(verifiers.audit(right, other, key="id"), "values").counts["wrong value"] == 1, columns
    assert verifiers.audit(made("array(1)", "2026-01-01", "0D"), made("array(1)", "2026-01-01", "-0D"), key="id").valid


def test_integers_and_decimals_of_other_widths(spark):
    """They are compared as the wider ones; and columns without regard to case, as in Spark."""
    source = spark.sql("SELECT 7 AS id, 1.50BD AS amount")
    sink = spark.sql("SELECT 7L AS ID, CAST(1.5 AS DECIMAL(20, 4)) AS Amount")

    assert verifiers.audit(source, sink, key="id").valid


def test_odd_names(spark):
    """Dots, spaces and backquotes in names of columns, and the names that the audit itself uses."""
    names = "1 AS `a.b`, 2 AS `c ``d`, 3 AS k, 4 AS v, 5 AS mine, map(1, 2) AS `row`"
    source = spark.sql(f"SELECT {names}")
    report = verifiers.audit(source, spark.sql(f"SELECT {names}").limit(0), key="a.b", columns=["c `d", "k", "mine"])

    assert report.lost.columns == source.columns
    assert report.lost.count() == 1


def test_columns_of_one_frame_are_named(frame, snapshot):
    """They are not compared, and the report says so."""
    source, sink = frame([("a", "x")], "key string, value string"), frame([("a", "y")], "key string, other string")

    note = finding(verifiers.audit(source, sink, key="key"), "values").note

    assert "value (source), other (sink)" in note
    assert note == snapshot


def test_positions_that_are_times(spark):
    """A timestamp orders rows as well as a number; rows of one time have no order among each other."""
    moment = "timestamp_seconds(1800000000 + {}) AS moment".format
    source = spark.range(9).selectExpr("id", moment("id"))
    sink = spark.range(9).selectExpr("id", moment("IF(id = 2, 7, id)"))
    at_once = spark.range(9).selectExpr("id", moment("0"))

    report = verifiers.audit(source, sink, key="id", order="moment")

    (example,) = finding(report, "ordering").examples
    assert (example.id, example.words, example.place) == ("2", "4 too late", "moment 2027-01-15 08:00:07+00:00")
    assert verifiers.audit(source, at_once, key="id", order="moment").valid


def test_rows_that_are_not_the_same_each_time(spark):
    """A frame that depends on the time cannot be judged, and one line says so; a seed of rand() stays what it was."""
    source = spark.range(300).selectExpr("id", "unix_micros(current_timestamp()) AS amount")

    with pytest.raises(verifiers.AuditError, match="had other rows when it was read again"):
        verifiers.audit(source, spark.range(300).selectExpr("id", "0L AS amount"), key="id")


# reports ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged_report(audited):
    source = log(*((f"k{at}", "v") for at in range(60)))
    return audited(source, [*source[:2], (0, 2, "k2", "<b>x</b>"), *source[45:], (0, 70, "k1", "v")])


def test_the_words_of_a_report(damaged_report, snapshot):
    """Short lines for a failed assertion; the first of each finding, and how many more."""
    assert str(damaged_report) == snapshot


def outputs(code, names):
    """What a notebook shows of a cell: all that it prints, and the value of its last expression."""
    *body, last = ast.parse(code).body
    printed, shown = io.StringIO(), []
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - the notebook is ours
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307 - likewise
    if value is not None:
        shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    return [text for text in (printed.getvalue(), *shown) if text]


def test_the_notebook_shows_what_is_so(spark):
    """Each cell of the page gives what is below it: `jupyter nbconvert --execute --inplace` writes it anew."""
    names, cells = {"spark": spark}, json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for cell in (one for one in cells if one["cell_type"] == "code"):
        written = [
            "".join(one.get("text") or one["data"].get("text/html") or one["data"]["text/plain"]) for one in cell["outputs"]
        ]
        assert outputs("".join(cell["source"]), names) == written


# bad input -------------------------------------------------------------------------------------------------------------------


A = "id int, name string, tags map<string, int>"


@pytest.mark.parametrize(
    ("source", "sink", "asked", "names"),
    [
        pytest.param(A, A, {"key": "order"}, ("key: source ", " order;", "id, name, tags"), id="no column"),
        pytest.param(A, "ids int", {"key": "id"}, ("key: sink ", " id;", " ids?"), id="in one frame only"),
        pytest.param(A, A, {"key": []}, ("key ",), id="empty key"),
        pytest.param(A, A, {"key": "tags"}, ("key tags of source ", " map"), id="a map as key"),
        pytest.param(A, A, {"key": "id"}, ("column tags of source ", " map"), id="a map"),
        pytest.param(A, "id string", {"key": "id"}, ("key id ", " int in source ", " string in sink"), id="types"),
        pytest.param(A, A, {"key": "id +"}, ("key id +: ", "PARSE_SYNTAX_ERROR"), id="no SQL"),
        pytest.param(A, A, {"key": "ids + 1"}, ("key ids + 1: ", " source: "), id="no column in SQL"),
        pytest.param(A, A, {"key": "explode(tags)"}, ("key explode(tags): ", " source: "), id="several values"),
        pytest.param(A, A, {"key": "count(id)"}, ("key count(id): ", " source: "), id="one value"),
        pytest.param(A, A, {"key": "id", "order": "offset"}, ("order: source ", " offset;"), id="no order"),
        pytest.param(A, A, {"key": "id", "order": "name", "columns": ()}, ("order: name", " string in source: "), id="text"),
        pytest.param(A, A, {"key": "id", "columns": "names"}, ("columns: source ", " names;", " name?"), id="columns"),
        pytest.param(A, A, {"key": "id", "expected": "SELEC 1"}, ("expected: ", "PARSE_SYNTAX_ERROR"), id="a query"),
        pytest.param(A, A, {"key": "id", "expected": lambda _: 7}, ("expected ", " int,", " DataFrame"), id="a number"),
        pytest.param("id int, ID int", A, {"key": "id"}, ("source ", " id:"), id="a name twice"),
    ],
)
def test_a_question_that_cannot_be_asked(spark, source, sink, asked, names, snapshot):
    """One line, before any job, that says what to do."""
    frames = (spark.createDataFrame([], columns) for columns in (source, sink))

    with pytest.raises(verifiers.AuditError) as raised:
        verifiers.audit(*frames, **asked)

    said = str(raised.value)
    assert [name for name in names if name not in said] == []
    assert "\n" not in said
    assert said.partition("[")[0] == snapshot  # what comes then is Spark's


def test_frames_that_cannot_be_audited(spark, frame, tmp_path, snapshot):
    """Of another kind, the same twice, the same files twice, a stream, or without rows."""
    rows_ = frame(log(("a", "1")))
    ask = partial(verifiers.audit, key="key")
    rows_.write.parquet(str(tmp_path / "rows"))
    said = []

    for source, sink, order, name in (
        ([1], rows_, (), "source is a builtins.list"),
        (rows_, rows_, (), "same frame"),
        (*(spark.read.parquet(str(tmp_path / "rows")) for _ in range(2)), (), "same files"),
        (rows_, spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "rows")), (), "sink is a streaming frame"),
        (rows_.limit(0), frame([]), (), "source is empty"),
        (rows_, frame([]), F.col("offset"), "order: offset "),
    ):
        with pytest.raises(verifiers.AuditError, match=name) as raised:
            ask(source, sink, order=order)
        said.append(str(raised.value))
    assert said == snapshot


def test_rows_without_key_or_position(frame):
    """A null in a key of the source, or in a position, is named."""
    source, sink = frame([(0, 0, "a", "1"), (0, 1, None, "1")]), frame(log(("a", "1")))
    nowhere = frame([(0, None, "a", "1")])

    with pytest.raises(verifiers.AuditError, match=r"1 demanded rows have no key \(key is null\)"):
        verifiers.audit(source, sink, key="key")
    with pytest.raises(verifiers.AuditError, match=r"1 rows have no position \(offset is null\)"):
        verifiers.audit(sink, nowhere, key="key", order=PLACES)
