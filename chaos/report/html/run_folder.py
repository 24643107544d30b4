"""Read a run directory as far as possible: pages show its files, and one line for each that is missing or damaged."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from chaos.common.errors import ChaosError, one_line
from chaos.common.events import FORMAT
from chaos.common.history import Event, format_of, load, require_complete
from chaos.judging.findings_file import FILE as FINDINGS
from chaos.judging.findings_file import load_findings
from chaos.report.model import FILE, Report, build, read, why_damaged
from chaos.scenario.model import Scenario
from chaos.scenario.plan import from_json

T = TypeVar("T")

CUT_SHORT = "the run was cut short, or it goes on"
_HISTORY, _SCENARIO, _SCHEDULE, _VERSIONS = "history.jsonl", "scenario.json", "schedule.json", "versions.json"
_NO_REPLAY = "unknown: the run has no report"


@dataclass(frozen=True, slots=True)
class Listed:
    """One run among others.

    Attributes:
        report: None if it cannot be read.
        problem: why it cannot be read, in one line; else "".
        is_damaged: whether its report is there but cannot be read; else a run without one was cut short, or goes on.
    """

    folder: Path
    report: Report | None
    problem: str = ""
    is_damaged: bool = False

    @property
    def why_not(self) -> str:
        """The reason for a missing verdict, in a few words."""
        return "its report cannot be read" if self.is_damaged else CUT_SHORT


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run.

    Attributes:
        listed: its own report, if it can be read; only then it has a verdict.
        report: its own report; for a run without one, a report of faults and phases from its history, or None.
        events: of the history; none if it is missing or damaged.
        scenario, versions: as in their files; empty if these are missing or damaged.
        problems: a line for each file that is missing or cannot be read, with the reason.
    """

    listed: Listed
    report: Report | None
    events: tuple[Event, ...]
    scenario: Mapping[str, Any]
    versions: Mapping[str, Any]
    problems: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.listed.folder

    @property
    def is_reported(self) -> bool:
        return self.listed.report is not None


def listed(folder: Path) -> Listed:
    """Read a run for a list: only its report."""
    path = folder / FILE
    if not path.exists():
        return Listed(folder, None, f"{path} is missing: {CUT_SHORT}")
    problems: list[str] = []
    report = _tried(path, read, problems)
    return Listed(folder, report, "".join(problems), is_damaged=bool(problems))


def read_run(folder: Path) -> RunFolder:
    """Read all files of a run that its page shows; a damaged file is a problem, not an error."""
    problems: list[str] = []
    of_list = listed(folder)
    if of_list.problem:
        problems.append(of_list.problem)
    scenario = _tried(folder / _SCENARIO, _object, problems)
    versions = _tried(folder / _VERSIONS, _object, problems) or {}
    events = _events(folder, of_list, problems)
    report = of_list.report
    if report is None and events and scenario is not None:
        report = _from_history(folder, events, problems)
    return RunFolder(of_list, report, events, scenario or {}, versions, tuple(dict.fromkeys(problems)))


def _events(folder: Path, run: Listed, problems: list[str]) -> tuple[Event, ...]:
    """Read the history, unless another version wrote it, in which the words may mean something else."""
    path = folder / _HISTORY
    format_ = _tried(path, format_of, []) if path.exists() else None
    if format_ not in {None, FORMAT}:
        problems.append(f"{path} has format {format_}, but this version of chaos reads format {FORMAT}")
        return ()
    events = _tried(path, lambda path: tuple(load(path)), problems)
    if run.report is not None and events is not None:
        was_judged = any(phase.name == "judge" for phase in run.report.phases)
        _tried(path, lambda path: require_complete(events, path, was_judged=was_judged), problems)
    return events or ()


def _from_history(folder: Path, events: Sequence[Event], problems: list[str]) -> Report | None:
    """Build a report of faults and phases for a run that left none."""
    scenario = _tried(folder / _SCENARIO, lambda path: Scenario.of_run(path.read_text(encoding="utf-8")), problems)
    schedule = _tried(folder / _SCHEDULE, lambda path: from_json(_object(path)), problems)
    findings = _tried(folder / FINDINGS, lambda path: load_findings(path.parent), problems)
    if scenario is None or schedule is None or findings is None:
        return None
    report = build(scenario, schedule, events, findings, folder, _NO_REPLAY)
    *before, last = report.phases or (None,)
    if last is None or not last.error:
        return report
    lasted_s = (events[-1].time_ms - last.start_ms) / 1000  # the phase went on until the last event
    return report.model_copy(update={"phases": (*before, last.model_copy(update={"duration_s": round(lasted_s, 3)}))})


def _object(path: Path) -> Mapping[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"it holds {one_line(repr(value), 40)} instead of an object")
    return value


def _tried(path: Path, parse: Callable[[Path], T], problems: list[str]) -> T | None:
    """Parse a file; if that fails, add a problem and return None."""
    try:
        return parse(path)
    except FileNotFoundError as error:
        problems.append(f"{error.filename or path} is missing")
    except OSError as error:
        problems.append(f"{error.filename or path} cannot be read: {why_damaged(error)}")
    except ChaosError as error:  # it names its file
        problems.append(one_line(str(error), 400))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problems.append(f"{path} is damaged ({why_damaged(error)})")
    return None
