"""From a run directory to its report: the history says what happened, the findings say what is wrong, nothing else counts.

verdict = max over verifiers of what they said, after ``expect``; at least UNKNOWN when anything kept the run from proving
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.common.history import Event
from chaos.grammar.triggers import AfterFault, OnRequest
from chaos.judging.recovery import Recovery, recoveries
from chaos.report.formatting import outcome
from chaos.report.model import FaultRecord, PhaseRecord, Report
from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule
from verifiers.base import Finding, Verdict

_FAILURES = {
    "trigger": "its trigger never came",
    "resume": "it was not injected",
    "inject": "it was not injected",
    "heal": "it was not healed",
}
_AGAIN = "judge"  # needs nothing but what is written down, and can be done again after a run that was ended in it
_VAIN = "all of the workload was through before it: the output never grew again"
_IDLE = "it did not bite"
_IDLE_AT_MOST = 0.1  # of the faults by chance: some fall on what nobody uses in that moment
_NOTHING_SAID = "no verifier was asked: the run did not come that far"


def build(
    scenario: Scenario, schedule: Schedule, events: Sequence[Event], findings: Sequence[Finding], folder: Path, replay: str
) -> Report:
    """The report of one run, complete or cut short."""
    expect = {name: Verdict[word.upper()] for name, word in scenario.expected.items()}
    spared = {event.value["fault"] for event in events if (event.process, event.f) == ("nemesis", "spared")}
    samples = [event for event in events if (event.process, event.f) == ("sampler", "progress")]
    faults = tuple(_fault(step.name, step.fault.kind, events, samples) for step in schedule.steps if step.name not in spared)
    phases = tuple(_phases(events))
    not_sent = scenario.expect == "not_sent" and _never_sent(events)
    on_it = {step.name for step in schedule.steps if isinstance(step.fault.when, OnRequest | AfterFault)}
    excused = [fault for fault in faults if not_sent and fault.triggered_ms is None and fault.name in on_it]
    by_chance = {step.name for step in schedule.steps if step.by_chance}
    excused += _idle([fault for fault in faults if fault.name in by_chance])
    problems = tuple(_problems(phases, [fault for fault in faults if fault not in excused], findings))
    if scenario.expect == "not_sent" and not not_sent:
        problems = (*problems, f"it was expected that this request is never sent, and {_not_sent_problem(events)}")
    if scenario.pipeline.kind != "fill_source" and findings and all(finding.subject != "sink" for finding in findings):
        problems = (*problems, "nothing was said of the sink")
    if scenario.random and not any(fault.bit for fault in faults):
        problems = (*problems, "not one of the faults by chance was in force")
    floor = Verdict.UNKNOWN if problems else Verdict.VALID
    report = Report(
        scenario=scenario.name,
        title=scenario.title,
        tags=scenario.tags,
        verdict=floor,
        judged=_judged(findings),
        expect=expect,
        findings=tuple(findings),
        problems=problems,
        phases=phases,
        faults=faults,
        recovery_s=_last(recoveries(events)),
        records=scenario.workload.records,
        seed=schedule.seed,
        run_dir=folder,
        replay=replay,
        exactly=scenario.exactly,
        matrix=scenario.matrix,
        not_sent=not_sent,
        alarmed_s=next((event.elapsed_s for event in events if (event.process, event.f) == ("auditor", "alarm")), None),
    )
    return replace(report, verdict=max([floor, *(outcome(report, finding) for finding in findings)]))


def _judged(findings: Iterable[Finding]) -> Mapping[str, Verdict]:
    judged: dict[str, Verdict] = {}
    for finding in findings:
        judged[finding.verifier] = max(finding.verdict, judged.get(finding.verifier, Verdict.VALID))
    return judged


def _phases(events: Iterable[Event]) -> Iterable[PhaseRecord]:
    marks = [event for event in events if event.f == "phase"]
    began: Event | None = None
    for event in marks:
        if event.type == "invoke":
            began = event
        elif began is not None:
            took_s = round(event.elapsed_s - began.elapsed_s, 3)
            yield PhaseRecord(event.value["phase"], began.time_ms, took_s, event.value.get("error", ""))
    if marks and marks[-1].type == "invoke" and marks[-1].value["phase"] != _AGAIN:
        yield PhaseRecord(marks[-1].value["phase"], marks[-1].time_ms, 0.0, "the run was ended in the middle of it")


def _fault(name: str, kind: str, events: Iterable[Event], samples: Sequence[Event]) -> FaultRecord:
    own: dict[tuple[str, str], Event] = {
        (event.f, event.type): event for event in events if event.process == "nemesis" and event.value.get("fault") == name
    }

    def when(f: str) -> int | None:
        return own[f, "ok"].time_ms if (f, "ok") in own else None

    proved = own[("prove", "ok")].value if ("prove", "ok") in own else {}
    injected = own[("inject", "ok")].value if ("inject", "ok") in own else {}
    bit = bool(proved.get("bit", False))
    return FaultRecord(
        name=name,
        kind=kind,
        target=injected.get("target", ""),
        triggered_ms=when("trigger"),
        injected_ms=when("inject"),
        proved_ms=when("prove"),
        healed_ms=when("heal"),
        bit=bit,
        proof=proved.get("proof", {}),
        problem=_fault_problem(own, bit=bit) or _vain(own["inject", "ok"], samples),
        aftermath=_without(own["heal", "ok"].value, "fault", "target") if ("heal", "ok") in own else {},
    )


def _without(value: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    return {key: inner for key, inner in value.items() if key not in keys}


def _fault_problem(own: Mapping[tuple[str, str], Event], *, bit: bool) -> str:
    for f, words in _FAILURES.items():
        if (f, "fail") in own:
            return f"{words}: {own[f, 'fail'].value['error']}"
    if ("inject", "ok") not in own:
        return "the run ended before it was injected"
    if ("prove", "fail") in own:
        return f"its proof could not be had: {own['prove', 'fail'].value['error']}"
    return "" if bit else _IDLE


def _idle(by_chance: Sequence[FaultRecord]) -> Sequence[FaultRecord]:
    """Faults by chance that had nothing to break while they lasted, such as a link that nobody used; few are no problem."""
    idle = [fault for fault in by_chance if fault.problem == _IDLE]
    return idle if len(idle) <= _IDLE_AT_MOST * len(by_chance) else ()


def _vain(injected: Event, samples: Sequence[Event]) -> str:
    """A fault that came when there was nothing left to break proves nothing."""
    before = [event.value for event in samples if event.index < injected.index]
    if not before or before[-1]["committed"] < before[-1]["total"]:
        return ""
    most = max(value["end"] for value in before)
    return "" if any(event.value["end"] > most for event in samples if event.index > injected.index) else _VAIN


def _problems(phases: Iterable[PhaseRecord], faults: Iterable[FaultRecord], findings: Sequence[Finding]) -> Iterable[str]:
    yield from (f"{phase.name}: {phase.error}" for phase in phases if phase.error)
    yield from (f"{fault.name}: {fault.problem}" for fault in faults if fault.problem)
    if not findings:
        yield _NOTHING_SAID


def _never_sent(events: Iterable[Event]) -> bool:
    """Whether a trigger waited for a request that nobody sent, as the toxic counts them."""
    missed = [event.value for event in events if (event.process, event.f) == ("nemesis", "missed")]
    return bool(missed) and all(value["sent"] == 0 and value["unparsed"] == 0 for value in missed)


def _not_sent_problem(events: Sequence[Event]) -> str:
    """Why a run does not show that a request is never sent."""
    missed = [event.value for event in events if (event.process, event.f) == ("nemesis", "missed")]
    trips = [event for event in events if (event.process, event.type, event.f) == ("nemesis", "ok", "trigger")]
    if any("api" in event.value for event in trips) or any(value["sent"] for value in missed):
        return "it was sent"
    if any(value["unparsed"] for value in missed):
        return "nobody knows: there is traffic on its links that is not Kafka's protocol"
    return "nobody knows: no trigger waited for it to the end"


def _last(recovered: Sequence[Recovery]) -> float | None:
    return recovered[-1].seconds if recovered else None
