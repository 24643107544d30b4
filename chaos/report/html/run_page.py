"""The page of one run: its verdict and reasons, timeline, broken records, faults, and the command that repeats it."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from chaos.common.errors import one_line
from chaos.common.events import FaultStepBegan
from chaos.common.history import Event, of_type
from chaos.report.failure_text import guarantee
from chaos.report.formatting import aimed, began, facts, findings_line, number, restarts, seconds, tally, wall_s
from chaos.report.html import templates, verdict_words
from chaos.report.html.addresses import address
from chaos.report.html.broken_records import broken_records
from chaos.report.html.run_folder import RunFolder, read_run
from chaos.report.model import FaultRecord, Report
from chaos.report.run_clock import RunClock
from chaos.report.terminal import told
from verifiers.base import Finding, Verdict

_PICTURE = "timeline.svg"
_MOST_PICTURE_BYTES = 400_000
_LAST_EVENTS = 12
_FILES: Mapping[str, str] = {
    "findings.json": "the findings, with the first 32 broken records of each verifier",
    "history.jsonl": "the history, one event a line",
    "report.json": "this page for machines",
    "scenario.json": "the scenario as it was run",
    "schedule.json": "the faults with their random choices",
    "ledger.csv": "every record that was sent, with its outcome",
    "versions.json": "the versions of Kafka, Spark and so on",
    "evidence": "the topics as Parquet",
    "logs": "the logs of the pipeline, the loader and all other processes",
    "timeline.svg": "the timeline as a picture",
    "timeline.png": "the timeline for viewers without SVG",
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A finding as a row; verdict and outcome are names, ``as_expected`` is words."""

    verifier: str
    demands: str
    log: str
    verdict: str
    outcome: str
    as_expected: str
    found: str
    checked: str
    note: str


@dataclass(frozen=True, slots=True)
class _Broken:
    """A fault as a row; "" for a step that never happened, times in seconds since the run began."""

    name: str
    kind: str
    target: str
    when: str
    moment: str
    injected: str
    lasted: str
    lag: str
    is_effective: bool
    proof: Sequence[str]
    aftermath: Sequence[str]
    problem: str


def run_page(run_folder: Path, page_folder: Path | None = None) -> str:
    """Render the page of a run as HTML; it names the files that are missing in the run directory.

    Args:
        run_folder: its directory.
        page_folder: where the page will be, for its links to the files of the run; by default the run directory.
    """
    return page_of(read_run(run_folder), page_folder or run_folder)


def page_of(run: RunFolder, page_folder: Path) -> str:
    """Render the page of a run that was read already."""
    return templates.rendered("run.html.j2", {**_always(run, page_folder), **_reported(run)})


def _always(run: RunFolder, page_folder: Path) -> Mapping[str, Any]:
    """Return the values that every page shows, whatever the run left."""
    named = run.scenario.get("name") or (run.report.scenario if run.report else run.folder.name)
    titled = run.scenario.get("title") or (run.report.title if run.report else "")
    return {
        "scenario": str(named),
        "title": one_line(str(titled), 400),
        "problems_of_files": run.problems,
        "is_reported": run.is_reported,
        "run_folder": run.folder.name,
        "files": list(_links(run.folder, page_folder)),
        "versions": {str(name): str(value) for name, value in run.versions.items()},
        "declared": _yaml(run.scenario) if run.scenario else "",
        "last_events": [] if run.is_reported else _last(run.events),
        "picture": _picture(run.folder),
        "report": None,
    }


def _reported(run: RunFolder) -> Mapping[str, Any]:
    """Return the values from a report; for a run without one, faults and phases from its history."""
    report = run.report
    if report is None:
        return {"verdict": verdict_words.NO_REPORT, "meaning": run.listed.why_not, "why": "", "timeline": None}
    from chaos.report.html import timeline_plot  # noqa: PLC0415 - Bokeh takes a second, and is needed here only

    clock = RunClock.of(report, run.events)
    is_over = run.is_reported
    return {
        "report": report,
        "verdict": report.verdict.name if is_over else verdict_words.NO_REPORT,
        "meaning": verdict_words.meaning(report) if is_over else run.listed.why_not,
        "why": findings_line(report) if is_over else "",
        "facts_of_run": dict(_facts(report, is_over=is_over)),
        "palette": timeline_plot.PALETTE,
        "timeline": timeline_plot.drawn(report, run.events),
        "bokeh": timeline_plot.script(),
        "not_drawn": timeline_plot.outside(report, run.events),
        "phases": [(phase.name, seconds(phase.duration_s)) for phase in report.phases],
        "broken": broken_records(report, clock),
        "findings": _findings(report),
        "not_asked": report.not_asked,
        "faults": _faults(report, run.events, clock),
        "restarts": restarts(report) if report.restarts else "",
        "has_problems": bool(report.problems),
    }


