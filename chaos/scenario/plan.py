"""Makes a schedule from a scenario and a seed: every fault gets a number, drawn before the run, that seeds its random choices.

A seed fixes the schedule, not the system: the same draw picks the same one of the same candidates, but the brokers decide
which of them leads a partition when the fault is injected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter

from chaos.faults.registry import Fault
from chaos.grammar.triggers import OnRequest, Progress
from chaos.scenario.model import Scenario

_FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of the schedule.

    Attributes:
        name: unique in the scenario.
        draw: seeds the random choices of this injection; it does not depend on other steps.
        by_chance: whether it was drawn for ``random:``. A declared fault must happen; a random one may find nothing to break.
    """

    name: str
    fault: Fault
    draw: int
    by_chance: bool = False

    @property
    def offset(self) -> float:
        """Delay of the injection after its trigger: a share, from 0 to 1, of the usual time between two growths.

        0 if the trigger is not on progress, or strikes when the output grows.
        """
        when = self.fault.when
        return _drawn(self.draw, "offset") / 2**32 if isinstance(when, Progress) and when.is_offset else 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The resolved plan of one run.

    Attributes:
        seed: the seed of the whole run; with it and the name of the scenario, `plan` repeats the draws.
        at_once: the number of faults that may be in force at the same time; None for any number.
    """

    scenario: str
    seed: int
    steps: tuple[Step, ...]
    at_once: int | None = None


def scenario_seed(run_seed: int, name: str) -> int:
    """Derive the seed of one scenario of a run; it does not depend on other scenarios."""
    return _drawn(run_seed, name)


def plan(scenario: Scenario, run_seed: int) -> Schedule:
    """Make the schedule of a scenario under the seed of a run.

    A draw depends only on the seed and on names: a fault that is added, removed or moved does not change the other draws.
    """
    seed = scenario_seed(run_seed, scenario.name)
    by_chance = tuple(scenario.random.drawn(seed, scenario.workload.loading_s)) if scenario.random else ()
    declared = [(fault, False) for fault in scenario.faults] + [(fault, True) for fault in by_chance]
    steps = tuple(Step(fault.name, fault, _drawn(seed, fault.name), chance) for fault, chance in declared)
    return Schedule(scenario.name, run_seed, steps, at_once=1 if by_chance else None)


def describe(schedule: Schedule) -> list[str]:
    """Describe each step in one line."""
    return [f"{_moment(step)}: {step.fault.describe()}{_outlasting(step)}" for step in schedule.steps]


def _outlasting(step: Step) -> str:
    outlasts = getattr(step.fault, "outlasts", ())
    return f", longer than {' and '.join(name.replace('_', ' ') for name in outlasts)}" if outlasts else ""


def _moment(step: Step) -> str:
    """Describe when a step strikes, with details that the text of its trigger leaves out."""
    when = step.fault.when
    if isinstance(when, OnRequest):
        on = f" on {when.link}" if when.link else ""
        return f"{when}{on}{', and is then lost' if when.then == 'lose' else ''}"
    later = f", {100 * step.offset:.0f} % of the way to the next growth" if step.offset else ""
    return f"{when}{later}"


def to_json(schedule: Schedule) -> dict[str, Any]:
    """Convert a schedule to JSON values; faults have units, as in a declaration. An offset follows from the draw."""
    steps = [
        {
            "name": step.name,
            "draw": step.draw,
            "by_chance": step.by_chance,
            **({"offset": round(step.offset, 4)} if step.offset else {}),
            "fault": step.fault.model_dump(mode="json"),
        }
        for step in schedule.steps
    ]
    return {"scenario": schedule.scenario, "seed": schedule.seed, "at_once": schedule.at_once, "steps": steps}


def from_json(value: Mapping[str, Any]) -> Schedule:
    """Read a schedule that `to_json` has written.

    Raises:
        KeyError: a key is missing.
        pydantic.ValidationError: a fault does not follow the grammar of this version.
    """
    steps = tuple(
        Step(step["name"], _FAULT.validate_python(step["fault"]), step["draw"], step.get("by_chance", False))
        for step in value["steps"]
    )
    return Schedule(value["scenario"], value["seed"], steps, value.get("at_once"))


def _drawn(seed: int, name: str) -> int:
    """Draw 32 bits that depend only on the seed and the name, on every machine and in every version of Python (blake2b)."""
    return int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=4).digest(), "big")
