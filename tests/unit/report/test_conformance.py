"""The table says of each case what its runs say, and of a case without a run why there is none."""

import json
from pathlib import Path

import pytest

from chaos.common.errors import InconclusiveError
from chaos.report import conformance, conformance_page
from chaos.report.conformance import Case, Cell, Result
from tests.unit.report.conftest import Fabricated
from tests.unit.wording import raised
from verifiers.base import Finding, Verdict

AXES = ("step", "fault")
ROW = ("EndTxn", "answer lost")


def case(client: str, why_not: str = "", row: tuple[str, str] = ROW) -> Case:
    """A case of the sweep."""
    return Case(f"step-{client}", client, AXES, row, why_not)


@pytest.fixture
def ran(run: Fabricated):
    """A run of a client's case, as its report says."""

    def made(client: str, *others: dict, **changes) -> Result:
        folder = run.folder / f"run-{client}"
        folder.mkdir(exist_ok=True)
        declared = {"pipeline": {"packages": {"pypi": [f"{client}==1.0"]}}}
        (folder / "report.json").touch()
        (folder / "scenario.json").write_text(json.dumps(declared), encoding="utf-8")
        (folder / "versions.json").write_text(json.dumps({"kafka": "4.3.0", "java": "17"}), encoding="utf-8")
        reports = [run.valid(scenario=f"step-{client}", run_dir=folder, **one) for one in (changes, *others)]
        return conformance.result([(report, folder) for report in reports])

    return made


def found(verifier: str, **counts: int) -> Finding:
    """Anomalies of the sink."""
    named = {name.replace("_", " "): count for name, count in counts.items()}
    return Finding(verifier, "sink", Verdict.INVALID, sum(named.values()), 6000, named)


def outcome(ran, *findings: Finding, **changes) -> str:
    """The text of the cell of such a run."""
    text: str = ran("a", findings=findings, **{"verdict": Verdict.INVALID, **changes}).text
    return text.replace("\u00a0", " ")


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
    others = {"verdict": Verdict.INVALID, "findings": (found("gaps", lost=3),)}, {"verdict": Verdict.UNKNOWN}

    assert ran("a", *others).text.replace("\u00a0", " ") == "lost 3 (worst of 3)"


def test_files_of_a_run_are_named_without_its_folder(ran, run: Fabricated) -> None:
    """A table is read where the runs are not."""
    error = f"the pipeline did not start; see {run.folder}/run-a/logs/pipeline.log"

    result = ran("a", verdict=Verdict.UNKNOWN, problems=(error,))

    assert result.why == "the pipeline did not start; see logs/pipeline.log"
    assert "the pipeline did not start; see logs/pipeline.log" in "\n".join(result.story)


@pytest.fixture
def table(ran, run: Fabricated) -> list[Cell]:
    """Every outcome; one run has a page."""
    (run.folder / "run-b").mkdir()
    (run.folder / "run-b" / "report.html").touch()
    results = [
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
    return conformance.cells(cases, {one.scenario: one for one in results})


def test_the_page(table, run: Fabricated, snapshot) -> None:
    """Every outcome, each with its run's page, and the reason where there is no answer."""
    (page,) = conformance_page.pages(table, run.folder / "table.md").values()

    assert page.replace("\u00a0", " ") == snapshot


def test_the_pages_without_their_runs(table, run: Fabricated, snapshot, tmp_path_factory) -> None:
    """A page that is elsewhere leads to a page of the client, which needs nothing of the machine where the runs are."""
    place = tmp_path_factory.mktemp("elsewhere") / "table.md"

    pages = conformance_page.pages(table, place)

    assert [path.relative_to(place.parent).as_posix() for path in pages] == [
        "table.md",
        *(f"table/{client}.md" for client in "abcdeg"),
    ]
    assert "\n".join(pages[path] for path in pages if path.stem in ("table", "a", "b", "e")).replace("\u00a0", " ") == snapshot
    assert str(run.folder) not in "".join(pages.values())


def test_a_page_beside_the_scenarios_leads_to_what_is_asked(table, tmp_path: Path) -> None:
    page = tmp_path / "table.md"
    assert "(README.md)" not in conformance_page.pages(table, page)[page]

    (tmp_path / "README.md").touch()

    assert "(README.md)" in conformance_page.pages(table, page)[page]


def test_a_table_is_read_again(table, run: Fabricated, tmp_path_factory) -> None:
    """All of it, as it was; runs that were copied beside it are found there."""
    for folder, is_there in ((run.folder, True), (tmp_path_factory.mktemp("elsewhere"), False)):
        file = folder / "table.json"
        file.write_text(json.dumps(conformance.as_json(table, folder)), encoding="utf-8")

        results = conformance.earlier(file)

        assert conformance.cells([cell.case for cell in table], results) == table
        assert {one.page is not None for one in results.values()} == {is_there}


@pytest.mark.parametrize("text", ["", "[1]", "{}1", '[{"seed": 1}]', '[{"seed": 1, "scenario": "a", "outcome": 1}]'])
def test_what_is_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text, encoding="utf-8")

    with raised(InconclusiveError, "table.json is no table that --page wrote", hidden={str(tmp_path): "<folder>"}):
        conformance.earlier(tmp_path / "table.json")


def test_as_json(ran, run: Fabricated) -> None:
    """What was run can be run again; a case that was not has no run."""
    red = ran("a", verdict=Verdict.INVALID, findings=(found("gaps", lost=200),))
    cell, other = conformance.as_json(conformance.cells([case("a"), case("b", "why")], {red.scenario: red}), run.folder.parent)

    assert cell["outcome"] == "lost"
    assert cell["found"] == {"lost": 200}
    assert (cell["step"], cell["fault"], cell["client"], cell["version"]) == (*ROW, "a", "a==1.0")
    assert cell["run"] == f"{run.folder.name}/run-a"
    assert (cell["seed"], cell["replay"]) == (7, red.replay)
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

    results, problems = conformance.results_below(run.folder)

    assert {name: one.version for name, one in results.items()} == {
        "s1": "aiokafka==0.14.0",
        "s2": "org.apache:y:2",
        "s3": "Spark unknown",
    }
    assert [str(Path("runs-2", "other")) in problem for problem in problems] == [True]
