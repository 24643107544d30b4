"""A run without faults says what is expected, on the real system: its verdicts beside those of the model in SQL."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.common.events import FaultProved, TwinUsed
from chaos.common.history import load as load_history
from chaos.common.history import of_type
from chaos.engine import kept_twins
from chaos.expectation.base import view
from chaos.expectation.definitions import Query
from chaos.expectation.model import Model
from chaos.judging import landing
from chaos.judging.judge import check
from chaos.matching import row_ids
from chaos.scenario.expected import ExpectedRows
from chaos.scenario.load import load, load_text
from tests.integration.conftest import ROOT
from tests.integration.test_models import COPY, ROWS
from verifiers import evidence
from verifiers.base import Verdict

ORDERS = ROOT / "examples" / "orders" / "scenarios.yaml"
OF_ROWS = ("duplicates", "gaps", "values", "offsets")
BY_CHANCE = {
    "every": "10s",
    "quiet": "1%",
    "pick": [
        {"fault": {"kind": "crash_executor", "target": "executor(all)"}},
        {"fault": {"kind": "crash_pipeline"}},
        {"fault": {"kind": "kill_broker", "target": "leader(large, 0)"}},
        {"fault": {"kind": "cut_link", "link": "spark->leader(orders, 0)", "for": "3s"}},
        {"fault": {"kind": "delay_link", "link": "spark->*", "latency": "300ms", "for": "3s"}},
    ],
}
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Twins of these tests: none was there before."""
    return tmp_path_factory.mktemp("twins")


@pytest.fixture
def played(chaos_session, kept, monkeypatch):
    """Run a scenario by its twin; the report, and the findings about the sink."""
    monkeypatch.setattr(kept_twins, "folder", lambda: kept)

    def run(scenario, system):
        pipeline = scenario.pipeline.model_copy(update={"expected": ExpectedRows(same_as="fault_free")})
        scenario = scenario.model_copy(update={"pipeline": pipeline})
        report = chaos_session.run(scenario, system, "", lambda _event: None).report
        return report, {one.verifier: one for one in report.findings if one.subject == "sink"}

    return run


def by_model(session, folder, model, place):
    """The findings about the sink of a run, by a model that the run did not have."""
    spark, found = session.spark(), folder / "evidence"
    landed = landing.landed(spark, found, "source")
    sink, source = (evidence.load(spark, found, subject) for subject in ("sink", "source"))
    lines = row_ids.lines_of(source.bounds, sink.bounds)
    views = {"orders": view(landed)}
    numbered = model.numbering(spark, views, sink.positions, lines, anywhere=True)(sink.observed)
    told = {"expected": numbered.expected, **numbered.views, "anywhere": True}
    evidence.write(place, replace(sink, **told, unordered=numbered.unordered, unsaid=numbered.unsaid))
    judged = evidence.load(spark, place, "sink")
    return {name: check(name, judged, lines) for name in OF_ROWS}


def told(findings):
    """The findings about rows, with the rows."""
    return {
        name: (one.verdict, one.count, one.checked, one.counts, {(each.partition, each.offset) for each in one.examples})
        for name, one in findings.items()
        if name in OF_ROWS
    }


