"""Run directories as a run leaves them, of the fabricated run (`tests/unit/report/conftest.py`)."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.common.events import FORMAT, RunBegan, RunEnded
from chaos.common.history import Event
from chaos.report.model import Report
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan, to_json
from tests.unit.report.conftest import Fabricated

VERSIONS = {"kafka": "4.3.0", "spark": "4.2.0"}


def history(run: Fabricated, events: Sequence[Event] | None = None) -> list[Event]:
    """The events of a run from its begin to its end."""
    told = run.events() if events is None else events
    first = Event(0, run.at(0), 0.0, RunBegan(run=run.folder.name, format=FORMAT))
    rest = [replace(event, index=place) for place, event in enumerate(told, 1)]
    return [first, *rest, Event(len(rest) + 1, run.at(22), 22.0, RunEnded(events=len(rest) + 1))]


def write_history(folder: Path, events: Sequence[Event]) -> None:
    (folder / "history.jsonl").write_text("".join(event.to_json() + "\n" for event in events), encoding="utf-8")


def scenario(report: Report) -> Scenario:
    """One that a run of this name may have had."""
    keys: dict[str, Any] = {"name": report.scenario, "title": report.title, "tags": ["smoke"], "pipeline": {"kind": "none"}}
    fault = {"kind": "kill_broker", "name": "kill_broker-1", "target": "any", "when": {"progress": "20%"}}
    topics = {"numbers": {"partitions": 3}}
    return Scenario.model_validate({**keys, "topics": topics, "workload": {"into": "numbers"}, "faults": [fault]})


def leave(run: Fabricated, report: Report | None, events: Sequence[Event] | None = None) -> Path:
    """Write what a run leaves behind; without a report, of one that was killed. Returns its directory."""
    declared = scenario(report or run.report())
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "scenario.json").write_text(declared.to_run(), encoding="utf-8")
    (run.folder / "schedule.json").write_text(json.dumps(to_json(plan(declared, 7))), encoding="utf-8")
    (run.folder / "versions.json").write_text(json.dumps(VERSIONS), encoding="utf-8")
    write_history(run.folder, history(run, events) if report else history(run, events)[:-1])
    if report is not None:
        report.model_copy(update={"run_dir": run.folder}).write()
    return run.folder
