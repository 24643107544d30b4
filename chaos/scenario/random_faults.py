"""Faults by chance: what may happen, how often, and the schedule that a seed makes of it.

    random:
      every: 15s                      # a round: one of these, or nothing
      quiet: 25%                      # of the rounds (Jepsen's nemesis package leaves a quarter of them quiet)
      pick:
        - {weight: 3, fault: {kind: kill_broker, target: any}}
        - {fault: {kind: cut_link, link: "pipeline->any", for: 5s}}

All is drawn before anything happens, from the scenario's seed: the schedule is written down resolved. One fault is in force at
a time: a round waits until the one before it is healed and output has grown again. Rounds that are still waiting when all of
the workload is through are spared.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from chaos.faults.registry import Fault
from chaos.grammar.base import Declared
from chaos.grammar.triggers import After
from chaos.grammar.units import Percent, SomeSeconds, text_of_seconds


def _without_moment(value: Any) -> Any:
    """The moment is drawn, so none is declared."""
    if isinstance(value, Mapping) and "when" in value:
        raise ValueError("its moment is drawn: leave `when` out")
    if isinstance(value, Mapping) and ("until" in value or "name" in value):
        raise ValueError("it may come several times: leave `name` and `until` out")
    return {**value, "when": {"after": "0s"}} if isinstance(value, Mapping) else value


def _as_declared(fault: Fault) -> dict[str, Any]:
    """What can be read again."""
    return fault.model_dump(mode="json", exclude={"when", "until", "name"})


class Pick(Declared):
    """A fault that may come, and how often compared with the others."""

    weight: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    fault: Annotated[
        Fault,
        BeforeValidator(_without_moment),
        PlainSerializer(_as_declared),
        WithJsonSchema({"type": "object", "required": ["kind"]}),
    ]


class RandomFaults(Declared):
    """What may happen."""

    every_s: SomeSeconds = Field(alias="every")
    quiet: Percent = 25.0
    pick: Annotated[tuple[Pick, ...], Field(min_length=1)]

    def drawn(self, seed: int, lasts_s: float) -> Iterator[Fault]:
        """The faults of a workload of so many seconds, each with its name and moment; the last round leaves time to recover."""
        rng = Random(seed)  # noqa: S311 - a schedule, no secret
        weights = [pick.weight for pick in self.pick]
        for number in range(1, int(lasts_s / self.every_s)):
            quiet, (picked,) = rng.random() < self.quiet / 100, rng.choices(self.pick, weights)
            if not quiet:
                name, when = (
                    f"round-{number}-{picked.fault.kind}",
                    After(after=text_of_seconds(round(number * self.every_s, 3))),
                )
                yield picked.fault.model_copy(update={"name": name, "when": when})
