"""One run in the Allure report: its phases as steps with their true times, its files as attachments.

`steps` makes the tree of steps from the report and the history, as plain values. `render` shows it at the end of a test, in
pytest's own thread: `allure.step` in any other thread lands wherever the main thread happens to be (allure-python #757, #872).
The `write_…` functions write the three files beside Allure's results for which allure-pytest has no function (allure-python
#96, #276). Without ``--alluredir`` nothing is done.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import allure
from allure_commons import plugin_manager
from allure_commons.model2 import Parameter, StatusDetails, TestResult, TestStepResult
from allure_commons.types import AttachmentType

from chaos.common.events import FaultEvent, FaultFailed, FaultHealed, FaultProved, FaultStepBegan
from chaos.common.history import Event, of_type
from chaos.report.failure_text import describe, explain
from chaos.report.formatting import aimed, facts, findings_line, number, phrase, seconds
from chaos.report.html.addresses import PAGE
from chaos.report.model import FaultRecord, PhaseRecord, Report
from verifiers.base import Finding, Verdict

_TAIL_BYTES = 256 * 1024
_FILES = {
    PAGE: AttachmentType.HTML,  # 1.4 MB; it is there if pages were asked for (--chaos-html)
    "timeline.svg": AttachmentType.SVG,
    "timeline.png": AttachmentType.PNG,
    "findings.json": AttachmentType.JSON,
    "scenario.json": AttachmentType.JSON,
    "schedule.json": AttachmentType.JSON,
    "versions.json": AttachmentType.JSON,
    "history.jsonl": AttachmentType.TEXT,
}
_dynamic: Any = allure.dynamic  # without types
_attached: Any = allure.attach
_INTERRUPTED = "KeyboardInterrupt"
StepStatus = Literal["passed", "failed", "broken"]

_EXAMPLES = 5
_STATUSES: Mapping[Verdict, StepStatus] = {Verdict.VALID: "passed", Verdict.UNKNOWN: "broken", Verdict.INVALID: "failed"}

# The message of a result begins with the exception's full name. Java and JavaScript both read these patterns.
_UNAVAILABLE = r"^chaos\.common\.errors\.(RuntimeUnavailable|Deadline)Error[\s\S]*"
_INCONCLUSIVE = r"^chaos\.common\.errors\.InconclusiveError[\s\S]*"
_WAS_INTERRUPTED = r"^KeyboardInterrupt[\s\S]*"
_OTHER = r"^(?!chaos\.common\.errors\.(Inconclusive|RuntimeUnavailable|Deadline)Error|KeyboardInterrupt)[\s\S]*"

CATEGORIES = (
    {"name": "Guarantee broken", "matchedStatuses": ["failed"]},
    {"name": "Proved nothing", "matchedStatuses": ["broken"], "messageRegex": _INCONCLUSIVE},
    {"name": "System not available", "matchedStatuses": ["broken"], "messageRegex": _UNAVAILABLE},
    {"name": "Interrupted", "matchedStatuses": ["broken"], "messageRegex": _WAS_INTERRUPTED},
    {"name": "Defect of the framework", "matchedStatuses": ["broken"], "messageRegex": _OTHER},
)


@dataclass(frozen=True, slots=True)
class Step:
    """An action from ``start_ms`` to ``stop_ms`` (milliseconds since the epoch), and how it ended."""

    name: str
    start_ms: int
    stop_ms: int
    status: StepStatus = "passed"
    message: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    steps: tuple["Step", ...] = ()


@dataclass(frozen=True, slots=True)
class _Action:
    """One step of a fault (trigger, inject, prove, heal, …), from its begin to its end; one that never ended has no end."""

    what: FaultStepBegan
    begin: Event
    end: Event | None


def render(report: Report, events: Sequence[Event], logs: Sequence[Path]) -> None:
    """Show one run in the current test.

    Args:
        report: of the run; the existing files of its run directory are attached.
        events: its history.
        logs: attached, the last 256 KiB of each, unless the run is VALID.
    """
    test = _current_test()
    if test is None:
        return
    test.steps.extend(_shown(step) for step in steps(report, events))
    _label(report)
    _parametrize(test, report)
    _attach(report, logs)
    if any(phase.error.startswith(_INTERRUPTED) for phase in report.phases):
        # Pytest reports no outcome for an interrupted test, and its set-up alone would leave it green.
        test.status = "broken"
        test.statusDetails = StatusDetails(message=f"{_INTERRUPTED}: the run was interrupted; its faults were healed")


def attach_text(name: str, text: str) -> None:
    """Attach a text to the current test."""
    if _current_test() is not None:
        _attached(text, name=name, attachment_type=AttachmentType.TEXT)


def _current_test() -> TestResult | None:
    """Return the result under construction; the public API adds steps only with the present time (allure-pytest 2.16)."""
    for plugin in plugin_manager.get_plugins():
        reporter = getattr(plugin, "allure_logger", None)
        if reporter is not None:
            test: TestResult | None = reporter.get_test(None)
            return test
    return None


def _shown(step: Step) -> TestStepResult:
    return TestStepResult(
        name=step.name,
        status=step.status,
        statusDetails=StatusDetails(message=step.message) if step.message else None,
        start=step.start_ms,
        stop=max(step.start_ms, step.stop_ms),
        parameters=[Parameter(name=name, value=value) for name, value in step.parameters.items()],
        steps=[_shown(inner) for inner in step.steps],
    )


def _label(report: Report) -> None:
    """Set title, description, epic, feature, story and severity; allure-pytest itself shows pytest marks as tags."""
    control = Verdict.INVALID in report.expect.values()
    kinds = sorted({fault.kind for fault in report.faults})
    _dynamic.title(report.title)
    _dynamic.description(_description(report))
    _dynamic.epic("Delivery guarantees")
    _dynamic.feature("Negative controls: must be caught" if control else "Guarantees under faults")
    _dynamic.story(" and ".join(kinds) or "no fault")
    _dynamic.severity(allure.severity_level.CRITICAL if "smoke" in report.tags else allure.severity_level.NORMAL)


def _description(report: Report) -> str:
    """Return verdict, problems and replay as Markdown."""
    recovery = f"Output grew again after {seconds(report.recovery_s)}." if report.recovery_s is not None else ""
    verdict = f"**{report.verdict.name}**: {findings_line(report)}. {recovery}"
    problems = "".join(f"\n* {problem}" for problem in report.problems)
    not_asked = "".join(f"\n* {name}: {reason}" for name, reason in report.not_asked.items())
    left_out = f"\n\nNot asked:\n{not_asked}" if not_asked else ""
    twin = f"\n\nExpected: {report.twin}" if report.twin else ""
    return f"{verdict}\n{problems}{twin}{left_out}\n\nReplay:\n\n```\n{report.replay}\n```\n"


def _parametrize(test: TestResult, report: Report) -> None:
    """Add parameters outside the history's key, which must not depend on the seed; `allure.dynamic.parameter` adds quotes."""
    values = {"seed": str(report.seed), "replay": report.replay, "recovery": seconds(report.recovery_s)}
    test.parameters.extend(Parameter(name=name, value=value, excluded=True) for name, value in values.items())


