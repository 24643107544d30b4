"""The verdict of a run, and the only place that decides it.

verdict = the worst outcome of all findings, each compared with the scenario's expectation; at least UNKNOWN if anything kept
the run from proving something: a phase failed, a fault had no effect, nothing was compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.common.events import (
    STANDSTILL,
    EventValue,
    FaultStep,
    FaultTriggered,
    PhaseBegan,
    PhaseEnded,
    PhaseFailed,
    ProgressSampled,
    RequestMissed,
)
from chaos.common.history import Event, of_type
from chaos.grammar.counts import SOME, fits
from chaos.grammar.triggers import AfterFault, OnRequest
from chaos.judging.story import Story, stories
from chaos.runtime.capabilities import Capability
from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule
from chaos.scenario.verifiers import OF_LOGS, PROGRESS
from verifiers.base import Finding, Verdict

_FAILURES: Mapping[FaultStep, str] = {
    "trigger": "its trigger never came",
    "resume": "it was not injected",
    "inject": "it was not injected",
    "heal": "it was not healed",
}
_CAN_BE_REPEATED = "judge"  # needs only the run directory, so a run that was ended in it can be judged again
_TOO_LATE = "the whole workload had passed before it, so there was nothing left to break"
_NO_EFFECT = "it had no effect"
_SOURCE = "source"
_NOTHING_JUDGED = "nothing was judged: the run ended before its topics were read"
_ABSENT_AT_MOST = 0.1  # part of a workload's records
_IDLE_AT_MOST = 0.1  # part of the random faults: some hit something that is idle at that moment (docs/adr/0006)


@dataclass(frozen=True, slots=True)
class Expectations:
    """The scenario's expectations of the findings of its run.

    Attributes:
        verdicts: verifier -> verdict at the output; one that is not named must be VALID.
        exactly: verifier -> anomaly -> how often (`chaos.grammar.counts`), if the scenario predicts counts.
        output: the log that these expectations are about. For verifiers that judge only an input (`verifiers.commits`) they
            are about the source instead, also if several topics are filled. Every other log must be VALID.
        has_problems: whether something kept the run from proving anything.
    """

    verdicts: Mapping[str, Verdict]
    exactly: Mapping[str, Mapping[str, int | str]]
    output: str
    has_problems: bool

    def expected(self, finding: Finding) -> Verdict:
        return self.verdicts.get(finding.verifier, Verdict.VALID) if self.concern(finding) else Verdict.VALID

    def predicted(self, finding: Finding) -> Mapping[str, int | str]:
        """Return the counts that the scenario predicts, or the found ones if it predicts none."""
        found: dict[str, int | str] = {anomaly: count for anomaly, count in finding.counts.items() if count}
        return self.exactly.get(finding.verifier, found) if self.concern(finding) else found

    def outcome(self, finding: Finding) -> Verdict:
        """Return the outcome of a finding for its run: VALID if it is as expected.

        A control that found nothing shows a harmless fault or a blind verifier only if the run's faults took effect: a run with
        problems proves nothing, about the control neither.
        """
        if finding.verdict is Verdict.UNKNOWN:
            return Verdict.UNKNOWN
        if finding.verdict is self.expected(finding) and _exact(finding, self.predicted(finding)):
            return Verdict.VALID
        return Verdict.UNKNOWN if finding.verdict is Verdict.VALID and self.has_problems else Verdict.INVALID

    def concern(self, finding: Finding) -> bool:
        """Whether the expectations are about the log of this finding."""
        verifier = OF_LOGS.get(finding.verifier)
        if finding.subject == self.output:
            return True
        return verifier is not None and self.output not in verifier.subjects and finding.subject == _SOURCE


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of a run, and its reasons.

    Attributes:
        problems: every reason for not being VALID that is not a finding.
        phase_errors: phase -> the error that ended it; only phases that failed.
        stories: fault -> its story; a fault that was spared is left out.
        fault_problems: fault -> why it proves nothing, "" if all went well; the faults of `stories`.
        not_sent: whether the request that a fault waited for was never sent, as the scenario expects.
    """

    verdict: Verdict
    expectations: Expectations
    problems: tuple[str, ...]
    phase_errors: Mapping[str, str]
    stories: Mapping[str, Story]
    fault_problems: Mapping[str, str]
    not_sent: bool


