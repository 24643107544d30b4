"""The grammar of `random`: faults by chance."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from chaos.faults.registry import Fault
from chaos.grammar.base import Declared, WrongValueError
from chaos.grammar.triggers import After
from chaos.grammar.units import Percent, SomeSeconds, text_of_seconds


def _without_trigger(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "when" in value:
        raise WrongValueError("when-of-random-fault", "a random fault strikes at a random time; leave `when` out")
    if "until" in value or "name" in value:
        raise WrongValueError("name-of-random-fault", "a random fault may happen several times; leave `name` and `until` out")
    return {**value, "when": {"after": "0s"}}


def _as_declared(fault: Fault) -> dict[str, Any]:
    """Dump the fault without the keys that `_without_trigger` refuses."""
    return fault.model_dump(mode="json", exclude={"when", "until", "name"})


class Pick(Declared):
    """A fault that may happen, and its weight in the draw."""

    weight: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    """how often this fault is drawn, compared with the others."""
    fault: Annotated[
        Fault,
        BeforeValidator(_without_trigger),
        PlainSerializer(_as_declared),
        WithJsonSchema({"title": "fault without `when`", "type": "object", "required": ["kind"]}),
    ]
    """as in ``faults``, but without ``when``, ``until`` and ``name``."""


class RandomFaults(Declared):
    """Random faults: which may happen, and how often; a seed decides when.

        random:
          every: 15s                      # a round has one fault of `pick`, or none
          quiet: 25%                      # the share of rounds without a fault (a quarter, as in Jepsen's nemesis package)
          pick:
            - {weight: 3, fault: {kind: kill_broker, target: any}}
            - {fault: {kind: cut_link, link: "pipeline->any", for: 5s}}

    Everything is drawn before the run, with the scenario's seed, and the schedule lists the result. Only one fault is in
    force at a time: a round waits until the fault before it is healed and the output has grown again. Rounds that are still
    waiting when the whole workload has passed are skipped.
    """

    every_s: SomeSeconds = Field(alias="every")
    """the length of a round."""
    quiet: Percent = 25.0
    """the share of rounds without a fault."""
    pick: Annotated[tuple[Pick, ...], Field(min_length=1)]
    """the faults to draw from."""

    def drawn(self, seed: int, lasts_s: float) -> Iterator[Fault]:
        """Draw the faults for a workload of so many seconds, with names and triggers; the last round leaves time to recover."""
        rng = Random(seed)  # noqa: S311 - this is not a secret
        weights = [pick.weight for pick in self.pick]
        for number in range(1, int(lasts_s / self.every_s)):
            quiet, (picked,) = rng.random() < self.quiet / 100, rng.choices(self.pick, weights)
            if not quiet:
                when = After(after=text_of_seconds(round(number * self.every_s, 3)))
                yield picked.fault.model_copy(update={"name": f"round-{number}-{picked.fault.kind}", "when": when})
