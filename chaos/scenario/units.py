"""Quantities carry their unit: ``5s``, ``400ms``, ``2m``; ``3000/s``; ``40%``."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)/s")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")


def seconds(text: Any) -> float:
    """A duration in seconds.

    Raises:
        ValueError: no number with a unit.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is no duration; write a number with a unit, e.g. 400ms, 5s or 2m")
    return float(match[1]) * _SECONDS[match[2]]


def per_second(text: Any) -> float:
    """A rate in records per second.

    Raises:
        ValueError: no number followed by ``/s``, or zero.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is no rate; write records per second, e.g. 3000/s")
    return float(match[1])


def percent(text: Any) -> float:
    """A share of the workload, between 1 and 99.

    Raises:
        ValueError: no number followed by ``%``, or out of range.
    """
    match = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    if match is None or not 1 <= float(match[1]) <= 99:  # noqa: PLR2004 - the sentence below says it
        raise ValueError(f"{text!r} is no progress; write a share of the workload from 1% to 99%")
    return float(match[1])


def text_of_seconds(value: float) -> str:
    """The shortest way to write a duration; `seconds` reads it back."""
    return f"{value:g}s" if value >= 1 or value == 0 else f"{value * 1000:g}ms"


Seconds = Annotated[float, BeforeValidator(seconds), PlainSerializer(text_of_seconds)]
PerSecond = Annotated[float, BeforeValidator(per_second), PlainSerializer(lambda value: f"{value:g}/s")]
Percent = Annotated[float, BeforeValidator(percent), PlainSerializer(lambda value: f"{value:g}%")]
