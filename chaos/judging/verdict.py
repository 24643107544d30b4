"""The verdict of a run, and the only place that decides it.

verdict = the worst of what each finding means for the run, compared with what the scenario expects; at least UNKNOWN when
anything kept the run from proving something: a phase failed, a fault had no effect, nothing was compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.common.history import Event
from chaos.grammar.triggers import AfterFault, OnRequest
from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule
from verifiers.base import Finding, Verdict

EXIT_CODES: Mapping[Verdict, int] = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 3}

_FAILURES = {
    "trigger": "its trigger never came",
    "resume": "it was not injected",
    "inject": "it was not injected",
    "heal": "it was not healed",
}
_CAN_BE_REPEATED = "judge"  # needs only what is on disk, so a run that was ended in it can be judged again
_TOO_LATE = "all of the workload was through before it: the output never grew again"
_NO_EFFECT = "it did not bite"
_NOTHING_JUDGED = "no verifier was asked: the run did not come that far"
_IDLE_AT_MOST = 0.1  # of the random faults: some fall on what nothing uses at that moment (docs/adr/0006)


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a scenario expects of the findings of its run.

    Attributes:
        verdicts: verifier -> verdict at the output; a verifier that is not named must say VALID.
        exactly: verifier -> anomaly -> count, where the scenario predicts those too.
        output: the log that these expectations are about; every other log must be VALID.
        has_problems: whether something kept the run from proving anything.
    """

    verdicts: Mapping[str, Verdict]
    exactly: Mapping[str, Mapping[str, int]]
    output: str
    has_problems: bool

    def expected(self, finding: Finding) -> Verdict:
        return self.verdicts.get(finding.verifier, Verdict.VALID) if finding.subject == self.output else Verdict.VALID

    def predicted(self, finding: Finding) -> Mapping[str, int]:
        """The counts that the scenario predicts; those that were found where it predicts none."""
        found = {anomaly: count for anomaly, count in finding.counts.items() if count}
        return self.exactly.get(finding.verifier, found) if finding.subject == self.output else found

    def outcome(self, finding: Finding) -> Verdict:
        """What a finding means for its run: VALID when it is as expected.

        A control that found nothing shows that fault or verifier is blind only in a run whose faults took effect: a run with
        problems proved nothing, not about the control either.
        """
        if finding.verdict is Verdict.UNKNOWN:
            return Verdict.UNKNOWN
        if finding.verdict is self.expected(finding) and _exact(finding, self.predicted(finding)):
            return Verdict.VALID
        return Verdict.UNKNOWN if finding.verdict is Verdict.VALID and self.has_problems else Verdict.INVALID


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run comes to, and why.

    Attributes:
        problems: every reason for not being VALID that is not a finding.
        phase_errors: phase -> the error that ended it; only phases that failed.
        fault_problems: fault -> why it proves nothing, "" when all went well; a fault that was spared is left out.
        not_sent: the request that a fault waited for was never sent, as the scenario expects.
    """

    verdict: Verdict
    expectations: Expectations
    problems: tuple[str, ...]
    phase_errors: Mapping[str, str]
    fault_problems: Mapping[str, str]
    not_sent: bool


_Story = Mapping[tuple[str, str], Event]  # what the nemesis did with one fault: (f, type) -> the last such event


def decide(scenario: Scenario, schedule: Schedule, events: Sequence[Event], findings: Sequence[Finding]) -> Judgement:
    """Decide a run that is complete or was cut short, from its history and its findings."""
    stories = dict(_stories(schedule, events))
    phase_errors = dict(_phase_errors(events))
    fault_problems = dict(_fault_problems(stories, events))
    not_sent = scenario.expect == "not_sent" and _never_sent(events)
    excused = _idle(schedule, fault_problems) | (_not_triggered(schedule, stories) if not_sent else set())
    problems = [f"{phase}: {error}" for phase, error in phase_errors.items()]
    problems += [f"{fault}: {problem}" for fault, problem in fault_problems.items() if problem and fault not in excused]
    if not findings:
        problems.append(_NOTHING_JUDGED)
    if scenario.expect == "not_sent" and not not_sent:
        problems.append(f"it was expected that this request is never sent, and {_not_sent_problem(events)}")
    if scenario.pipeline.kind != "fill_source" and findings and all(finding.subject != "sink" for finding in findings):
        problems.append("nothing was said of the sink")
    if scenario.random and not any(map(_is_effective, stories.values())):
        problems.append("not one of the faults by chance was in force")
    expectations = Expectations(
        verdicts={name: Verdict[word.upper()] for name, word in scenario.expected.items()},
        exactly=scenario.exactly,
        output=findings[-1].subject if findings else "",
        has_problems=bool(problems),
    )
    floor = Verdict.UNKNOWN if problems else Verdict.VALID
    verdict = max([floor, *map(expectations.outcome, findings)])
    return Judgement(verdict, expectations, tuple(problems), phase_errors, fault_problems, not_sent)


def _exact(finding: Finding, wanted: Mapping[str, int]) -> bool:
    """These anomalies this often and no others; what a verifier counts besides (aborted rows, say) is not predicted."""
    found = {anomaly: count for anomaly, count in finding.counts.items() if count}
    return all(finding.counts.get(anomaly, 0) == count for anomaly, count in wanted.items()) and (
        sum(wanted.values()) == finding.count or wanted == found
    )


def _phase_errors(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    marks = [event for event in events if event.f == "phase"]
    yield from ((event.value["phase"], event.value["error"]) for event in marks if event.value.get("error"))
    if marks and marks[-1].type == "invoke" and marks[-1].value["phase"] != _CAN_BE_REPEATED:
        yield marks[-1].value["phase"], "the run was ended in the middle of it"


def _stories(schedule: Schedule, events: Sequence[Event]) -> Iterator[tuple[str, _Story]]:
    """By fault, in the order of the schedule; a fault that was spared is not part of the run."""
    own = [event for event in events if event.process == "nemesis"]
    spared = {event.value["fault"] for event in own if event.f == "spared"}
    stories: dict[str, dict[tuple[str, str], Event]] = {step.name: {} for step in schedule.steps}
    for event in own:
        stories.get(event.value["fault"], {})[event.f, event.type] = event
    return ((name, story) for name, story in stories.items() if name not in spared)


def _fault_problems(stories: Mapping[str, _Story], events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    samples = [event for event in events if (event.process, event.f) == ("sampler", "progress")]
    for name, story in stories.items():
        yield name, _fault_problem(story) or _in_vain(story["inject", "ok"], samples)


def _fault_problem(story: _Story) -> str:
    for f, words in _FAILURES.items():
        if (f, "fail") in story:
            return f"{words}: {story[f, 'fail'].value['error']}"
    if ("inject", "ok") not in story:
        return "the run ended before it was injected"
    if ("prove", "fail") in story:
        return f"its proof could not be had: {story['prove', 'fail'].value['error']}"
    return "" if _is_effective(story) else _NO_EFFECT


def _is_effective(story: _Story) -> bool:
    return ("prove", "ok") in story and bool(story["prove", "ok"].value.get("bit", False))


def _in_vain(injected: Event, samples: Sequence[Event]) -> str:
    """A fault that came when there was nothing left to break proves nothing."""
    before = [event.value for event in samples if event.index < injected.index]
    if not before or before[-1]["committed"] < before[-1]["total"]:
        return ""
    most = max(value["end"] for value in before)
    return "" if any(event.value["end"] > most for event in samples if event.index > injected.index) else _TOO_LATE


def _idle(schedule: Schedule, fault_problems: Mapping[str, str]) -> set[str]:
    """Random faults that had nothing to break while they lasted, such as a link that nothing used, if they are few."""
    by_chance = [step.name for step in schedule.steps if step.by_chance and step.name in fault_problems]
    idle = {name for name in by_chance if fault_problems[name] == _NO_EFFECT}
    return idle if len(idle) <= _IDLE_AT_MOST * len(by_chance) else set()


def _not_triggered(schedule: Schedule, stories: Mapping[str, _Story]) -> set[str]:
    """Faults that wait for a request, or for another fault, and whose trigger never came."""
    waiting = {step.name for step in schedule.steps if isinstance(step.fault.when, OnRequest | AfterFault)}
    return {name for name, story in stories.items() if name in waiting and ("trigger", "ok") not in story}


def _never_sent(events: Iterable[Event]) -> bool:
    """Whether a trigger waited for a request that was never sent, as the toxic counts them."""
    missed = [event.value for event in events if (event.process, event.f) == ("nemesis", "missed")]
    return bool(missed) and all(value["sent"] == 0 and value["unparsed"] == 0 for value in missed)


def _not_sent_problem(events: Sequence[Event]) -> str:
    """Why a run does not show that a request is never sent."""
    missed = [event.value for event in events if (event.process, event.f) == ("nemesis", "missed")]
    triggers = [event for event in events if (event.process, event.type, event.f) == ("nemesis", "ok", "trigger")]
    if any("api" in event.value for event in triggers) or any(value["sent"] for value in missed):
        return "it was sent"
    if any(value["unparsed"] for value in missed):
        return "nobody knows: there is traffic on its links that is not Kafka's protocol"
    return "nobody knows: no trigger waited for it to the end"
