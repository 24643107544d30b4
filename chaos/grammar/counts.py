"""Predicted counts of an anomaly, in a scenario's ``expect``.

========  =============================================================================
3         three times, and none of another kind
100..400  at least 100 times and at most 400, and none of another kind
100..     at least 100 times, and none of another kind
some      once or more, whatever else the verifier finds
========  =============================================================================

A range may begin at 0 where another anomaly of the same verifier must be found.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from chaos.grammar.base import WrongValueError, shown

SOME: Literal["some"] = "some"
_RANGE = re.compile(r"^(\d{1,9})\.\.(\d{1,9})?$")


def _count(value: Any) -> Any:
    if value == SOME or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    if not isinstance(value, str) or ".." not in value:
        raise WrongValueError("not-a-count", f"{shown(value)} is not a count; write a whole number from 1 on, or some")
    low, high = _bounds(value)
    if high is not None and (high < low or high == 0):
        raise WrongValueError("empty-range", f"{shown(value)} is an empty range; write the lower bound first, e.g. 100..400")
    return value


def _bounds(text: str) -> tuple[int, int | None]:
    """Return the inclusive bounds; the upper one is None for an open range."""
    found = _RANGE.match(text)
    if found is None:
        raise WrongValueError("not-a-range", f"{shown(text)} is not a range; write e.g. 100..400, or 100.. for at least 100")
    return int(found[1]), int(found[2]) if found[2] else None


def _one_must_be_found(counts: Mapping[str, int | str]) -> Mapping[str, int | str]:
    if all(fits(wanted, 0) for wanted in counts.values()):
        raise WrongValueError(
            "all-may-be-zero", "every range here includes 0, so nothing has to be found; let at least one begin above 0"
        )
    return counts


def fits(wanted: int | str, found: int) -> bool:
    """Whether an anomaly was found as often as predicted."""
    if isinstance(wanted, int):
        return found == wanted
    low, high = (1, None) if wanted == SOME else _bounds(wanted)
    return found >= low and (high is None or found <= high)


Count = Annotated[
    int | Literal["some"] | Annotated[str, StringConstraints(pattern=_RANGE.pattern)],
    BeforeValidator(_count),
]
Counts = Annotated[dict[str, Count], Field(min_length=1), AfterValidator(_one_must_be_found)]
