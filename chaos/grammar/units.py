"""Quantities are written with their unit: ``5s``, ``400ms``, ``2m``; ``3000/s``; ``40%``; ``100B``, ``4KB``, ``64KB/s``.

A KB is 1000 bytes, as in Toxiproxy.
"""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from chaos.grammar.base import WrongValueError, shown

_NUMBER = r"([0-9]{1,6}(?:\.[0-9]{1,3})?)"
_DURATION = re.compile(rf"{_NUMBER}(ms|s|m)")
_RATE = re.compile(rf"{_NUMBER}/s")
_PERCENT = re.compile(rf"{_NUMBER}%")
_SIZE = re.compile(r"([0-9]{1,6})(B|KB|MB)")
_SPEED = re.compile(r"([0-9]{1,4})KB/s")
_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60)}
_BYTES = {"B": 1, "KB": 1000, "MB": 1_000_000}
_LONGEST_S = 3600
_LEAST_PERCENT, _MOST_PERCENT = 1, 99
_MOST_BYTES = 1_000_000  # with more, a fault could not be proved within a second
_MOST_KB_PER_S = 1000  # a faster limit would have no effect that can be measured


def seconds(text: Any) -> float:
    """A duration in seconds, read without rounding: ``text_of_seconds`` returns the same duration.

    Raises:
        ValueError: this is not a number with a unit, or more than an hour.
    """
    match = _matched(_DURATION, text)
    if match is None:
        raise WrongValueError(
            "not-a-duration", f"{shown(text)} is not a duration; write a number with a unit, e.g. 400ms, 5s or 2m"
        )
    value = Decimal(match[1]) * _SECONDS[match[2]]
    if value > _LONGEST_S:
        raise WrongValueError("duration-too-long", f"{text!r} is too long; the longest duration is one hour, 60m")
    return float(value)


def per_second(text: Any) -> float:
    """A rate in records per second.

    Raises:
        ValueError: this is not a number followed by ``/s``, or zero.
    """
    match = _matched(_RATE, text)
    if match is None or float(match[1]) == 0:
        raise WrongValueError("not-a-rate", f"{shown(text)} is not a rate; write records per second, e.g. 3000/s")
    return float(match[1])


def percent(text: Any) -> float:
    """A share of the workload, between 1 and 99.

    Raises:
        ValueError: this is not a number followed by ``%``, or out of range.
    """
    match = _matched(_PERCENT, text)
    if match is None or not _LEAST_PERCENT <= float(match[1]) <= _MOST_PERCENT:
        raise WrongValueError("not-a-share", f"{shown(text)} is not a share of the workload; write one from 1% to 99%")
    return float(match[1])


def size(text: Any) -> int:
    """A number of bytes, up to one MB.

    Raises:
        ValueError: this is not a number with a unit, zero, or too large.
    """
    match = _matched(_SIZE, text)
    if match is None or int(match[1]) == 0:
        raise WrongValueError("not-a-size", f"{shown(text)} is not a size; write a number with a unit, e.g. 100B or 4KB")
    value = int(match[1]) * _BYTES[match[2]]
    if value > _MOST_BYTES:
        raise WrongValueError("size-too-large", f"{text!r} is too large; the maximum is 1MB")
    return value


def speed(text: Any) -> int:
    """A speed in KB/s, up to 1000.

    Raises:
        ValueError: this is not a number with ``KB/s``, zero, or too fast.
    """
    match = _matched(_SPEED, text)
    if match is None or not 1 <= int(match[1]) <= _MOST_KB_PER_S:
        raise WrongValueError(
            "not-a-speed", f"{shown(text)} is not a speed; write whole kilobytes per second, from 1KB/s to 1000KB/s"
        )
    return int(match[1])


def text_of_seconds(value: float) -> str:
    """A duration as it is declared: ``5s``, ``400ms``."""
    return "".join(_number_and_unit(value))


def spoken_seconds(value: float) -> str:
    """A duration in prose: ``5 s``, ``400 ms``."""
    return " ".join(_number_and_unit(value))


def text_of_size(value: int) -> str:
    """A size as it is declared: ``4KB``, ``100B``."""
    unit = next(unit for unit in ("MB", "KB", "B") if value % _BYTES[unit] == 0)
    return f"{value // _BYTES[unit]}{unit}"


def text_of_speed(value: int) -> str:
    """A speed as it is declared: ``64KB/s``."""
    return f"{value}KB/s"


def _matched(pattern: re.Pattern[str], text: Any) -> re.Match[str] | None:
    return pattern.fullmatch(text) if isinstance(text, str) else None


def _number_and_unit(value: float) -> tuple[str, str]:
    milliseconds = Decimal(str(value)) * 1000
    whole = milliseconds == milliseconds.to_integral_value()
    in_seconds = value == 0 or (value >= 1 and whole)
    return (_digits(value), "s") if in_seconds else (_digits(milliseconds), "ms")


def _digits(value: Decimal | float) -> str:
    """The number without an exponent and without trailing zeros."""
    digits = f"{Decimal(str(value)):f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _not_zero(value: float) -> float:
    if value == 0:
        raise WrongValueError("zero-duration", "zero leaves no time for anything to happen; write e.g. 400ms, 5s or 2m")
    return value


def _schema(title: str, pattern: re.Pattern[str], example: str) -> WithJsonSchema:
    return WithJsonSchema({"title": title, "type": "string", "pattern": f"^{pattern.pattern}$", "examples": [example]})


Seconds = Annotated[float, BeforeValidator(seconds), PlainSerializer(text_of_seconds), _schema("duration", _DURATION, "5s")]
SomeSeconds = Annotated[Seconds, AfterValidator(_not_zero)]
PerSecond = Annotated[
    float, BeforeValidator(per_second), PlainSerializer(lambda value: f"{_digits(value)}/s"), _schema("rate", _RATE, "3000/s")
]
Percent = Annotated[
    float, BeforeValidator(percent), PlainSerializer(lambda value: f"{_digits(value)}%"), _schema("share", _PERCENT, "40%")
]
Size = Annotated[int, BeforeValidator(size), PlainSerializer(text_of_size), _schema("size", _SIZE, "4KB")]
Speed = Annotated[int, BeforeValidator(speed), PlainSerializer(text_of_speed), _schema("speed", _SPEED, "64KB/s")]


def text_of_setting(value: Any) -> Any:
    """A setting as Kafka and Spark write it: YAML reads ``true`` and ``4`` as other types."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value
