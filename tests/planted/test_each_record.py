"""Queries that say what each integer becomes are judged by keys: which they are, and that nothing else is found so."""

from dataclasses import replace
from random import Random

import pytest

from chaos.contract.base import Topic, Topics
from chaos.engine.demand import with_demand
from chaos.engine.run_plan import RunPlan
from chaos.expectation import ways
from chaos.expectation.base import view
from chaos.expectation.definitions import Function, Query
from chaos.expectation.forms import State
from chaos.expectation.model import Model
from chaos.expectation.ways import OfEachRecord, OfModel
from chaos.judging.judge import check
from chaos.loader.declaration import FillSource
from chaos.matching import row_ids
from chaos.matching.fast import PLAIN
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed
from tests.planted.log import in_words, table
from verifiers import evidence
from verifiers.base import Bounds, Evidence

OBSERVED = "partition int, offset long, timestamp_ms long, key string, value string"
NUMBER = "CAST(value AS DECIMAL(38, 0))"
PLACE = "partition, offset FROM numbers"
SQUARE = f"SELECT key, CAST({NUMBER} * {NUMBER} AS STRING) AS value, {PLACE}"
PARTITIONS, RECORDS = 3, 60
NAMES = ("duplicates", "gaps", "ordering", "values", "offsets")

EACH = {
    "square": SQUARE,
    "copy": f"SELECT key, value, {PLACE}",
    "in other words": "WITH own AS (SELECT *, partition AS p FROM numbers WHERE true) "
    "SELECT CAST(KEY AS STRING) AS key, reverse(value) AS value, p AS partition, offset FROM own;",
    "by its key, place and time": f"SELECT key, concat(key, ':', offset, '@', year(timestamp)) AS value, {PLACE}",
    "a constant": f"SELECT key, 'x' AS value, {PLACE}",
    "none": f"SELECT key, CAST(NULL AS STRING) AS value, {PLACE}",
}
NOT_EACH = {
    "a filter": f"{SQUARE} WHERE CAST(value AS INT) > 2",
    "a filter that all pass": f"{SQUARE} WHERE key IS NOT NULL",
    "a join": "SELECT a.key, a.value, a.partition, a.offset FROM numbers a JOIN numbers b ON a.key = b.key",
    "a join with another topic": "SELECT a.key, b.value, a.partition, a.offset FROM numbers a LEFT JOIN others b USING (key)",
    "an aggregate": "SELECT key, max(value) AS value, partition, offset FROM numbers GROUP BY key, partition, offset",
    "distinct": f"SELECT DISTINCT key, value, {PLACE}",
    "a window": f"SELECT key, lag(value) OVER (PARTITION BY partition ORDER BY offset) AS value, {PLACE}",
    "two rows of one": f"SELECT key, explode(array(value, value)) AS value, {PLACE}",
    "all twice": f"{SQUARE} UNION ALL {SQUARE}",
    "a limit": f"{SQUARE} ORDER BY offset LIMIT 5",
    "another record": "SELECT key, (SELECT max(value) FROM numbers) AS value, partition, offset FROM numbers",
    "another topic's records": f"SELECT key, CAST(EXISTS (TABLE others) AS STRING) AS value, {PLACE}",
    "another key": f"SELECT value AS key, value, {PLACE}",
    "a changed key": f"SELECT concat('0', key) AS key, value, {PLACE}",
    "another place": "SELECT key, value, partition, offset + 1 AS offset FROM numbers",
    "swapped places": "SELECT key, value, CAST(offset AS INT) AS partition, CAST(partition AS BIGINT) AS offset FROM numbers",
    "no place": "SELECT key, value FROM numbers",
    "another topic": "SELECT key, value, partition, offset FROM others",
    "chance": f"SELECT key, CAST(rand() AS STRING) AS value, {PLACE}",
    "chance with a seed": f"SELECT key, CAST(rand(7) AS STRING) AS value, {PLACE}",
    "the time": f"SELECT key, CAST(current_timestamp() AS STRING) AS value, {PLACE}",
    "no query": "SELECT key FROM",
}


def model(sql, **more):
    return Model(Query(sql), integers="numbers", **more)


@pytest.mark.parametrize("said", EACH)
def test_one_row_for_each_record_is_recognised(spark, said):
    """However the query is put: Spark has read it, and removed what changes nothing."""
    assert model(EACH[said]).is_by_record(spark, ("numbers", "others"))


@pytest.mark.parametrize("said", NOT_EACH)
def test_what_needs_other_records_or_is_at_another_place_is_not(spark, said):
    """Also where it happens to give one row for each record."""
    assert not model(NOT_EACH[said]).is_by_record(spark, ("numbers", "others"))


