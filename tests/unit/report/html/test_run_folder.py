"""Run directories that are damaged, half written, or of another version: what is there is read, and the rest is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.report.html.run_folder import listed, read_run
from chaos.report.html.run_page import run_page
from tests.unit.report.conftest import Fabricated
from tests.unit.report.html.conftest import leave
from tests.unit.report.html.page import Page
from tests.unit.wording import keep
from verifiers.base import Verdict

BROKEN: dict[str, bytes] = {"none": b"", "half": b'{"a": ', "list": b"[1]", "bytes": b"\xff\xfe", "object": b'{"a": 1}'}
FILES = ("report.json", "history.jsonl", "scenario.json", "schedule.json", "versions.json")


def of_format(folder: Path, format_: int) -> None:
    """Make it a run directory of another version."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    (folder / "report.json").write_text(json.dumps({**report, "version": format_, "more": 1}), encoding="utf-8")
    first, *rest = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    event: dict[str, Any] = json.loads(first)
    event["value"]["format"] = format_
    (folder / "history.jsonl").write_text("\n".join([json.dumps(event), *rest]), encoding="utf-8")


def test_a_whole_run_has_no_problem(run: Fabricated) -> None:
    """And its own report."""
    read = read_run(leave(run, run.report()))

    assert (read.problems, read.is_reported, read.report.verdict) == ((), True, Verdict.INVALID)
    assert len(read.events) == len(run.events()) + 2


def test_a_run_that_was_killed_shows_what_its_history_says(run: Fabricated) -> None:
    """Its faults and phases; a verdict it has none, though what is recorded would come to one."""
    folder = leave(run, None, run.events()[:150])
    read = read_run(folder)
    page = Page(run_page(folder))

    assert [str(folder / "report.json") in problem for problem in read.problems] == [True]
    assert page.texts[""].startswith("NO REPORT")
    assert not {"UNKNOWN", "VALID"} & set(page.texts[""].split())
    assert page.rows["faults"][1][1] == "broker-2 (leader of datasink-0)"
    assert page.rows["end"][-1] == ["5.6 s", "kill_broker-1: proved by pids broker-2 4711, refused broker-2"]
    assert "inject: " in keep(page.texts["problems"], {str(folder): "<folder>"})
    assert read.report.phases[-1].duration_s == pytest.approx(4.9, abs=0.1), "it was on until the last event"
    assert "replay" not in page.texts, "only its report would say it"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_damaged_is_named_and_the_rest_is_shown(run: Fabricated, name: str, kind: str) -> None:
    """In a line, and the page says it, too."""
    folder = leave(run, run.report())
    (folder / name).write_bytes(BROKEN[kind])
    read = read_run(folder)
    page = Page(run_page(folder))
    is_fine = (name, kind) == ("versions.json", "object") or name == "schedule.json"  # which only a run without a report needs

    assert all(str(folder / name) in problem and "\n" not in problem for problem in read.problems)
    assert bool(read.problems) is (not is_fine and (name, kind) != ("scenario.json", "object"))
    assert all(" ".join(problem.split()) in page.texts[""] for problem in read.problems)
    assert page.texts[""].startswith("NO REPORT" if name == "report.json" else "INVALID")
    assert ("faults" in page.texts) is True


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_named(run: Fabricated, name: str) -> None:
    """The schedule is needed only of a run that left no report."""
    folder = leave(run, run.report())
    (folder / name).unlink()

    problems = read_run(folder).problems

    assert [problem.startswith(f"{folder / name} is missing") for problem in problems] == [True] * (name != "schedule.json")


@pytest.mark.parametrize("name", ["scenario.json", "schedule.json", "findings.json"])
def test_a_run_that_was_killed_and_is_damaged_too(run: Fabricated, name: str) -> None:
    """Its report is not known; the page still shows its last events."""
    folder = leave(run, None, run.events()[:150])
    (folder / name).write_text("{}", encoding="utf-8")
    read = read_run(folder)
    page = Page(run_page(folder))

    keep("\n".join(read.problems), {str(folder): "<folder>"})
    assert (read.report, len(read.problems)) == (None, 2)
    assert page.rows["end"][-1][0] == "5.6 s"
    assert {"faults", "timeline"} & page.texts.keys() == set()


def test_another_version_is_not_interpreted(run: Fabricated) -> None:
    """Its words may have another meaning, so its scenario is shown as text."""
    folder = leave(run, run.report())
    of_format(folder, 3)
    read = read_run(folder)
    page = Page(run_page(folder))

    keep("\n".join(read.problems), {str(folder): "<folder>"})
    assert (read.report, read.events, listed(folder).is_damaged) == (None, (), True)
    assert page.texts[""].startswith(f"NO REPORT leader-killed-mid-batch NO REPORT {keep(listed(folder).why_not)}")
    assert {"scenario", "versions", "files"} == page.texts.keys() - {""}


def test_a_history_without_its_end_is_said(run: Fabricated) -> None:
    """A missing line may have been a failure, even if there is a report."""
    folder = leave(run, run.report(phases=run.phases()[:5]))
    lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "history.jsonl").write_text("\n".join(lines[:100]) + "\n", encoding="utf-8")

    (problem,) = read_run(folder).problems

    assert "history.jsonl ends with line 100" in problem


def test_a_file_that_may_not_be_read(run: Fabricated) -> None:
    """A folder of its name is one for everybody, root too."""
    folder = leave(run, run.report())
    (folder / "versions.json").unlink()
    (folder / "versions.json").mkdir()

    assert read_run(folder).problems == (f"{folder / 'versions.json'} cannot be read: Is a directory",)
