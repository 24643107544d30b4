"""Moments: when a fault is injected."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from chaos.scenario.declared import Declared
from chaos.scenario.units import Percent, Seconds, spoken_seconds
from chaos.scenario.words import did_you_mean, shown


class After(Declared):
    """`after: 5s`, counted from the moment when output flows."""

    after_s: Seconds = Field(alias="after")

    def __str__(self) -> str:
        return f"{spoken_seconds(self.after_s)} after output flows"


class Progress(Declared):
    """`progress: 40%` of the workload committed at the pipeline's output."""

    percent: Percent = Field(alias="progress")

    def __str__(self) -> str:
        return f"at {self.percent:g} % of the workload"


def _one_trigger(value: Any) -> Any:
    """Tell the two apart by their key, so that errors speak of one of them."""
    if isinstance(value, After | Progress):
        return value
    keys = list(value) if isinstance(value, Mapping) else []
    unknown = [key for key in keys if key not in _TRIGGERS]
    if unknown:
        raise ValueError(f"there is no trigger {shown(unknown[0])}{did_you_mean(unknown[0], _TRIGGERS)}; {_TRIGGERS_HELP}")
    if len(keys) != 1:
        raise ValueError(f"a trigger has exactly one key; {_TRIGGERS_HELP}")
    return (After if keys == ["after"] else Progress).model_validate(value)


_TRIGGERS = ("after", "progress")
_TRIGGERS_HELP = "write {after: 5s} or {progress: 40%}"
When = Annotated[After | Progress, BeforeValidator(_one_trigger)]
