"""What the grammar alone cannot say: names that occur twice, targets that cannot be, moments that cannot come."""

from collections import Counter
from collections.abc import Iterator, Mapping

from chaos.scenario.faults import CrashExecutor, Fault, LinkFault, broker_targets
from chaos.scenario.model import FillSourcePipeline, Scenario, SparkSquarePipeline
from chaos.scenario.moments import After
from chaos.scenario.units import spoken_seconds
from chaos.scenario.words import did_you_mean

Wrong = tuple[tuple[str | int, ...], str]
_LATE_S = 60.0
# With these marks pytest would skip the scenario, run it several times, or not know what `-m` selects.
_SPECIAL_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "timeout", "tryfirst", "trylast")
_MISSPELT_MARKS = ("parameterize", "parametrise", "parameterise")  # pytest refuses these by name
_OTHER_TESTS = ("chaos", "integration")
_OPERATORS = ("and", "or", "not")
_TAKEN_TAGS = frozenset((*_SPECIAL_MARKS, *_MISSPELT_MARKS, *_OTHER_TESTS, *_OPERATORS))


def check(scenarios: Mapping[int, Scenario], brokers: int) -> Iterator[Wrong]:
    """Every mistake, with its place.

    Args:
        scenarios: place in the file -> what is declared there; those that break the grammar are left out.
        brokers: how many there are.
    """
    first: dict[str, int] = {}
    for number, scenario in scenarios.items():
        here = ("scenarios", number)
        if scenario.name in first:
            yield (
                (*here, "name"),
                f"{scenario.name!r} is the name of scenario {first[scenario.name] + 1} already; names are unique",
            )
        first.setdefault(scenario.name, number)
        for location, message in _scenario(scenario, brokers):
            yield (*here, *location), message


def _scenario(scenario: Scenario, brokers: int) -> Iterator[Wrong]:
    yield from _tags(scenario)
    yield from _verifiers(scenario)
    yield from _fault_names(scenario)
    for number, fault in enumerate(scenario.faults):
        here = ("faults", number)
        if isinstance(fault.when, After) and fault.when.after_s > scenario.workload.loading_s + _LATE_S:
            takes = spoken_seconds(round(scenario.workload.loading_s, 1))
            yield (*here, "when", "after"), f"the workload takes {takes}: this moment would never come"
        aim = "link" if isinstance(fault, LinkFault) else "target"
        yield from (((*here, "until"), message) for message in _until(scenario, fault))
        for message in (*_unknown_brokers(fault, brokers), *_absent(scenario, fault)):
            yield (*here, aim), message


def _tags(scenario: Scenario) -> Iterator[Wrong]:
    for number, tag in enumerate(scenario.tags):
        if tag in _TAKEN_TAGS:
            yield ("tags", number), f"{tag!r} means something to pytest already; choose another tag"


def _verifiers(scenario: Scenario) -> Iterator[Wrong]:
    for number, name in enumerate(scenario.verify):
        if name in scenario.verify[:number]:
            yield ("verify", number), f"{name!r} is here twice; keep one"
    for name in scenario.expect if isinstance(scenario.expect, Mapping) else ():
        if name not in scenario.verify:
            yield ("expect", name), f"{name!r} is expected to say something but is not in `verify`; add it there"


def _fault_names(scenario: Scenario) -> Iterator[Wrong]:
    names = Counter[str]()
    for number, fault in enumerate(scenario.faults):
        if names[fault.name]:
            yield ("faults", number, "name"), f"{fault.name!r} is the name of another fault of this scenario; names are unique"
        names[fault.name] += 1


def _until(scenario: Scenario, fault: Fault) -> Iterator[str]:
    others = [other.name for other in scenario.faults if other is not fault]
    if isinstance(fault, LinkFault) and fault.until is not None and fault.until not in others:
        yield f"there is no other fault {fault.until!r} in this scenario{did_you_mean(fault.until, others)}"


def _unknown_brokers(fault: Fault, brokers: int) -> Iterator[str]:
    for target in broker_targets(fault):
        if target.number > brokers:
            yield f"there is no {target}; the brokers are broker-1 to broker-{brokers}"


def _absent(scenario: Scenario, fault: Fault) -> Iterator[str]:
    """What the pipeline under test has no part in."""
    alone = isinstance(scenario.pipeline, FillSourcePipeline)
    targets = broker_targets(fault)
    if any(target.role == "transaction_coordinator" for target in targets) and not _transactional(scenario):
        yield "this pipeline uses no transactions: it has no transaction coordinator"
    if alone and any(target.topic == "datasink" for target in targets):
        yield "this pipeline writes to datasource only"
    if alone and isinstance(fault, CrashExecutor):
        yield "this pipeline runs on no Spark: there is no executor to crash"
    if alone and isinstance(fault, LinkFault) and fault.link.left == "spark":
        yield "this pipeline runs on no Spark: nothing would pass this link"


def _transactional(scenario: Scenario) -> bool:
    return isinstance(scenario.pipeline, SparkSquarePipeline) and scenario.pipeline.delivery == "exactly_once"
