"""Two topics that are filled: each is judged by its own ledger, and the sink by both, each anomaly with its exact count."""

import json
from functools import partial

import pytest

from chaos.common.errors import InconclusiveError
from chaos.common.events import PhaseBegan, PhaseEnded, ProgressSampled
from chaos.common.history import History
from chaos.engine.demand import with_demand
from chaos.engine.pipelines import topics_of
from chaos.engine.run_plan import RunPlan
from chaos.expectation import model as models
from chaos.expectation.base import nothing, view
from chaos.expectation.definitions import ABOUT, ROWS, Query, Twin
from chaos.expectation.model import Model
from chaos.expectation.sources import SeveralTopics, fingerprint_of
from chaos.judging.judge import check, judge
from chaos.loader import rows_file
from chaos.loader.declaration import FillSource
from chaos.matching import row_ids
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed
from tests.planted.test_sql_models import frame, verdicts
from verifiers import evidence
from verifiers.base import Bounds, Evidence, Verdict

ORDERS = [(f"c-{number % 4}", str(number), number % 2) for number in range(40)]
CUSTOMERS = [(f"c-{number}", ("north", "south")[number % 2], number % 3) for number in range(4)]
JOINED = [
    (key, f"{value} {dict(one[:2] for one in CUSTOMERS)[key]}", number % 3) for number, (key, value, _) in enumerate(ORDERS)
]
SQL = "SELECT o.key, concat(o.value, ' ', c.value) AS value FROM orders o JOIN customers c ON o.key = c.key"
FIRSTS = {"orders": 0, "customers": 2}
JOIN, UNION = Model(Query(SQL), sources=SeveralTopics(FIRSTS)), Model(sources=SeveralTopics(FIRSTS))
BOUNDS = {number: Bounds(0, 60, 60) for number in range(3)}
LINES = row_ids.lines_of(BOUNDS)
ENDS = {0: 20, 1: 20, 2: 2, 3: 1, 4: 1}
NAMES = ("duplicates", "gaps", "ordering", "values", "offsets")


@pytest.fixture
def judged(spark, tmp_path):
    """Land a sink as a run does, read it again and judge it by a model of both topics; the findings by verifier."""

    def ask(model, sink, positions=ENDS, customers=CUSTOMERS):
        views = {topic: view(frame(spark, one)) for topic, one in (("customers", customers), ("orders", ORDERS))}
        views["others"] = nothing(spark)
        observed = frame(spark, sink)
        found = model.numbering(spark, views, positions, LINES, anywhere=True)(observed)
        reasons = {"unordered": found.unordered, "unsaid": found.unsaid, "anywhere": True}
        evidence.write(tmp_path, Evidence("sink", found.expected, observed, BOUNDS, positions, **found.views, **reasons))
        one = evidence.load(spark, tmp_path, "sink")
        return {name: check(name, one, LINES) for name in NAMES}

    return ask


@pytest.mark.parametrize(("model", "sink"), [(JOIN, JOINED), (UNION, [*CUSTOMERS, *ORDERS])], ids=["join", "union"])
def test_what_both_topics_demand(judged, model, sink, snapshot):
    """All rows were compared, whatever their order; that this is not asked is said."""
    findings = judged(model, [(key, value, 2 - partition) for key, value, partition in reversed(sink)])

    assert verdicts(findings) == {}
    assert {name: one.checked for name, one in findings.items() if one.asked} == dict.fromkeys(
        [name for name in NAMES if name != "ordering"], len(sink)
    )
    assert findings["ordering"].note == snapshot


@pytest.mark.parametrize(("model", "sink"), [(JOIN, JOINED), (UNION, [*CUSTOMERS, *ORDERS])], ids=["join", "union"])
def test_what_is_wrong(judged, model, sink):
    """Two missing, three again, and one that nobody demands: each is counted as what it is."""
    wrong = [*(row for number, row in enumerate(sink) if number not in {1, 9}), *sink[20:23], ("eve", "?", 0)]

    findings = judged(model, wrong)

    assert verdicts(findings) == {
        "duplicates": ("INVALID", 3),
        "gaps": ("INVALID", 2),
        "values": ("INVALID", 1),
        "offsets": ("INVALID", 2),
    }
    assert (findings["gaps"].counts["lost"], findings["values"].counts["phantom"]) == (2, 1)