def decide(scenario: "Scenario", schedule: "Schedule", events: Sequence[Event], findings: Sequence[Finding]) -> Judgement:
    """Decide a run that is complete or was cut short, from its history and its findings."""
    told = stories([step.name for step in schedule.steps], events)
    phase_errors = dict(_phase_errors(events))
    samples = of_type(events, ProgressSampled)
    fault_problems = {name: _fault_problem(story, samples) for name, story in told.items()}
    not_sent = scenario.expect == "not_sent" and _never_sent(events)
    excused = _idle(schedule, told) | (_not_triggered(schedule, told) if not_sent else set())
    if scenario.ends:
        excused |= {name for name, story in told.items() if _has_ended_healed(story, scenario.ends)}
    by_error = _phases_by_error(phase_errors)
    as_expected = {failed.error for _, failed in of_type(events, PhaseFailed) if scenario.ends and failed.says(scenario.ends)}
    stood_still = _predicted_standstills(scenario, events)
    problems = [f"{', '.join(phases)}: {error}" for error, phases in by_error.items() if error not in as_expected | stood_still]
    if scenario.ends and not as_expected:
        problems.append(f"the scenario expects that the pipeline ends with {scenario.ends!r}, but it did not")
    problems += _less_than_declared(scenario, findings)
    problems += [f"{fault}: {problem}" for fault, problem in fault_problems.items() if problem and fault not in excused]
    if not findings and not problems:
        problems.append(_NOTHING_JUDGED)
    if scenario.expect == "not_sent" and not not_sent:
        problems.append(f"the scenario expects that this request is never sent, but {_not_sent_problem(events)}")
    if findings and not _output_compared(scenario, findings):
        problems.append(f"no verifier has compared the {'sink' if _has_sink(scenario) else 'source'}")
    output = _output(scenario, findings)
    if scenario.random and not any(story.is_effective for story in told.values()):
        problems.append("none of the random faults had an effect")
    expectations = Expectations(
        verdicts={name: Verdict[word.upper()] for name, word in scenario.expected.items()},
        exactly=scenario.exactly,
        output=output,
        has_problems=bool(problems),
    )
    floor = Verdict.UNKNOWN if problems else Verdict.VALID
    verdict = max([floor, *map(expectations.outcome, findings)])
    return Judgement(verdict, expectations, tuple(problems), phase_errors, told, fault_problems, not_sent)


def _predicted_standstills(scenario: "Scenario", events: Sequence[Event]) -> set[str]:
    """Return the errors of phases that waited in vain for a program that should not move; `progress` says whether it did."""
    if "no recovery" not in scenario.exactly.get(PROGRESS, {}):
        return set()
    return {failed.error for _, failed in of_type(events, PhaseFailed) if failed.cause == STANDSTILL}


