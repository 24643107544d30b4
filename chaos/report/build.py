"""From a run directory to its report: the history says what happened, the findings say what is wrong, nothing else counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from chaos.common.events import (
    EarlyAlarm,
    FaultEvent,
    FaultHealed,
    FaultInjected,
    FaultProved,
    FaultTriggered,
    PhaseBegan,
    PhaseEnded,
    PhaseFailed,
)
from chaos.common.history import Event, of_type
from chaos.judging.progress import recoveries
from chaos.judging.verdict import decide
from chaos.report.model import FaultRecord, PhaseRecord, Report
from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule
from verifiers.base import Finding, Verdict

F = TypeVar("F", bound=FaultEvent)


def build(
    scenario: Scenario, schedule: Schedule, events: Sequence[Event], findings: Sequence[Finding], folder: Path, replay: str
) -> Report:
    """The report of one run, complete or cut short."""
    judgement = decide(scenario, schedule, events, findings)
    kinds = {step.name: step.fault.kind for step in schedule.steps}
    of_faults = [event for event in events if isinstance(event.value, FaultEvent)]
    recovered = recoveries(events)
    return Report(
        scenario=scenario.name,
        title=scenario.title,
        tags=scenario.tags,
        verdict=judgement.verdict,
        judged=_judged(findings),
        expect=judgement.expectations.verdicts,
        findings=tuple(findings),
        problems=judgement.problems,
        phases=tuple(_phases(events, judgement.phase_errors)),
        faults=tuple(_fault(name, kinds[name], problem, of_faults) for name, problem in judgement.fault_problems.items()),
        recovery_s=recovered[-1].seconds if recovered else None,
        records=scenario.workload.records,
        seed=schedule.seed,
        run_dir=folder,
        replay=replay,
        exactly=scenario.exactly,
        matrix=scenario.matrix,
        not_sent=judgement.not_sent,
        alarmed_s=next((event.elapsed_s for event, _ in of_type(events, EarlyAlarm)), None),
    )


def _judged(findings: Iterable[Finding]) -> Mapping[str, Verdict]:
    judged: dict[str, Verdict] = {}
    for finding in findings:
        judged[finding.verifier] = max(finding.verdict, judged.get(finding.verifier, Verdict.VALID))
    return judged


def _phases(events: Iterable[Event], errors: Mapping[str, str]) -> Iterator[PhaseRecord]:
    began: Event | None = None
    is_open = False
    for event in events:
        match event.value:
            case PhaseBegan():
                began, is_open = event, True
            case PhaseEnded(phase=name) | PhaseFailed(phase=name) if began is not None:
                took_s, is_open = round(event.elapsed_s - began.elapsed_s, 3), False
                yield PhaseRecord(name=name, start_ms=began.time_ms, duration_s=took_s, error=errors.get(name, ""))
    if is_open and began is not None and isinstance(began.value, PhaseBegan) and began.value.phase in errors:
        name = began.value.phase  # the run was ended in it
        yield PhaseRecord(name=name, start_ms=began.time_ms, duration_s=0.0, error=errors[name])


def _fault(name: str, kind: str, problem: str, events: Sequence[Event]) -> FaultRecord:
    def last(of: type[F]) -> tuple[int | None, F | None]:
        own = [(event.time_ms, value) for event, value in of_type(events, of) if value.fault == name]
        return own[-1] if own else (None, None)

    triggered_ms, _ = last(FaultTriggered)
    injected_ms, injected = last(FaultInjected)
    proved_ms, proved = last(FaultProved)
    healed_ms, healed = last(FaultHealed)
    return FaultRecord(
        name=name,
        kind=kind,
        target=injected.target if injected else "",
        triggered_ms=triggered_ms,
        injected_ms=injected_ms,
        proved_ms=proved_ms,
        healed_ms=healed_ms,
        effective=proved is not None and proved.effective,
        proof=proved.proof if proved else {},
        problem=problem,
        aftermath=healed.details if healed else {},
    )
