"""Checks beyond the grammar: names that occur twice, and keys that contradict each other.

Only a certain mistake is an error when the file is read; everything else is left to the run. `chaos.scenario.support` checks
whether the pipeline and the system offer what a fault needs, `fault_checks` and `fault_limits` check the faults themselves.
"""

from collections.abc import Collection, Iterator, Mapping

from chaos.faults.kafka_state import DeleteGroupOffsets
from chaos.grammar.base import Location, Message, Problem, did_you_mean, within
from chaos.grammar.triggers import OnRequest
from chaos.runtime.capabilities import Capability
from chaos.scenario import fault_checks, services, topics
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.system import SystemSpec
from chaos.scenario.verifiers import anomalies_of
from chaos.scenario.workload import Filling, Workload

_MAX_LOADING_S = 600.0
# With these marks pytest would skip the scenario, run it several times, or not know what `-m` selects.
_SPECIAL_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "timeout", "tryfirst", "trylast")
_MISSPELT_MARKS = ("parameterize", "parametrise", "parameterise")  # pytest refuses these by name
_OTHER_TESTS = ("chaos", "integration")
_OPERATORS = ("and", "or", "not")
_TAKEN_TAGS = frozenset((*_SPECIAL_MARKS, *_MISSPELT_MARKS, *_OTHER_TESTS, *_OPERATORS))


def check(scenarios: Mapping[int, Scenario], system: SystemSpec) -> Iterator[Problem]:
    """Find every problem, with its location in the file.

    Args:
        scenarios: index in the file -> scenario, without those that break the grammar.
    """
    first: dict[str, int] = {}
    for number, scenario in scenarios.items():
        if scenario.name in first:
            text = f"{scenario.name!r} is already the name of scenario {first[scenario.name] + 1}; choose another name"
            yield ("scenarios", number, "name"), Message("name-taken", text)
        first.setdefault(scenario.name, number)
        yield from within(("scenarios", number), _scenario(scenario, scenario.system or system))