def same_by_model(session, report, findings, pipeline, place):
    """Whether twin and model say the same of one run; the model's findings."""
    model = Model(Query(pipeline.expected.sql), identity=pipeline.identity)
    found = by_model(session, Path(report.run_dir), model, place)
    assert told(found) == told(findings)
    return found


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("orders-executors-crashed", Verdict.VALID),
        ("orders-driver-killed", Verdict.VALID),
        ("orders-stock-executors-crashed", Verdict.INVALID),
    ],
)
def test_twin_and_model_agree(chaos_session, played, tmp_path, name, verdict):
    """Twin and model give the same findings for one run; a twin does not judge the order, and the report says so."""
    file = load(ORDERS)
    scenario = file.scenario(name)
    expect = "valid" if verdict is Verdict.VALID else {"duplicates": {"duplicate": "some"}}

    report, findings = played(scenario.model_copy(update={"expect": expect}), file.system)

    assert report.verdict is Verdict.VALID, report.problems
    found = same_by_model(chaos_session, report, findings, scenario.pipeline, tmp_path)
    assert found["duplicates"].verdict is verdict
    assert "rows of the same pipeline and workload without faults" in report.twin
    assert "a run without faults does not show which source record" in report.not_asked["ordering of the sink"]


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_twin_and_model_agree_under_faults_by_chance(chaos_session, played, tmp_path, monkeypatch, seed):
    """Ten faults of five kinds: what the twin says of the rows is what the model says of them."""
    file = load(ORDERS)
    pipeline = file.scenario("orders-driver-killed").pipeline
    rows = file.scenario("orders-driver-killed").workload.rows.model_dump(exclude_defaults=True)
    declared = {"name": "by-chance", "title": "A", "pipeline": {"kind": "none"}, "random": BY_CHANCE}
    workload = {"records": 44_000, "rate": "400/s", "rows": rows, "into": "orders"}
    topics = {"orders": {}, "large": {}}
    text = json.dumps(
        {"version": 2, "topics": topics, "scenarios": [{**declared, "pipeline": of_file(), "workload": workload}]}
    )
    scenario = load_text(text, ORDERS).scenarios[0].model_copy(update={"pipeline": pipeline})
    monkeypatch.setattr(chaos_session, "seed", seed)

    report, findings = played(scenario, file.system)

    same_by_model(chaos_session, report, findings, pipeline, tmp_path)
    events = tuple(load_history(Path(report.run_dir) / "history.jsonl"))
    proved = [value for _, value in of_type(events, FaultProved) if value.effective]
    assert len(proved) >= 5, report.problems
    assert report.verdict is Verdict.VALID, report.problems


def of_file():
    """The job of the example, as its file declares it."""
    return {
        "kind": "spark_submit",
        "reads": ["orders"],
        "sink": {"topic": "large"},
        "application": "orders.py",
        "arguments": ["exactly_once", "{checkpoint}"],
    }


@pytest.fixture
def copied(chaos_session, tmp_path, kept, monkeypatch):
    """Copy 3000 orders with a plain application or another command, and judge that by its twin."""
    monkeypatch.setattr(kept_twins, "folder", lambda: kept)

    def run(**more):
        workload = {"records": 3000, "rate": "1500/s", "rows": {"sql": ROWS}}
        pipeline = {**COPY, "expected": {"same_as": "fault_free"}, **more}
        scenario = {"name": "a", "title": "A", "pipeline": pipeline, "workload": workload}
        text = json.dumps({"version": 2, "topics": {"orders": {}, "copies": {}}, "scenarios": [scenario]})
        file = load_text(text, tmp_path / "scenarios.yaml")
        return chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None).report

    return run


def test_a_twin_is_kept(copied):
    """The first run makes it, by two runs, the second uses it; and one whose pipeline has changed makes another."""
    reports = [copied(), copied(), copied(environment={"LEVEL": "2"})]

    used = [twin for one in reports for _, twin in of_type(load_history(Path(one.run_dir) / "history.jsonl"), TwinUsed)]
    assert [(one.runs, one.rows) for one in used] == [(2, 3000), (0, 3000), (2, 3000)]
    assert used[0].key == used[1].key != used[2].key
    assert {one.verdict for one in reports} == {Verdict.VALID}, reports


def test_a_twin_that_fails(copied):
    """UNKNOWN before anything is sent, with what the run without faults failed with, in one line."""
    report = copied(run=["{python}", "-c", "raise SystemExit('no such shop')"], restarts=0)

    assert (report.verdict, report.findings) == (Verdict.UNKNOWN, ())
    (problem,) = report.problems
    assert "pipeline, expected, same_as: " in problem
    assert "no such shop" in problem