def _less_than_declared(scenario: "Scenario", findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a problem if many records have an unknown outcome and are in no log; faults explain only a few."""
    for finding in findings:
        absent = finding.counts.get("absent", 0) if finding.verifier == "ledger" else 0
        if absent > _ABSENT_AT_MOST * scenario.workload.total:
            yield (
                f"{absent} of {scenario.workload.total} records have an unknown outcome and are not in the {finding.subject}: "
                "the pipeline had less to do than the scenario declares"
            )


def _output(scenario: "Scenario", findings: Sequence[Finding]) -> str:
    """Return the log that is the run's output: the sink, else the topic that was filled last; "" if none was judged."""
    judged = {finding.subject for finding in findings}
    return next((name for name in ("sink", *reversed(tuple(scenario.subjects.values()))) if name in judged), "")


def _output_compared(scenario: "Scenario", findings: Iterable[Finding]) -> bool:
    """Whether a verifier read the output's log; progress is judged by the history alone."""
    compared = {finding.subject for finding in findings if finding.verifier != PROGRESS}
    return "sink" in compared if _has_sink(scenario) else bool(compared)


def _has_sink(scenario: "Scenario") -> bool:
    return Capability.PIPELINE in scenario.pipeline.capabilities


def _exact(finding: Finding, wanted: Mapping[str, int | str]) -> bool:
    """Whether a finding has the predicted anomalies, as often, and no others; other counts (aborted rows, say) are free.

    If one is predicted as ``some``, the fault is not exact, and there may be others, too.
    """
    if not all(fits(often, finding.counts.get(anomaly, 0)) for anomaly, often in wanted.items()):
        return False
    found = {anomaly for anomaly, count in finding.counts.items() if count}
    is_all = sum(finding.counts.get(anomaly, 0) for anomaly in wanted) == finding.count
    return SOME in wanted.values() or is_all or found <= wanted.keys()


def _phases_by_error(phase_errors: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Group the phases by error: a pipeline that has ended is one problem, though every later phase fails by it."""
    phases: dict[str, list[str]] = {}
    for phase, error in phase_errors.items():
        phases.setdefault(error, []).append(phase)
    return phases


def _phase_errors(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    last: EventValue | None = None
    for event in events:
        if isinstance(event.value, PhaseBegan | PhaseEnded | PhaseFailed):
            last = event.value
        if isinstance(event.value, PhaseFailed) and event.value.error:
            yield event.value.phase, event.value.error
    if isinstance(last, PhaseBegan) and last.phase != _CAN_BE_REPEATED:
        yield last.phase, "the run was ended during this phase"


def _fault_problem(story: Story, samples: Sequence[tuple[Event, ProgressSampled]]) -> str:
    for step, words in _FAILURES.items():
        if step in story.failures:
            return f"{words}: {story.failures[step].error}"
    if story.injected is None:
        return "the run ended before it was injected"
    if "prove" in story.failures:
        return f"the check of its effect failed: {story.failures['prove'].error}"
    if story.is_effective:
        return _in_vain(story.injected.event, samples)
    taken_back = story.healed if story.is_proved else None
    return f"{_NO_EFFECT}: {taken_back.value.details.get('problem', '')}" if taken_back else _NO_EFFECT


def _in_vain(injected: Event, samples: Sequence[tuple[Event, ProgressSampled]]) -> str:
    """Why a fault proves nothing if it came when there was nothing left to break; else ""."""
    before = [sample for event, sample in samples if event.index < injected.index]
    if not before or before[-1].committed < before[-1].total:
        return ""
    most = max(sample.end for sample in before)
    grew = any(sample.end > most for event, sample in samples if event.index > injected.index)
    return "" if grew else _TOO_LATE


def _has_ended_healed(story: Story, ends: str) -> bool:
    """Whether a fault took effect, and only its heal failed: the restarted pipeline ended at once, as declared."""
    return story.is_effective and set(story.failures) == {"heal"} and story.failures["heal"].says(ends)


def _idle(schedule: "Schedule", told: Mapping[str, Story]) -> set[str]:
    """Return the random faults that had nothing to break, if they are few."""
    by_chance = [step.name for step in schedule.steps if step.by_chance and step.name in told]
    idle = {name for name in by_chance if told[name].found_nothing}
    return idle if len(idle) <= _IDLE_AT_MOST * len(by_chance) else set()


def _not_triggered(schedule: "Schedule", told: Mapping[str, Story]) -> set[str]:
    """Return the faults that wait for a request, or for another fault, and whose trigger never came."""
    waiting = {step.name for step in schedule.steps if isinstance(step.fault.when, OnRequest | AfterFault)}
    return {name for name, story in told.items() if name in waiting and story.triggered is None}


def _never_sent(events: Sequence[Event]) -> bool:
    """Whether a trigger waited for a request that was never sent, as the toxic counts them."""
    missed = [value for _, value in of_type(events, RequestMissed)]
    return bool(missed) and all(value.sent == 0 and value.unparsed == 0 for value in missed)


def _not_sent_problem(events: Sequence[Event]) -> str:
    """Why a run does not show that a request is never sent."""
    missed = [value for _, value in of_type(events, RequestMissed)]
    intercepted = any("api" in value.details for _, value in of_type(events, FaultTriggered))
    if intercepted or any(value.sent for value in missed):
        return "it was sent"
    if any(value.unparsed for value in missed):
        return "its links carry traffic that is not Kafka's protocol, which may hide it"
    return "no trigger waited for it until the end of the run"
