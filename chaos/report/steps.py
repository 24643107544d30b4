"""A report and its history as a tree of steps: one per phase, in it the faults or the findings, in a fault what was done.

Pure values, no reporting tool: `chaos.report.allure` shows them, tests look at them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from chaos.common.history import Event
from chaos.report.failure_text import describe
from chaos.report.formatting import aimed, facts, number, phrase
from chaos.report.model import FaultRecord, PhaseRecord, Report
from verifiers.base import Finding, Verdict

Status = Literal["passed", "failed", "broken"]

_EXAMPLES = 5
_STATUSES: Mapping[Verdict, Status] = {Verdict.VALID: "passed", Verdict.UNKNOWN: "broken", Verdict.INVALID: "failed"}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done, from ``start_ms`` to ``stop_ms`` (milliseconds since the epoch), and how it ended."""

    name: str
    start_ms: int
    stop_ms: int
    status: Status = "passed"
    message: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    steps: tuple["Step", ...] = ()


@dataclass(frozen=True, slots=True)
class _Action:
    """One of trigger, inject, prove, heal: from its invoke to its end; an action that never ended has none."""

    begin: Event
    end: Event | None

    @property
    def fault(self) -> str:
        return str(self.begin.value["fault"])


def steps(report: Report, events: Sequence[Event]) -> tuple[Step, ...]:
    """One step per phase, in the order they ran."""
    actions = list(_actions(events))
    return tuple(_phase(report, phase, actions) for phase in report.phases)


def _phase(report: Report, phase: PhaseRecord, actions: Sequence[_Action]) -> Step:
    stop_ms = phase.start_ms + round(phase.duration_s * 1000)
    inner: tuple[Step, ...] = ()
    if phase.name == "judge":
        inner = tuple(_finding(report, finding, stop_ms) for finding in report.findings)
    elif phase.name in {"inject", "heal"}:
        inner = tuple(_faults(report, _of(phase.name, report, actions)))
    status: Status = "broken" if phase.error else _worst(inner)
    return Step(phase.name, phase.start_ms, stop_ms, status, phase.error, steps=inner)


def _of(phase: str, report: Report, actions: Sequence[_Action]) -> list[_Action]:
    """Actions of the phase `heal` are those begun since it began; all others belong to `inject`."""
    heal_ms = min((record.start_ms for record in report.phases if record.name == "heal"), default=None)
    late = [heal_ms is not None and action.begin.time_ms >= heal_ms for action in actions]
    return [action for action, is_late in zip(actions, late, strict=True) if is_late == (phase == "heal")]


def _faults(report: Report, actions: Sequence[_Action]) -> Iterator[Step]:
    for fault in report.faults:
        own = [action for action in actions if action.fault == fault.name]
        if own:
            yield _fault(fault, own)


def _fault(fault: FaultRecord, actions: Sequence[_Action]) -> Step:
    inner = tuple(_action(action) for action in actions)
    said = {key: str(action.begin.value[key]) for action in actions for key in ("when", "draw") if key in action.begin.value}
    came = {"came of it": facts(fault.aftermath, 400)} if fault.aftermath else {}
    parameters = {"kind": fault.kind, "target": fault.target, "proof": facts(fault.proof, 400)} | came | said
    status = "broken" if fault.problem else _worst(inner)
    shown = {name: value for name, value in parameters.items() if value}
    stop_ms = max(step.stop_ms for step in inner)
    return Step(aimed(fault), inner[0].start_ms, stop_ms, status, fault.problem, shown, inner)


def _action(action: _Action) -> Step:
    begin, end = action.begin, action.end
    if end is None:
        return Step(begin.f, begin.time_ms, begin.time_ms, "broken", "it never ended")
    if end.type == "fail":
        return Step(begin.f, begin.time_ms, end.time_ms, "broken", str(end.value.get("error", "")))
    bit = end.value.get("bit", True)
    proof = facts(end.value.get("proof", {}), 400)
    return Step(begin.f, begin.time_ms, end.time_ms, "passed" if bit else "broken", "" if bit else f"it did not bite: {proof}")


def _finding(report: Report, finding: Finding, at_ms: int) -> Step:
    """Verifiers are not timed one by one: their step has a place and no duration."""
    status = _STATUSES[report.expectations.outcome(finding)]
    parameters = {
        "verdict": finding.verdict.name,
        "log": finding.subject,
        "count": number(finding.count),
        "checked": number(finding.checked),
        **{name: number(count) for name, count in finding.counts.items() if len(finding.counts) > 1},
    }
    # steps, because the value of a parameter is cut where it is shown
    examples = (describe(report, example) for example in finding.examples[:_EXAMPLES])
    inner = tuple(Step(text, at_ms, at_ms, status) for text in examples)
    if finding.note and status == "passed":  # a message would be shown as an error
        return Step(phrase(report, finding), at_ms, at_ms, status, "", parameters | {"note": finding.note}, inner)
    return Step(phrase(report, finding), at_ms, at_ms, status, finding.note, parameters, inner)


def _actions(events: Sequence[Event]) -> Iterator[_Action]:
    own = [event for event in events if event.process == "nemesis"]
    for place, begin in enumerate(own):
        if begin.type == "invoke":
            ends = (event for event in own[place + 1 :] if event.type != "invoke" and _kind(event) == _kind(begin))
            yield _Action(begin, next(ends, None))


def _kind(event: Event) -> tuple[str, str]:
    return event.f, event.value["fault"]


def _worst(inner: Sequence[Step]) -> Status:
    for status in ("failed", "broken"):
        if any(step.status == status for step in inner):
            return status
    return "passed"
