"""Where a system can run, and which faults are possible there: what is not is refused when the file is read, never skipped."""

from collections.abc import Iterator, Mapping

from chaos.faults.declared import Fault
from chaos.scenario.model import Scenario

EXTERNAL = "external"
RUNTIMES = ("local", "containers", EXTERNAL)
Wrong = tuple[tuple[str | int, ...], str]


def impossible(scenarios: Mapping[int, Scenario], runtime: str) -> Iterator[Wrong]:
    """Every fault that this runtime cannot inject, with its place in the file.

    Args:
        scenarios: place in the file -> what is declared there.
        runtime: one of `RUNTIMES`; "" when the file is only read, and everything is possible.
    """
    for number, scenario in scenarios.items():
        for place, fault in faults_of(scenario):
            if runtime and fault.needs not in ("", runtime):
                message = f"{fault.kind} is possible in {fault.needs} only: {fault.because}; use --chaos-runtime {fault.needs}"
                yield ("scenarios", number, *place, "kind"), message


def faults_of(scenario: Scenario) -> Iterator[tuple[tuple[str | int, ...], Fault]]:
    """Every fault that is declared, those by chance too, with its place in the scenario."""
    yield from ((("faults", number), fault) for number, fault in enumerate(scenario.faults))
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        yield ("random", "pick", number, "fault"), pick.fault