def test_rows_of_a_customer_that_was_lost(judged):
    """All orders of the customer are missing, though each order was read."""
    findings = judged(JOIN, [row for row in JOINED if row[0] != "c-3"])

    assert verdicts(findings) == {"gaps": ("INVALID", 10), "offsets": ("INVALID", 10)}


@pytest.mark.parametrize(
    ("positions", "left"),
    [(ENDS | {4: 0}, 1), (ENDS | {1: 18}, 2), ({0: 20, 1: 20}, 4), ({2: 2, 3: 1, 4: 1}, 40)],
)
@pytest.mark.parametrize("model", [JOIN, UNION], ids=["join", "union"])
def test_a_pipeline_that_is_not_past_all_topics(judged, model, positions, left, snapshot):
    """The due rows are not known, whichever topic it is behind in, so nothing is VALID."""
    findings = judged(model, JOINED if model is JOIN else [*CUSTOMERS, *ORDERS], positions)

    assert {one.verdict for one in findings.values()} == {Verdict.UNKNOWN}
    (note,) = {one.note for one in findings.values()}
    assert f"({left} records are left)" in note
    assert note == snapshot


def test_a_place_that_may_be_in_either_topic(judged, snapshot):
    """It is refused in words, and nothing is judged by it."""
    placed = Model(Query("SELECT key, value, partition, offset FROM orders"), sources=SeveralTopics(FIRSTS))

    findings = judged(placed, ORDERS)

    assert {one.verdict for one in findings.values()} == {Verdict.UNKNOWN}
    (note,) = {one.note for one in findings.values()}
    assert note == snapshot