def _attach(report: Report, logs: Sequence[Path]) -> None:
    _attached(explain(report), name="verdict.txt", attachment_type=AttachmentType.TEXT)
    for name, kind in _FILES.items():
        path = report.run_dir / name
        if path.exists():
            _attached.file(str(path), name=name, attachment_type=kind)
    if report.verdict is not Verdict.VALID:
        for log in logs:
            _attached(_tail(log), name=f"{log.name} (tail)", attachment_type=AttachmentType.TEXT)


def _tail(log: Path) -> bytes:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read()


def steps(report: Report, events: Sequence[Event]) -> tuple[Step, ...]:
    """Return one step per phase, in the order they ran."""
    actions = list(_actions(events))
    return tuple(_phase(report, phase, actions) for phase in report.phases)


def _phase(report: Report, phase: PhaseRecord, actions: Sequence[_Action]) -> Step:
    stop_ms = phase.start_ms + round(phase.duration_s * 1000)
    inner: tuple[Step, ...] = ()
    if phase.name == "judge":
        inner = tuple(_finding(report, finding, stop_ms) for finding in report.findings)
    elif phase.name in {"inject", "heal"}:
        here = _of_phase(phase.name, report, actions)
        by_fault = ((fault, [action for action in here if action.what.fault == fault.name]) for fault in report.faults)
        inner = tuple(_fault(fault, own) for fault, own in by_fault if own)
    status: StepStatus = "broken" if phase.error else _worst(inner)
    return Step(phase.name, phase.start_ms, stop_ms, status, phase.error, steps=inner)


def _of_phase(phase: str, report: Report, actions: Sequence[_Action]) -> list[_Action]:
    """Select the actions of a phase: `heal` has those begun since it began; all others belong to `inject`."""
    heal_ms = min((record.start_ms for record in report.phases if record.name == "heal"), default=None)
    late = [heal_ms is not None and action.begin.time_ms >= heal_ms for action in actions]
    return [action for action, is_late in zip(actions, late, strict=True) if is_late == (phase == "heal")]


def _fault(fault: FaultRecord, actions: Sequence[_Action]) -> Step:
    inner = tuple(_action(action) for action in actions)
    said = {key: str(value) for action in actions for key, value in action.what.to_json().items() if key in {"when", "draw"}}
    came = {"afterwards": facts(fault.aftermath, 400)} if fault.aftermath else {}
    parameters = {"kind": fault.kind, "target": fault.target, "proof": facts(fault.proof, 400)} | came | said
    status = "broken" if fault.problem else _worst(inner)
    shown = {name: value for name, value in parameters.items() if value}
    stop_ms = max(step.stop_ms for step in inner)
    return Step(aimed(fault), inner[0].start_ms, stop_ms, status, fault.problem, shown, inner)