def test_only_a_query_about_our_own_integers_is_recognised(spark, monkeypatch):
    """Keys are no ids for a user's rows, a state, an identity or a function; nor without accelerators."""
    others = [
        replace(model(SQUARE), integers=""),
        model(SQUARE, form=State()),
        model(SQUARE, identity="value"),
        Model(Function("shop:squares"), integers="numbers"),
    ]
    assert [one.is_by_record(spark, ("numbers",)) for one in (*others, model(SQUARE))] == [False] * 4 + [True]
    monkeypatch.setenv(PLAIN, "1")
    assert not model(SQUARE).is_by_record(spark, ("numbers",))


def numbers(rng, *, kind="in turn"):
    """A source of integers: dealt to partitions in turn, at offsets with holes; or as a loader may leave it."""
    ends = [rng.choice([0, 7]) for _ in range(PARTITIONS)]
    ids = list(range(RECORDS))
    match kind:
        case "written twice":
            ids.insert(31, 30 - 30 % PARTITIONS)
        case "in another order":
            ids[12], ids[12 + PARTITIONS] = ids[12 + PARTITIONS], ids[12]
        case "with one missing":
            del ids[20]
    found = []
    for number in ids:
        partition = number % PARTITIONS
        ends[partition] += rng.choice([1, 1, 1, 2]) if kind == "with holes" else 1
        found.append((partition, ends[partition], 1000 + number, str(number), str(number)))
    if kind == "not as numbers":
        found[5] = (*found[5][:3], "+5", "5")
    return found


def _lose(rows, at, _rng):
    del rows[at : at + 4]


def _write_again(rows, at, _rng):
    rows[at + 9 : at + 9] = rows[at : at + 4]


def _hold_back(rows, at, _rng):
    rows.insert(at + 9, rows.pop(at))


def _lose_and_repeat(rows, at, _rng):
    rows.append(rows[2])
    del rows[at]


BY_KEYS = {"none": lambda *_: None, "lost": _lose, "twice": _write_again, "late": _hold_back, "lost, twice": _lose_and_repeat}
BY_ROWS = {
    "wrong": lambda rows, at, _: rows.__setitem__(at, (*rows[at][:2], f"{rows[at][2]}1")),
    "another one with it": lambda rows, at, _: rows.insert(at + 2, (*rows[at][:2], "none")),
    "misrouted": lambda rows, at, _: rows.__setitem__(at, ((rows[at][0] + 1) % PARTITIONS, *rows[at][1:])),
    "nothing demands it": lambda rows, at, _: rows.insert(at, (rows[at][0], "4711", "4711")),
    "no number": lambda rows, at, rng: rows.insert(at, (rows[at][0], rng.choice(["x", "07", None]), rows[at][2])),
    "no value": lambda rows, at, _: rows.__setitem__(at, (*rows[at][:2], None)),
    "bytes": lambda rows, at, _: rows.__setitem__(at, (*rows[at][:2], "0xFF")),
}
DAMAGES = BY_KEYS | BY_ROWS


def damaged(rows, rng, damage):
    """The rows that a pipeline has written of these, with one kind of damage."""
    rows = [(partition, key, value) for partition, _, _, key, value in rows]
    DAMAGES[damage](rows, rng.randrange(5, len(rows) - 10), rng)
    ends, found = [0] * PARTITIONS, []
    for number, (partition, key, value) in enumerate(rows):
        found.append((partition, ends[partition], 2000 + number, key, value))
        ends[partition] += rng.choice([1, 1, 2])
    return found


KINDS = ("written twice", "in another order", "with one missing", "not as numbers")


@pytest.fixture
def found_by(spark, tmp_path):
    """Land what a pipeline has written, read it again and judge it in this way; whether by keys, and the findings."""

    def ask(way, source, sink, positions, *, anywhere=False):
        records = spark.createDataFrame(table(source, OBSERVED))
        bounds = dict.fromkeys(range(PARTITIONS), Bounds(0, 200, 200))
        lines = row_ids.lines_of(bounds)
        asked = ways.WayContext(spark, lambda: {"numbers": view(records)}, PARTITIONS, positions, lines, anywhere)
        observed = spark.createDataFrame(table(sink, OBSERVED))
        found = way.rows(asked)(observed)
        reasons = {"unordered": found.unordered, "unsaid": found.unsaid, "anywhere": anywhere or found.anywhere}
        one = Evidence(
            "sink", found.expected, observed, bounds, positions, source_partitions=PARTITIONS, **found.views, **reasons
        )
        evidence.write(tmp_path, one)
        one = evidence.load(spark, tmp_path, "sink")
        return one.answers is None, {name: comparable(check(name, one, lines)) for name in NAMES}

    return ask


def comparable(finding):
    """The findings in words, with examples in the order of the log: ids are records in one way, and places in the other."""
    finding = in_words(finding)
    examples = (
        replace(one, id=None if one.id is None else str(one.id), detail=one.detail.replace("id ", "key "))
        for one in finding.examples
    )
    return replace(finding, examples=tuple(sorted(examples, key=lambda one: (one.partition, one.offset or 0))))


