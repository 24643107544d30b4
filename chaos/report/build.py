"""From a run directory to its report: the history says what happened, the findings say what is wrong, nothing else counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.common.history import Event
from chaos.judging.progress import recoveries
from chaos.judging.verdict import decide
from chaos.report.model import FaultRecord, PhaseRecord, Report
from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule
from verifiers.base import Finding, Verdict


def build(
    scenario: Scenario, schedule: Schedule, events: Sequence[Event], findings: Sequence[Finding], folder: Path, replay: str
) -> Report:
    """The report of one run, complete or cut short."""
    judgement = decide(scenario, schedule, events, findings)
    kinds = {step.name: step.fault.kind for step in schedule.steps}
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
        faults=tuple(_fault(name, kinds[name], problem, events) for name, problem in judgement.fault_problems.items()),
        recovery_s=recovered[-1].seconds if recovered else None,
        records=scenario.workload.records,
        seed=schedule.seed,
        run_dir=folder,
        replay=replay,
        exactly=scenario.exactly,
        matrix=scenario.matrix,
        not_sent=judgement.not_sent,
        alarmed_s=next((event.elapsed_s for event in events if (event.process, event.f) == ("auditor", "alarm")), None),
    )


def _judged(findings: Iterable[Finding]) -> Mapping[str, Verdict]:
    judged: dict[str, Verdict] = {}
    for finding in findings:
        judged[finding.verifier] = max(finding.verdict, judged.get(finding.verifier, Verdict.VALID))
    return judged


def _phases(events: Iterable[Event], errors: Mapping[str, str]) -> Iterator[PhaseRecord]:
    marks = [event for event in events if event.f == "phase"]
    began: Event | None = None
    for event in marks:
        name = event.value["phase"]
        if event.type == "invoke":
            began = event
        elif began is not None:
            yield PhaseRecord(
                name=name,
                start_ms=began.time_ms,
                duration_s=round(event.elapsed_s - began.elapsed_s, 3),
                error=errors.get(name, ""),
            )
    if marks and marks[-1].type == "invoke" and marks[-1].value["phase"] in errors:  # the run was ended in it
        name = marks[-1].value["phase"]
        yield PhaseRecord(name=name, start_ms=marks[-1].time_ms, duration_s=0.0, error=errors[name])


def _fault(name: str, kind: str, problem: str, events: Iterable[Event]) -> FaultRecord:
    own: dict[str, Event] = {
        event.f: event
        for event in events
        if event.process == "nemesis" and event.type == "ok" and event.value.get("fault") == name
    }

    def when(f: str) -> int | None:
        return own[f].time_ms if f in own else None

    def said(f: str) -> Mapping[str, Any]:
        return own[f].value if f in own else {}

    return FaultRecord(
        name=name,
        kind=kind,
        target=said("inject").get("target", ""),
        triggered_ms=when("trigger"),
        injected_ms=when("inject"),
        proved_ms=when("prove"),
        healed_ms=when("heal"),
        effective=bool(said("prove").get("bit", False)),
        proof=said("prove").get("proof", {}),
        problem=problem,
        aftermath={key: value for key, value in said("heal").items() if key not in {"fault", "target"}},
    )