def _facts(report: Report, *, is_over: bool) -> Iterator[tuple[str, str]]:
    if report.phases:
        yield "began", began(report)
    yield "took", seconds(wall_s(report))
    yield "records", number(report.records)
    if report.recovery_s is not None:
        yield "output grew again after", seconds(report.recovery_s)
    yield "seed", str(report.seed)
    if is_over:
        yield "expected", verdict_words.expected(report)
    yield from report.matrix.items()
    if report.twin:
        yield "expected rows", report.twin


def _findings(report: Report) -> list[_Asked]:
    """Make the rows of findings: unexpected ones first, then those about the output."""
    outcome, output = report.expectations.outcome, report.expectations.output
    ordered = sorted(report.findings, key=lambda finding: (-outcome(finding), finding.subject != output))
    return [_asked(report, finding) for finding in ordered]


def _asked(report: Report, finding: Finding) -> _Asked:
    expectations = report.expectations
    outcome = expectations.outcome(finding)
    is_control = expectations.expected(finding) is Verdict.INVALID
    wanted = tally(expectations.predicted(finding)) if finding.verifier in report.exactly else ""
    as_expected = "as expected" if outcome is Verdict.VALID else f"expected: {wanted or 'INVALID'}"
    return _Asked(
        verifier=finding.verifier,
        demands=guarantee(finding),
        log=finding.subject,
        verdict=finding.verdict.name if finding.asked else "not asked",
        outcome=outcome.name,
        as_expected=as_expected if is_control else "",
        found=tally(finding.counts) or number(finding.count),
        checked=number(finding.checked),
        note=one_line(str(finding.note), 1000),
    )


def _faults(report: Report, events: Sequence[Event], clock: RunClock) -> list[_Broken]:
    when = {began.fault: began.when for _, began in of_type(events, FaultStepBegan) if began.step == "trigger"}
    return [_fault(fault, when.get(fault.name, ""), clock) for fault in report.faults]


def _fault(fault: FaultRecord, when: str, clock: RunClock) -> _Broken:
    injected_ms, healed_ms = fault.injected_ms, fault.healed_ms
    lasted = "never healed" if healed_ms is None else seconds((healed_ms - (injected_ms or 0)) / 1000)
    return _Broken(
        name=fault.name,
        kind=fault.kind,
        target=aimed(fault).removeprefix(fault.name).removeprefix(" on "),
        when=when,
        moment=fault.moment,
        injected="" if injected_ms is None else seconds(clock.s(injected_ms)),
        lasted="" if injected_ms is None else lasted,
        lag="" if fault.lag is None else number(fault.lag),
        is_effective=fault.effective,
        proof=[facts({name: value}, 400) for name, value in fault.proof.items()],
        aftermath=[facts({name: value}, 400) for name, value in fault.aftermath.items()],
        problem=fault.problem,
    )


def _last(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Word the last events of a history, each with the seconds since the run began."""
    said = [(seconds(event.elapsed_s), text) for event in events if (text := told(event))]
    return said[-_LAST_EVENTS:]


def _links(run_folder: Path, page_folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield address, name and content of each existing file."""
    for name, holds in _FILES.items():
        path = run_folder / name
        if path.exists():
            yield address(path, page_folder), name, holds


def _picture(run_folder: Path) -> str:
    """Return the picture of the timeline as a data URL, for paper and viewers without scripts; "" without one."""
    try:
        content = (run_folder / _PICTURE).read_bytes()
    except OSError:
        return ""
    if len(content) > _MOST_PICTURE_BYTES:
        return ""
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"


def _yaml(scenario: Mapping[str, Any]) -> str:
    """Write the scenario as YAML, without empty keys, and without those that are not of its file."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 100
    text = StringIO()
    yaml.dump(_told({name: value for name, value in scenario.items() if name not in {"verify", "plugins"}}), text)
    return text.getvalue()


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _told(inner) for key, inner in value.items() if inner not in (None, "", [], {}) and _told(inner) != {}}
    return [_told(inner) for inner in value] if isinstance(value, list) else value