def _action(action: _Action) -> Step:
    name, begin_ms = action.what.step, action.begin.time_ms
    if action.end is None:
        return Step(name, begin_ms, begin_ms, "broken", "it never ended")
    match action.end.value:
        case FaultFailed(error=error):
            return Step(name, begin_ms, action.end.time_ms, "broken", error)
        case FaultProved(effective=False, proof=proof):
            return Step(name, begin_ms, action.end.time_ms, "broken", f"it had no effect: {facts(proof, 400)}")
        case FaultHealed(effective=False, details=details):
            return Step(name, begin_ms, action.end.time_ms, "broken", f"it had no effect: {facts(details, 400)}")
        case _:
            return Step(name, begin_ms, action.end.time_ms)


def _finding(report: Report, finding: Finding, at_ms: int) -> Step:
    """Make the step of a finding, without duration: verifiers are not timed one by one."""
    status = _STATUSES[report.expectations.outcome(finding)]
    parameters = {
        "verdict": finding.verdict.name if finding.asked else "not asked",
        "log": finding.subject,
        "count": number(finding.count),
        "checked": number(finding.checked),
        **{name: number(count) for name, count in finding.counts.items() if len(finding.counts) > 1},
    }
    # steps, because the value of a parameter is cut where it is shown
    examples = (describe(report, example) for example in finding.examples[:_EXAMPLES])
    inner = tuple(Step(text, at_ms, at_ms, status) for text in examples)
    if finding.note and status == "passed":  # a message would be shown as an error
        return Step(phrase(report, finding), at_ms, at_ms, status, "", parameters | {"note": str(finding.note)}, inner)
    return Step(phrase(report, finding), at_ms, at_ms, status, str(finding.note), parameters, inner)


def _actions(events: Sequence[Event]) -> Iterator[_Action]:
    own = of_type(events, FaultEvent)
    for place, (begin, what) in enumerate(own):
        if isinstance(what, FaultStepBegan):
            ends = (
                event
                for event, value in own[place + 1 :]
                if not isinstance(value, FaultStepBegan) and (value.f, value.fault) == (what.step, what.fault)
            )
            yield _Action(what, begin, next(ends, None))


def _worst(inner: Sequence[Step]) -> StepStatus:
    for status in ("failed", "broken"):
        if any(step.status == status for step in inner):
            return status
    return "passed"


def write_environment(results_dir: Path | None, mapping: Mapping[str, object]) -> None:
    """Write ``environment.properties``; nothing is done without a results directory, here and below."""
    lines = [f"{_escaped_key(name)} = {_escaped_value(str(value))}" for name, value in mapping.items()]
    _write(results_dir, "environment.properties", "\n".join(lines))


def write_categories(results_dir: Path | None) -> None:
    """Write ``categories.json``, by which Allure sorts red results."""
    _write(results_dir, "categories.json", json.dumps(CATEGORIES, indent=1))


def write_executor(results_dir: Path | None, env: Mapping[str, str]) -> None:
    """Write ``executor.json``: the CI run, or a local one.

    Args:
        results_dir: of ``--alluredir``.
        env: environment variables; those of GitHub are understood.
    """
    executor = _github(env) if env.get("GITHUB_ACTIONS") == "true" else {"name": "local run", "type": "local"}
    _write(results_dir, "executor.json", json.dumps(executor, indent=1))


def _github(env: Mapping[str, str]) -> Mapping[str, Any]:
    """Describe a run of GitHub Actions (docs.github.com, "Default environment variables")."""
    repository = f"{env.get('GITHUB_SERVER_URL', 'https://github.com')}/{env.get('GITHUB_REPOSITORY', '')}"
    number = env.get("GITHUB_RUN_NUMBER", "0")
    return {
        "name": "GitHub Actions",
        "type": "github",
        "url": repository,
        "buildOrder": int(number),
        "buildName": f"{env.get('GITHUB_WORKFLOW', 'workflow')} #{number}",
        "buildUrl": f"{repository}/actions/runs/{env.get('GITHUB_RUN_ID', '')}",
    }


def _escaped_key(name: str) -> str:
    return name.replace("\\", "\\\\").replace(" ", "\\ ").replace("=", "\\=").replace(":", "\\:")


def _escaped_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _write(results_dir: Path | None, name: str, text: str) -> None:
    if results_dir is not None:
        results_dir.mkdir(parents=True, exist_ok=True)
        (results_dir / name).write_text(f"{text}\n", encoding="utf-8")