@pytest.mark.parametrize("identity", ["", "value"])
def test_a_twin_of_two_topics(spark, judged, tmp_path, identity, snapshot):
    """The twin's records are compared for each topic: equal records in another topic differ."""
    landed = {"orders": frame(spark, ORDERS), "customers": frame(spark, CUSTOMERS)}
    frame(spark, JOINED).select("key", "value").write.parquet(str(tmp_path / "twin" / ROWS))
    about = {"source": fingerprint_of(landed)}
    (tmp_path / "twin" / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    twin = Model(Twin(str(tmp_path / "twin" / ROWS)), sources=SeveralTopics(FIRSTS), identity=identity)

    assert verdicts(judged(twin, JOINED)) == {}
    assert verdicts(judged(twin, JOINED[1:])) == {"gaps": ("INVALID", 1), "offsets": ("INVALID", 1)}
    other = judged(twin, JOINED, customers=[*CUSTOMERS[:3], ("c-3", "east", 0)])
    assert {one.verdict for one in other.values()} == {Verdict.UNKNOWN}
    assert "(44 records now, 44 then)" in other["gaps"].note
    assert other["gaps"].note == snapshot
    swapped = fingerprint_of({"orders": landed["customers"], "customers": landed["orders"]})
    assert swapped != about["source"]


# a whole run ---------------------------------------------------------------------------------------------------------------


def scenario(**more):
    """A scenario with two filled topics and a join."""
    pipeline = {"kind": "command", "run": ["a"], "group": "g", "reads": ["orders", "customers"], "sink": {"topic": "kept"}}
    of_rows = {"rows": {"file": "a.jsonl"}}
    workload = {"into": "orders", "records": 40, **of_rows, "also": [{"into": "customers", "records": 4, **of_rows}]}
    topics = {"orders": {"partitions": 2}, "customers": {"partitions": 3}, "kept": {}}
    asked = {"leave_out": dict.fromkeys(("atomicity", "stability", "hanging", "commits", "precedence"), "there is no cluster")}
    declared = {"name": "a", "title": "A", "pipeline": {**pipeline, "expected": {"sql": SQL}}, "workload": workload}
    return Scenario.model_validate({**declared, "topics": topics, **asked, **more})


def acknowledged(spark, folder, name, sent, partitions):
    """The ledger and the rows of a loader that has sent these, each acknowledged at its place: what says which are expected."""
    ends, lines = dict.fromkeys(range(partitions), 0), ["id,outcome,partition,offset"]
    for number, (_, _, partition) in enumerate(sent):
        lines.append(f"{number},ok,{partition},{ends[partition]}")
        ends[partition] += 1
    ledger = folder / f"{name}.csv"
    ledger.write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = [{"key": key, "value": value, "partition": partition} for key, value, partition in sent]
    rows_file.write(folder / f"{name}.parquet", iter(made), partitions, None, name=lambda number: f"row {number}")
    bounds = {partition: Bounds(0, end, end) for partition, end in ends.items()}
    number = partial(row_ids.of_source, spark, folder / f"{name}.parquet", ledger, headers=False)
    return bounds, number(row_ids.lines_of(bounds))


@pytest.fixture
def run(spark, tmp_path):
    """Put the evidence of a whole run on disk, and judge it as `chaos judge` does."""

    def ask(sink, customers=CUSTOMERS):
        place, all_bounds = tmp_path / "evidence", []
        for subject, sent, there, partitions in (
            ("source", ORDERS, ORDERS, 2),
            ("source-customers", CUSTOMERS, customers, 3),
        ):
            bounds, number = acknowledged(spark, tmp_path, subject, sent, partitions)
            observed = frame(spark, there)
            found = number(observed)
            evidence.write(place, Evidence(subject, found.expected, observed, bounds, {}, **found.views))
            all_bounds.append(bounds)
        views = {"orders": view(frame(spark, ORDERS)), "customers": view(frame(spark, customers))}
        observed = frame(spark, sink)
        lines = row_ids.lines_of(*all_bounds, BOUNDS)
        found = models.of_scenario(scenario()).numbering(spark, views, ENDS, lines, anywhere=True)(observed)
        reasons = {"unordered": found.unordered, "unsaid": found.unsaid, "anywhere": True}
        evidence.write(place, Evidence("sink", found.expected, observed, BOUNDS, ENDS, **found.views, **reasons))
        with History(tmp_path / "history.jsonl") as history:
            for phase in ("steady", "inject", "drain"):
                history.record(PhaseBegan(phase=phase))
                for committed in (20, 40):
                    history.record(ProgressSampled(written=44, committed=committed, total=40, end=committed))
                history.record(PhaseEnded(phase=phase))
        return judge(spark, scenario(), tmp_path)

    return ask


def wrong(findings):
    """Verifier and log -> verdict and count."""
    found = {(one.verifier, one.subject): (one.verdict.name, one.count) for one in findings}
    return {where: what for where, what in found.items() if what[0] != "VALID"}


def test_a_run_in_which_all_is_right(run):
    """Each log was compared: both topics with their ledgers, and the sink with both."""
    findings = run(JOINED)

    assert wrong(findings) == {}
    assert {one.subject: one.checked for one in findings if one.verifier == "gaps"} == {
        "source": 40,
        "source-customers": 4,
        "sink": 40,
    }
    assert {one.subject: one.checked for one in findings if one.verifier == "ledger"} == {"source": 40, "source-customers": 4}


def test_a_run_in_which_an_acknowledged_customer_is_not_there(run):
    """The topic has lost it, and the sink is as what is there demands: the second topic is INVALID, and nothing else."""
    findings = run([row for row in JOINED if row[0] != "c-3"], CUSTOMERS[:3])

    assert wrong(findings) == {("gaps", "source-customers"): ("INVALID", 1), ("ledger", "source-customers"): ("INVALID", 1)}
    assert {one.examples[0].id for one in findings if one.count} == {"c-3"}


def test_a_run_whose_sink_lacks_a_row(run):
    """The sink is INVALID, and both topics are not."""
    assert wrong(run(JOINED[1:])) == {("gaps", "sink"): ("INVALID", 1), ("offsets", "sink"): ("INVALID", 1)}


def test_a_place_is_refused_before_anything_is_sent(spark, tmp_path, snapshot):
    """As an error of the query is; and how many rows will come is known of both topics together."""
    loads = (FillSource(40, 10.0), FillSource(4, 10.0, ledger="ledger-customers.csv"))

    def planned(sql):
        expected = {"sql": sql}
        pipeline = scenario().pipeline.model_dump(mode="json", by_alias=True) | {"expected": expected}
        one = scenario(
            pipeline=pipeline, workload={"into": "orders", "records": 40, "also": [{"into": "customers", "records": 4}]}
        )
        subject, topics = deployed.command(("a",), "g"), topics_of(one, "", "7")
        return RunPlan(one, plan(one, 1), tmp_path, topics, loads, subject, "app")

    assert with_demand(planned(SQL), lambda: spark).demanded == 4  # of the orders 0 to 39, the first four have a customer
    assert (
        with_demand(planned("SELECT key, value FROM orders UNION ALL SELECT key, value FROM customers"), lambda: spark).demanded
        == 44
    )
    with pytest.raises(InconclusiveError, match="column partition") as caught:
        with_demand(planned("SELECT key, value, partition, offset FROM orders"), lambda: spark)
    assert str(caught.value) == snapshot
