"""What the grammar alone cannot say: names that occur twice, targets that cannot be, moments that cannot come."""

from collections.abc import Iterator, Mapping

from chaos.scenario.model import (
    After,
    CrashExecutor,
    FillSourcePipeline,
    LinkFault,
    Scenario,
    ScenarioFileModel,
    SparkSquarePipeline,
    broker_targets,
)

Wrong = tuple[tuple[str | int, ...], str]
_LATE_S = 60.0


def check(file: ScenarioFileModel) -> Iterator[Wrong]:
    """Every mistake, with its place."""
    seen: dict[str, int] = {}
    for number, scenario in enumerate(file.scenarios):
        here = ("scenarios", number)
        if scenario.name in seen:
            yield (*here, "name"), f"{scenario.name!r} is the name of scenario {seen[scenario.name] + 1} already; names are unique"
        seen.setdefault(scenario.name, number)
        for location, message in (*_verifiers(scenario), *_faults(scenario, file.system.kafka.brokers)):
            yield (*here, *location), message


def _verifiers(scenario: Scenario) -> Iterator[Wrong]:
    for number, name in enumerate(scenario.verify):
        if name in scenario.verify[:number]:
            yield ("verify", number), f"{name!r} is here twice"
    if isinstance(scenario.expect, Mapping):
        for name in scenario.expect:
            if name not in scenario.verify:
                yield ("expect", name), f"{name!r} is expected to say something but is not in `verify`"


def _faults(scenario: Scenario, brokers: int) -> Iterator[Wrong]:
    names: set[str] = set()
    for number, fault in enumerate(scenario.faults):
        here = ("faults", number)
        if fault.name in names:
            yield (*here, "name"), f"{fault.name!r} is the name of another fault of this scenario"
        names.add(fault.name)
        if isinstance(fault.when, After) and fault.when.after_s > scenario.workload.loading_s + _LATE_S:
            yield (*here, "when", "after"), f"the workload takes {scenario.workload.loading_s:g} s: this moment would never come"
        key = "link" if isinstance(fault, LinkFault) else "target"
        for target in broker_targets(fault):
            if target.number > brokers:
                yield (*here, key), f"there is no {target}: the system has {brokers} brokers"
            if target.role == "transaction_coordinator" and not _transactional(scenario):
                yield (*here, key), "this pipeline uses no transactions: it has no transaction coordinator"
            if target.topic == "datasink" and isinstance(scenario.pipeline, FillSourcePipeline):
                yield (*here, key), "this pipeline writes to datasource only"
        yield from (((*here, key), message) for message in _sparkless(scenario, fault))


def _sparkless(scenario: Scenario, fault: object) -> Iterator[str]:
    if not isinstance(scenario.pipeline, FillSourcePipeline):
        return
    if isinstance(fault, CrashExecutor):
        yield "this pipeline runs on no Spark: there is no executor to crash"
    if isinstance(fault, LinkFault) and fault.link.left == "spark":
        yield "this pipeline runs on no Spark: nothing would pass this link"


def _transactional(scenario: Scenario) -> bool:
    return isinstance(scenario.pipeline, SparkSquarePipeline) and scenario.pipeline.delivery == "exactly_once"
