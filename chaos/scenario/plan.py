"""From a seed to a schedule: every random choice has a number of its own, drawn before anything happens.

A seed fixes the schedule, not the world: the same draw picks the same one of the same candidates, but who leads a partition
at the moment of injection is up to the brokers.
"""

import random
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter

from chaos.scenario.model import Fault, Scenario

_FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of the schedule.

    Attributes:
        name: unique in the scenario.
        draw: seeds the random choices of this injection, whatever the other steps do.
    """

    name: str
    fault: Fault
    draw: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The resolved plan of one run."""

    scenario: str
    seed: int
    steps: tuple[Step, ...]


def scenario_seed(run_seed: int, name: str) -> int:
    """The seed of one scenario of a run, so that scenarios do not depend on which others run."""
    digest = blake2b(f"{run_seed}/{name}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def plan(scenario: Scenario, run_seed: int) -> Schedule:
    """The schedule that a run's seed makes of a scenario."""
    draws = random.Random(scenario_seed(run_seed, scenario.name))  # noqa: S311 - a schedule, no secret
    steps = tuple(Step(fault.name, fault, draws.getrandbits(32)) for fault in scenario.faults)
    return Schedule(scenario.name, run_seed, steps)


def describe(schedule: Schedule) -> list[str]:
    """One line for each step."""
    return [f"{step.fault.when}: {step.fault.what}" for step in schedule.steps]


def to_json(schedule: Schedule) -> dict[str, Any]:
    """As JSON values."""
    steps = [{"name": step.name, "draw": step.draw, "fault": step.fault.model_dump(mode="json", by_alias=True)} for step in schedule.steps]
    return {"scenario": schedule.scenario, "seed": schedule.seed, "steps": steps}


def from_json(value: dict[str, Any]) -> Schedule:
    """Back from JSON values."""
    steps = tuple(Step(step["name"], _FAULT.validate_python(step["fault"]), step["draw"]) for step in value["steps"])
    return Schedule(value["scenario"], value["seed"], steps)
