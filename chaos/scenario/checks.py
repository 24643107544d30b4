"""What the grammar alone cannot say: names that occur twice, targets that cannot be, moments that cannot come."""

from collections import Counter
from collections.abc import Iterator, Mapping

from chaos.faults.declared import Fault
from chaos.grammar.base import did_you_mean
from chaos.grammar.triggers import After, OnRequest
from chaos.grammar.units import spoken_seconds
from chaos.scenario import limits
from chaos.scenario.model import Scenario, Workload
from chaos.scenario.reach import unreachable

Wrong = tuple[tuple[str | int, ...], str]
_LATE_S = 60.0
_MAX_LOADING_S = 600.0
# With these marks pytest would skip the scenario, run it several times, or not know what `-m` selects.
_SPECIAL_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "timeout", "tryfirst", "trylast")
_MISSPELT_MARKS = ("parameterize", "parametrise", "parameterise")  # pytest refuses these by name
_OTHER_TESTS = ("chaos", "integration")
_OPERATORS = ("and", "or", "not")
_TAKEN_TAGS = frozenset((*_SPECIAL_MARKS, *_MISSPELT_MARKS, *_OTHER_TESTS, *_OPERATORS))


def check(scenarios: Mapping[int, Scenario], brokers: int, workers: int) -> Iterator[Wrong]:
    """Every mistake, with its place.

    Args:
        scenarios: place in the file -> what is declared there; those that break the grammar are left out.
        brokers, workers: how many there are.
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
        for location, message in _scenario(scenario, brokers, workers):
            yield (*here, *location), message


def _scenario(scenario: Scenario, brokers: int, workers: int) -> Iterator[Wrong]:
    yield from _tags(scenario)
    yield from _workload(scenario.workload)
    yield from _verifiers(scenario)
    yield from _fault_names(scenario)
    yield from limits.beyond(scenario, brokers)
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        for place, message in unreachable(scenario, pick.fault, brokers, workers):
            yield ("random", "pick", number, "fault", *place), message
    for number, fault in enumerate(scenario.faults):
        here = ("faults", number)
        if isinstance(fault.when, After) and fault.when.after_s > scenario.workload.loading_s + _LATE_S:
            takes = spoken_seconds(round(scenario.workload.loading_s, 1))
            yield (*here, "when", "after"), f"the workload takes {takes}: this moment would never come"
        for place, message in (*_others(scenario, fault), *unreachable(scenario, fault, brokers, workers)):
            yield (*here, *place), message


def _tags(scenario: Scenario) -> Iterator[Wrong]:
    for number, tag in enumerate(scenario.tags):
        if tag in _TAKEN_TAGS:
            yield ("tags", number), f"{tag!r} means something to pytest already; choose another tag"


def _workload(workload: Workload) -> Iterator[Wrong]:
    """What is declared runs in every night; a soak is made longer on the command line."""
    if workload.loading_s > _MAX_LOADING_S:
        takes = f"{workload.records} records at {workload.rate_per_s:g}/s take {workload.loading_s:.0f} s"
        yield ("workload",), f"{takes}; a workload must end within 10 minutes: fewer records, or a higher rate"


def _verifiers(scenario: Scenario) -> Iterator[Wrong]:
    for number, name in enumerate(scenario.verify):
        if name in scenario.verify[:number]:
            yield ("verify", number), f"{name!r} is here twice; keep one"
    if scenario.expect == "not_sent" and not any(isinstance(fault.when, OnRequest) for fault in scenario.faults):
        yield ("expect",), "no fault waits for a request: which one is not sent? Write when: {request: EndTxn}"
    for name in scenario.expect if isinstance(scenario.expect, Mapping) else ():
        if name not in scenario.verify:
            yield ("expect", name), f"{name!r} is expected to say something but is not in `verify`; add it there"


def _fault_names(scenario: Scenario) -> Iterator[Wrong]:
    names = Counter[str]()
    for number, fault in enumerate(scenario.faults):
        if names[fault.name]:
            yield ("faults", number, "name"), f"{fault.name!r} is the name of another fault of this scenario; names are unique"
        names[fault.name] += 1


def _others(scenario: Scenario, fault: Fault) -> Iterator[tuple[tuple[str, ...], str]]:
    """Other faults of the scenario that this one names."""
    names = [other.name for other in scenario.faults if other is not fault]
    wanted = {
        ("until",): getattr(fault, "until", None),
        ("when", "fault"): getattr(fault.when, "fault", None),
        ("when", "since"): getattr(fault.when, "since", None),
    }
    for place, name in wanted.items():
        if name is not None and name not in names:
            yield place, f"there is no other fault {name!r} in this scenario{did_you_mean(name, names)}"