def _scenario(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    yield from _tags(scenario)
    yield from _topics(scenario, system)
    yield from _fillings_too_long(scenario.workload)
    if scenario.workload.also:
        yield from _several(scenario)
    yield from _rows(scenario)
    yield from _verifiers(scenario)
    yield from _predicted(scenario)
    yield from fault_checks.check(scenario, system)


def _tags(scenario: Scenario) -> Iterator[Problem]:
    for number, tag in enumerate(scenario.tags):
        if tag in _TAKEN_TAGS:
            yield ("tags", number), Message("tag-of-pytest", f"{tag!r} already has a meaning in pytest; choose another tag")


def too_long(filling: Filling) -> Message | None:
    """Explain why sending takes too long; None if it does not. Declared workloads run every night, so they are bounded."""
    if filling.sending_s <= _MAX_LOADING_S:
        return None
    takes = f"{filling.records} records at {filling.rate_per_s:g}/s take {filling.sending_s:.0f} s"
    text = f"{takes}; a workload must end within 10 minutes: declare fewer records, or a higher rate"
    return Message("workload-too-long", text)


def of_pipeline(pipeline: Pipeline, there: Mapping[str, topics.TopicSpec], beside: Collection[str] = ()) -> Iterator[Problem]:
    """Find mistakes in the topics, the expectation and the placeholders of a pipeline, with places in its declaration.

    Args:
        beside: the names of services.
    """
    yield from topics.of_pipeline(there, pipeline.reads, pipeline.sink)
    yield from pipeline.problems()
    yield from _placeholders(pipeline.texts, (*there, *beside))


def _placeholders(texts: Mapping[Location, tuple[str, tuple[str, ...]]], there: Collection[str]) -> Iterator[Problem]:
    for place, (text, known) in texts.items():
        if message := topics.unknown_placeholder(text, [*known, *there]):
            yield place, message


def _topics(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    pipeline, there = scenario.pipeline, scenario.topics
    yield from within(("pipeline",), of_pipeline(pipeline, there, system.services))
    yield from within(("system",), services.problems(system.services, there))
    yield from within(("workload",), topics.of_workload(there, pipeline.reads, scenario.workload.into))
    if message := topics.cannot_stay(there, scenario.source, pipeline.sink):
        yield ("pipeline", "sink", "routing"), message


def _fillings_too_long(workload: Workload) -> Iterator[Problem]:
    """Refuse long fillings; `--chaos-minutes` can make a soak longer."""
    for place, filling in fillings(workload):
        problem = too_long(filling)
        if problem:
            yield place, problem


def fillings(workload: Workload) -> Iterator[tuple[Location, Filling]]:
    """Yield each filling with its place in the scenario."""
    yield ("workload",), workload
    yield from ((("workload", "also", number), one) for number, one in enumerate(workload.also))


def _several(scenario: Scenario) -> Iterator[Problem]:
    """Refuse keys that need a single filled topic."""
    pipeline, more = scenario.pipeline, [one.into for one in scenario.workload.also]
    for number, message in topics.of_more(scenario.topics, pipeline.reads, scenario.source, more):
        yield ("workload", "also", number, "into"), message
    if pipeline.sink is None:
        return
    if pipeline.sink.routing == "same":
        text = "routing: same cannot be judged when several filled topics share partition numbers; leave routing out"
        yield ("pipeline", "sink", "routing"), Message("routing-of-several", text)
    if not pipeline.has_positions:
        why = "with positions: none, nothing shows when the pipeline has reached the end of several topics"
        text = f"{why}; write group or positions, or fill one topic: leave `also` out"
        yield ("pipeline", "positions"), Message("several-without-positions", text)
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, DeleteGroupOffsets) and fault.repair != "none":
            what = f"repair restores the positions in {scenario.source} only, but several topics are filled"
            yield ("faults", number, "repair"), Message("repair-of-several", f"{what}; leave repair out")


def _rows(scenario: Scenario) -> Iterator[Problem]:
    for place, filling in fillings(scenario.workload):
        rows, here = filling.rows, (*place, "rows")
        if rows is not None:
            yield from within(here, _placeholders(rows.texts, scenario.topics))
            if rows.SENDS_ITSELF:
                refused = scenario.pipeline.way.refused_unknown(scenario.pipeline)
                yield from (((*here, rows.kind), message) for message in refused)


def _verifiers(scenario: Scenario) -> Iterator[Problem]:
    known = scenario.applicable
    for name in scenario.leave_out:
        if name not in known:
            text = f"{name!r} does not apply to this pipeline; remove it from leave_out"
            yield ("leave_out", name), Message("leave-out-not-asked", text)
    if not scenario.verify:
        text = "leave_out names every verifier, so nothing would be judged; leave out fewer"
        yield ("leave_out",), Message("no-verifier-left", text)
    if scenario.expect == "not_sent" and not any(isinstance(fault.when, OnRequest) for fault in scenario.faults):
        text = "not_sent needs a fault that waits for a request, and there is none; write e.g. when: {request: EndTxn}"
        yield ("expect",), Message("not-sent-without-request", text)
    if scenario.ends and Capability.PIPELINE not in scenario.pipeline.capabilities:
        yield ("ends",), Message("end-without-pipeline", "ends needs a pipeline, and this scenario has none; leave ends out")
    for name in scenario.expect if isinstance(scenario.expect, Mapping) else ():
        if name not in scenario.verify:
            reason = "leave_out names it too" if name in scenario.leave_out else "it does not apply to this pipeline"
            yield ("expect", name), Message("expected-not-asked", f"expect names {name!r}, but {reason}")


def _predicted(scenario: Scenario) -> Iterator[Problem]:
    for name, counts in scenario.exactly.items():
        known = anomalies_of(name)
        for anomaly in counts:
            if anomaly not in known:
                hint = did_you_mean(anomaly, known)
                text = f"{anomaly!r} is not an anomaly of {name}{hint}; its anomalies are: {', '.join(known)}"
                yield ("expect", name, anomaly), Message("unknown-anomaly", text)
