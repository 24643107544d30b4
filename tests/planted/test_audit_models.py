"""`chaos audit topics --expected-sql`: what a query demands of the logs of others; customers recur as keys."""

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from chaos.audit import logs as audit_logs
from chaos.audit import query as audit_expected
from chaos.audit.judge import judge
from chaos.audit.logs import AuditUsageError
from chaos.common.errors import InconclusiveError
from chaos.expectation.definitions import Query
from tests.planted.log import land
from verifiers.base import Bounds, Verdict

COLUMNS = "partition int, offset long, key string, value string"
TIMED = "partition int, offset long, timestamp_ms long, key string, value string"
SOURCE = [(n % 2, n // 2, f"c-{n % 5}", f'{{"order": {n}, "amount": {n % 10}}}') for n in range(60)]
LARGE = "SELECT key, value, partition, offset FROM source WHERE get_json_object(value, '$.amount') >= 4"
BARE = LARGE.replace(", partition, offset", "")
ORDER = "get_json_object(value, '$.order')"
KEPT = [(row[0], 2 * row[1], row[2], row[3]) for n, row in enumerate(SOURCE) if n % 10 >= 4]


@pytest.fixture
def audited(spark, tmp_path):
    """Land two logs, and audit them by a query; the findings by verifier."""

    def ask(sink, query=LARGE, identity="", *, anywhere=False, change=None, timed=(), **form):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        land(folder / "source", timed or SOURCE, TIMED if timed else COLUMNS)
        land(folder / "sink", sink, COLUMNS)
        logs = audit_logs.landed(spark, str(folder))
        logs = replace(logs, fixed=change(logs.fixed)) if change else logs
        model = audit_expected.model(query, identity, **form)
        audit_expected.require_known(spark, model, tuple(logs.fixed.numbers.get("source", ())))
        found = judge(logs, audit_expected.by_model(logs, model, anywhere=anywhere))
        return {finding.verifier: finding for finding in found}

    return ask


def verdicts(findings):
    """Verdict and count of those that found something."""
    return {name: (one.verdict.name, one.count) for name, one in findings.items() if one.verdict is not Verdict.VALID}


@pytest.mark.parametrize("query", [LARGE, BARE])
def test_a_right_sink(audited, query):
    """All of it was compared; without places the order is not asked."""
    findings = audited(KEPT, query)

    assert verdicts(findings) == {}
    assert {one.checked for one in findings.values() if one.asked} == {36}
    assert findings["ordering"].asked is (query is LARGE)


def test_every_anomaly(audited):
    """Two missing, one again, one wrong, two that nothing demands; an identity tells the orders of a customer apart."""
    sink = [row for n, row in enumerate(KEPT) if n not in {3, 4}]
    sink[20] = (*sink[20][:3], sink[20][3].replace('"amount"', '"sum"'))
    again = (KEPT[0][0], 900, *KEPT[0][2:])
    strays = [(0, 901, *SOURCE[0][2:]), (1, 902, "eve", "{}")]

    findings = audited([*sink, again, *strays], identity=ORDER)

    counts = {name: one.count for name, one in findings.items()}
    assert counts == {"duplicates": 1, "gaps": 2, "ordering": 1, "values": 3}
    assert findings["values"].counts == {"wrong value": 1, "phantom": 2, "misrouted": 0, "undecodable": 0}
    assert [(one.id, one.partition, one.offset) for one in findings["duplicates"].examples] == [("c-4 [4]", 0, 900)]
    assert [one.id for one in findings["gaps"].examples if one.anomaly == "lost"] == ["c-3 [8]", "c-2 [7]"]


def test_any_partition(audited):
    """A row elsewhere is misrouted, unless the pipeline chooses partitions."""
    moved = [(1 - KEPT[0][0], 500, *KEPT[0][2:]), *KEPT[1:]]

    assert verdicts(audited(moved)) == {"values": ("INVALID", 1)}
    assert verdicts(audited(moved, anywhere=True)) == {}


def test_several_topics(audited):
    """Each is a view, and the places are those of the log of both."""
    both = "SELECT key, value, partition, offset FROM `shop.a` UNION ALL SELECT key, upper(value), partition, offset FROM b"
    numbers = {"source": {"shop.a": {0: 0}, "b": {0: 1}}, "sink": {"x": {0: 0}, "y": {0: 1}}}
    sink = [(home, offset, key, value.upper() if home else value) for home, offset, key, value in SOURCE]

    assert verdicts(audited(sink, both, change=lambda fixed: replace(fixed, numbers=numbers))) == {}
    findings = audited(sink[:-1], both, change=lambda fixed: replace(fixed, numbers=numbers))
    assert verdicts(findings) == {"gaps": ("INVALID", 1)}
    (lost,) = findings["gaps"].examples
    assert (lost.id, lost.partition, lost.words) == ("c-4", 0, "in y: its input is at partition 0 of b offset 29")


def test_a_pipeline_that_is_at_work(audited, snapshot):
    """Records that the group is not past are pending, by their places; without places the due rows are not known."""

    def behind(fixed):
        return replace(fixed, positions={0: 20, 1: 20})

    due = [row for row in KEPT if row[1] < 40]
    assert verdicts(audited(due, change=behind)) == {"gaps": ("UNKNOWN", 0)}
    with pytest.raises(InconclusiveError, match=r"^--expected-sql: .*20 records") as caught:
        audited(due, BARE, change=behind)
    assert str(caught.value) == snapshot


def test_records_that_may_have_been_removed(audited, snapshot):
    """It is not known what the query would demand of all of them."""

    def begun(fixed):
        return replace(fixed, source={**fixed.source, 0: Bounds(3, 2**40, 2**40)})

    assert verdicts(audited(KEPT, change=begun)) == {}
    with pytest.raises(InconclusiveError, match="offset 3 of partition 0") as expired:
        audited(KEPT, BARE, change=begun)
    with pytest.raises(InconclusiveError, match="is compacted") as holes:
        audited(KEPT, change=lambda fixed: replace(fixed, compacted={"source": "is compacted"}))
    assert [str(expired.value), str(holes.value)] == snapshot


def test_times_are_there_where_they_were_landed(audited):
    """And null where they were not: then the query demands nothing, so no row has a place in an order."""
    query = LARGE.replace("WHERE", "WHERE timestamp >= TIMESTAMP '2026-01-01' AND")
    timed = [(home, offset, 1_780_000_000_000, key, value) for home, offset, key, value in SOURCE]

    assert verdicts(audited(KEPT, query, timed=timed)) == {}
    unasked = ("UNKNOWN", 0)
    assert verdicts(audited(KEPT, query)) == {"values": ("INVALID", 36), "gaps": unasked, "ordering": unasked}


@pytest.mark.parametrize(
    ("query", "identity", "said"),
    [
        ("SELECT key FROM orders", "key", "--expected-sql: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT key FROM source", "key", "--expected-sql: "),
        (LARGE, "amount", "--identity amount: [UNRESOLVED_COLUMN"),
        ("@/nowhere/q.sql", "key", "--expected-sql @/nowhere/q.sql: "),
        (" ", "key", "--expected-sql  : "),
    ],
)
def test_a_query_that_cannot_be_asked(audited, query, identity, said, snapshot):
    """One line, and no report."""
    with pytest.raises(AuditUsageError) as caught:
        audited(KEPT, query, identity)
    assert str(caught.value).startswith(said)
    assert str(caught.value).partition("[")[0] == snapshot  # what comes then is Spark's
    assert "\n" not in str(caught.value)


def test_a_query_in_a_file(tmp_path):
    """As ``@file``."""
    file = tmp_path / "large.sql"
    file.write_text(LARGE, encoding="utf-8")

    assert audit_expected.model(f"@{file}", "dense-key").said == Query(LARGE)


COUNTS = "SELECT key, CAST(count(*) AS STRING) AS value FROM source GROUP BY key"
COUNTED = [(0, n, f"c-{n % 5}", str(n // 5 + 1)) for n in range(60)]


def compacted(fixed):
    return replace(fixed, compacted={"sink": "is compacted"})


def test_the_last_value_of_each_key(audited):
    """The audit compares the last five of sixty updates; compaction may have removed the others."""
    left = [COUNTED[number] for number in (3, 20, *range(55, 60))]
    for sink, change in ((COUNTED, None), (left, compacted)):
        findings = audited(sink, COUNTS, state=True, change=change)
        assert verdicts(findings) == {}
        assert {one.checked for one in findings.values() if one.asked} == {5}
    assert verdicts(audited(COUNTED, COUNTS))["values"] == ("INVALID", 55)

    wrong = audited([*left[:-1], (0, 59, "c-4", "10"), (0, 60, "c-3", None), (1, 0, "c-0", "12")], COUNTS, state=True)

    assert verdicts(wrong) == {"duplicates": ("INVALID", 1), "gaps": ("INVALID", 1), "values": ("INVALID", 1)}
    assert wrong["values"].examples[0].words == "value 10, expected 12: 2 too low"
    assert (wrong["gaps"].examples[0].id, wrong["duplicates"].examples[0].id) == ("c-3", "c-0")


def test_a_state_that_grows_while_compaction_is_at_work(audited, snapshot):
    """A last value may be gone for one that is beyond the end: nothing is said then."""
    with pytest.raises(InconclusiveError, match="--as-state: ") as caught:
        audited(COUNTED, COUNTS, state=True, change=lambda fixed: replace(compacted(fixed), grown=True))
    assert str(caught.value) == snapshot


ROWS_OF_A_TABLE = """
    SELECT 0 AS partition, row_number() OVER (ORDER BY 1) - 1L AS offset, customer AS key, to_json(struct(*)) AS value
    FROM large
"""
OF_THE_TABLE = """
    SELECT key, to_json(named_struct('customer', key, 'order', CAST(get_json_object(value, '$.order') AS BIGINT))) AS value
    FROM source
"""


def test_a_table_that_was_landed_as_a_log(spark, audited):
    """As docs/guides/audit-models.md shows it: rows of a table have no place in the source, and are a multiset."""
    orders = [(f"c-{n % 5}", n) for n in range(60) if n not in {7, 8, 9}] + [("c-1", 21)] * 4
    spark.createDataFrame(orders, "customer string, `order` long").createOrReplaceTempView("large")
    rows = spark.sql(ROWS_OF_A_TABLE)
    kept = [tuple(row) for row in rows.collect()]
    spark.catalog.dropTempView("large")  # other tests list the views of this session
    assert dict(rows.dtypes)["offset"] == "bigint"

    findings = audited(kept, OF_THE_TABLE, anywhere=True)

    assert verdicts(findings) == {"duplicates": ("INVALID", 4), "gaps": ("INVALID", 3)}
    assert {one.id for one in findings["gaps"].examples} == {"c-2", "c-3", "c-4"}
    assert not findings["ordering"].asked
