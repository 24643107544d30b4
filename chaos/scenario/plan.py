"""From a seed to a schedule: the random choices of each fault have a number of their own, drawn before anything happens.

A seed fixes the schedule, not the world: the same draw picks the same one of the same candidates, but who leads a partition
at the moment of injection is up to the brokers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter

from chaos.faults.registry import Fault
from chaos.scenario.model import Scenario

_FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of the schedule.

    Attributes:
        name: unique in the scenario.
        draw: seeds the random choices of this injection, whatever the other steps do.
        by_chance: whether it was drawn for ``random:``; one that was declared must happen.
    """

    name: str
    fault: Fault
    draw: int
    by_chance: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """The resolved plan of one run.

    Attributes:
        seed: of the whole run; with it and the scenario's name `plan` gives the same draws again.
        at_once: how many faults may be in force at once; None for as many as are declared.
    """

    scenario: str
    seed: int
    steps: tuple[Step, ...]
    at_once: int | None = None


def scenario_seed(run_seed: int, name: str) -> int:
    """The seed of one scenario of a run, so that scenarios do not depend on which others run."""
    return _drawn(run_seed, name)


def plan(scenario: Scenario, run_seed: int) -> Schedule:
    """The schedule that a run's seed makes of a scenario.

    A draw hangs on the names alone: a fault that is added, removed or moved changes no other fault's draw.
    """
    seed = scenario_seed(run_seed, scenario.name)
    by_chance = tuple(scenario.random.drawn(seed, scenario.workload.loading_s)) if scenario.random else ()
    declared = [(fault, False) for fault in scenario.faults] + [(fault, True) for fault in by_chance]
    steps = tuple(Step(fault.name, fault, _drawn(seed, fault.name), chance) for fault, chance in declared)
    return Schedule(scenario.name, run_seed, steps, at_once=1 if by_chance else None)


def describe(schedule: Schedule) -> list[str]:
    """One line for each step."""
    return [f"{step.fault.when}: {step.fault.describe()}" for step in schedule.steps]


def to_json(schedule: Schedule) -> dict[str, Any]:
    """As JSON values; faults are written as they are declared, units included."""
    steps = [
        {"name": step.name, "draw": step.draw, "by_chance": step.by_chance, "fault": step.fault.model_dump(mode="json")}
        for step in schedule.steps
    ]
    return {"scenario": schedule.scenario, "seed": schedule.seed, "at_once": schedule.at_once, "steps": steps}


def from_json(value: Mapping[str, Any]) -> Schedule:
    """Back from JSON values.

    Raises:
        KeyError: something is missing.
        pydantic.ValidationError: a fault is none of this version's grammar.
    """
    steps = tuple(
        Step(step["name"], _FAULT.validate_python(step["fault"]), step["draw"], step.get("by_chance", False))
        for step in value["steps"]
    )
    return Schedule(value["scenario"], value["seed"], steps, value.get("at_once"))


def _drawn(seed: int, name: str) -> int:
    """32 bits that depend on nothing but the two (blake2b: the same on every machine and Python)."""
    return int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=4).digest(), "big")
