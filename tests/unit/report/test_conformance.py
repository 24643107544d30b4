"""The table says of each case what its runs say, and of a case without a run why there is none."""

import json
from pathlib import Path

import pytest

from chaos.report import conformance
from chaos.report.conformance import Case, Run
from tests.unit.report.conftest import Fabricated
from verifiers.base import Finding, Verdict

AXES = ("step", "fault")
ROW = ("EndTxn", "answer lost")


def case(client: str, why_not: str = "", row: tuple[str, str] = ROW) -> Case:
    """A case of the sweep."""
    return Case(f"step-{client}", client, AXES, row, why_not)


@pytest.fixture
def ran(run: Fabricated):
    """A run of a client's case, as its report says."""

    def made(client: str, **changes) -> Run:
        folder = run.folder / f"run-{client}"
        report = run.valid(scenario=f"step-{client}", run_dir=folder, **changes)
        return Run(report, folder, f"{client}==1.0", {"kafka": "4.3.0", "java": "17"})

    return made


def found(verifier: str, **counts: int) -> Finding:
    """Anomalies of the sink."""
    named = {name.replace("_", " "): count for name, count in counts.items()}
    return Finding(verifier, "sink", Verdict.INVALID, sum(named.values()), 6000, named)


def outcome(ran, *findings: Finding, **changes) -> str:
    """The text of the cell of such a run."""
    (cell,) = conformance.cells([case("a")], [ran("a", findings=findings, **{"verdict": Verdict.INVALID, **changes})])
    return cell.text.replace("\u00a0", " ")


def test_a_cell_names_what_went_wrong_first(ran) -> None:
    """Rows that are out of order or ahead of their positions follow from duplicates, so they are not named beside them."""
    findings = (found("ordering", inversion=199), found("duplicates", duplicate=200), found("gaps", lost=1, pending=4))

    assert outcome(ran, *findings) == "lost 1, duplicate 200"
    assert outcome(ran, found("ordering", inversion=2)) == "inversion 2"
    assert outcome(ran, found("outcomes", in_part=1), found("atomicity", torn=2)) == "torn 2"
    assert outcome(ran, found("progress", no_recovery=1)) == "stuck"


def test_what_is_expected_is_not_named(ran) -> None:
    """A case may declare anomalies of the source, which the fault itself causes."""
    lost = found("duplicates", duplicate=200)

    assert outcome(ran, lost, verdict=Verdict.VALID, expect={"duplicates": Verdict.INVALID}) == "VALID"


def test_a_client_that_fell_over_is_told(ran) -> None:
    """It is right because it was started again; an end by a fault's SIGKILL is none of its own."""
    assert outcome(ran, verdict=Verdict.VALID, exit_codes=(1,), restarts=1) == "VALID, restarted"
    assert outcome(ran, verdict=Verdict.VALID, exit_codes=(-9,), restarts=1) == "VALID"


def test_of_several_runs_the_worst_counts(ran) -> None:
    runs = [ran("a"), ran("a", verdict=Verdict.INVALID, findings=(found("gaps", lost=3),)), ran("a", verdict=Verdict.UNKNOWN)]
    (cell,) = conformance.cells([case("a")], runs)

    assert cell.text.replace("\u00a0", " ") == "lost 3 (worst of 3)"


def test_the_page(ran, run: Fabricated, snapshot) -> None:
    """Every outcome, each with its run's page, and the reason where there is no answer."""
    (run.folder / "run-b").mkdir()
    (run.folder / "run-b" / "report.html").touch()
    runs = [
        ran("a"),
        ran(
            "b", verdict=Verdict.INVALID, findings=(found("gaps", lost=200), found("duplicates", duplicate=3)), exit_codes=(1,)
        ),
        ran("c", not_sent=True),
        ran("d", verdict=Verdict.UNKNOWN, problems=("lose_response-1: its trigger | never came",)),
        ran("e", verdict=Verdict.UNKNOWN, findings=(run.finding("gaps", Verdict.UNKNOWN, note="nothing was compared"),)),
        ran("g", verdict=Verdict.INVALID, findings=(found("ordering", inversion=2),)),
    ]
    cases = [*map(case, "abcde"), case("f", "it has <no> members"), case("g"), case("h")]
    cases += [Case("plain-a", "a", ("question",), ("nothing is broken",))]

    page = conformance.markdown(conformance.cells(cases, runs), run.folder)

    assert page.replace("\u00a0", " ") == snapshot


def test_as_json(ran, run: Fabricated) -> None:
    """What was run can be run again; a case that was not has no run."""
    runs = [ran("a", verdict=Verdict.INVALID, findings=(found("gaps", lost=200),))]
    cell, other = conformance.as_json(conformance.cells([case("a"), case("b", "why")], runs), run.folder.parent)

    assert cell["outcome"] == "lost"
    assert cell["found"] == {"lost": 200}
    assert (cell["step"], cell["fault"], cell["client"], cell["version"]) == (*ROW, "a", "a==1.0")
    assert cell["run"] == f"{run.folder.name}/run-a"
    assert cell["seed"] == 7
    assert (other["outcome"], other["why"]) == ("not asked", "why")
    assert "run" not in other
    assert json.dumps([cell, other])


def test_runs_of_several_machines_are_read(run: Fabricated) -> None:
    """Each shard leaves a folder of runs; a report that is damaged is named, and the others count."""
    for shard, packages in (("1", {"pypi": ["aiokafka==0.14.0"], "python": None}), ("2", ["org.slf4j:x:1", "org.apache:y:2"])):
        folder = run.folder / f"runs-{shard}" / "run"
        folder.mkdir(parents=True)
        run.valid(run_dir=folder, scenario=f"s{shard}").write()
        (folder / "scenario.json").write_text(json.dumps({"pipeline": {"packages": packages}}), encoding="utf-8")
    damaged = run.folder / "runs-2" / "other"
    damaged.mkdir()
    (damaged / "report.json").write_text("{", encoding="utf-8")
    bare = run.folder / "runs-2" / "bare"
    bare.mkdir()
    run.valid(run_dir=bare, scenario="s3").write()

    runs, problems = conformance.runs_below(run.folder)

    assert {one.report.scenario: one.client_version for one in runs} == {
        "s1": "aiokafka==0.14.0",
        "s2": "org.apache:y:2",
        "s3": "Spark unknown",
    }
    assert [str(Path("runs-2", "other")) in problem for problem in problems] == [True]