def written(spark, sql, source):
    """The query's rows for a source, as a pipeline writes them."""
    records = view(spark.createDataFrame(table(source, OBSERVED)))
    records.createOrReplaceTempView("numbers")
    rows = {(row["partition"], row["offset"]): row for row in spark.sql(sql.rstrip(";")).collect()}
    return [(*place, 0, rows[place]["key"], rows[place]["value"]) for place in (record[:2] for record in source)]


def both(spark, found_by, seed, source, sql, damage, **more):
    """The findings of both ways, the quicker one first, and whether that one judged by keys."""
    rng = Random(seed)
    sink = damaged(written(spark, sql, source), rng, damage)
    whole = OfModel(model(sql))
    quick = whole.recognised(spark, ("numbers",))
    assert isinstance(quick, OfEachRecord)
    by_keys, found = found_by(quick, source, sink, **more)
    _, expected = found_by(whole, source, sink, **more)
    return by_keys, found, expected


ENDS = dict.fromkeys(range(PARTITIONS), 200)
MIDDLE = {0: 12, 1: 200, 2: 15}


@pytest.mark.parametrize(
    ("said", "damage"),
    [*(("square", damage) for damage in DAMAGES), *((said, "lost, twice") for said in EACH if said != "square")],
)
def test_the_findings_are_those_of_all_rows(spark, found_by, said, damage):
    """Whatever is wrong; and what a key alone does not decide is left to the definition."""
    source = numbers(Random(damage))

    by_keys, found, expected = both(spark, found_by, damage, source, EACH[said], damage, positions=ENDS)

    assert found == expected
    assert by_keys is (damage in BY_KEYS)
    assert any(one.count for one in found.values()) is (damage != "none")


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("damage", ["none", "lost, twice", "misrouted"])
def test_the_findings_are_the_same_before_the_end_and_in_any_partition(spark, found_by, anywhere, damage):
    """Records that the pipeline is not past are pending, and not lost."""
    _, found, expected = both(spark, found_by, 7, numbers(Random(3)), SQUARE, damage, positions=MIDDLE, anywhere=anywhere)

    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_findings_are_the_same_of_a_source_that_is_not_as_it_should_be(spark, found_by, kind):
    """A record that is there twice demands two rows, and in another order the source's own order is right."""
    source = numbers(Random(kind), kind=kind)

    by_keys, found, expected = both(spark, found_by, kind, source, EACH["copy"], "none", positions=ENDS)

    assert found == expected
    assert by_keys is (kind == "with one missing")
    assert not any(one.count for one in found.values())


def test_a_value_that_cannot_be_computed_is_told_as_ever(found_by):
    """The query fails at one record, so it is not said what is expected."""
    source = [*numbers(Random(1)), (0, 190, 0, "60", "six")]
    sink = [record for record in source if record[3] != "60"]

    found = [found_by(way, source, sink, ENDS)[1] for way in (OfEachRecord(model(SQUARE)), OfModel(model(SQUARE)))]

    assert found[0] == found[1]
    assert "CAST_INVALID_INPUT" in found[0]["values"].note


def planned(folder, sql):
    """A run of 60 integers, whose pipeline says so what it makes of them."""
    pipeline = {"kind": "command", "run": ["a"], "group": "g", "reads": ["numbers", "others"], "sink": {"topic": "made"}}
    declared = {"name": "a", "title": "A", "pipeline": pipeline | {"expected": {"sql": sql}}, "workload": {"records": RECORDS}}
    scenario = Scenario.model_validate(declared | {"topics": {"numbers": {}, "others": {}, "made": {}}})
    topics, subject = Topics((Topic("numbers-1", PARTITIONS),), "made-1"), deployed.command(("a",), "g")
    return RunPlan(scenario, plan(scenario, 1), folder, topics, (FillSource(RECORDS, 10.0),), subject, "app")


@pytest.mark.parametrize(("said", "is_by_keys", "rows"), [(SQUARE, True, RECORDS), (NOT_EACH["a filter"], False, RECORDS - 3)])
def test_a_run_knows_it_before_anything_is_sent(spark, tmp_path, said, is_by_keys, rows):
    """Then rows are as many as the records; of a filter Spark counts them."""
    run = with_demand(planned(tmp_path, said), lambda: spark)

    expected = run.expectation
    assert (type(expected) is OfEachRecord, expected.demands_each, run.demanded) == (is_by_keys, is_by_keys, rows)
    again = ways.of_scenario(run.scenario).recognised(spark, run.scenario.pipeline.reads)
    assert type(again) is (OfEachRecord if is_by_keys else OfModel)  # who judges the run knows it by the scenario alone
