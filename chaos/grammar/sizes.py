"""Quantities of bytes carry their unit: ``100B``, ``4KB``, ``1MB``; ``64KB/s``. A KB is 1000 bytes, as in Toxiproxy."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from chaos.grammar.words import shown

_BYTES = {"B": 1, "KB": 1000, "MB": 1_000_000}
_SIZE = re.compile(r"([0-9]{1,6})(B|KB|MB)")
_SPEED = re.compile(r"([0-9]{1,4})KB/s")
_MOST_BYTES = 1_000_000
_MOST_KB_PER_S = 1000


def size(text: Any) -> int:
    """A number of bytes, up to one MB.

    Raises:
        ValueError: no number with a unit, zero, or too large to be proved in a second.
    """
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{shown(text)} is no size; write a number with a unit, e.g. 100B or 4KB")
    value = int(match[1]) * _BYTES[match[2]]
    if value > _MOST_BYTES:
        raise ValueError(f"{text!r} is too much; 1MB is the most")
    return value


def speed(text: Any) -> int:
    """A speed in KB/s, up to 1000.

    Raises:
        ValueError: no number with ``KB/s``, zero, or so fast that nobody would notice.
    """
    match = _SPEED.fullmatch(text) if isinstance(text, str) else None
    if match is None or not 1 <= int(match[1]) <= _MOST_KB_PER_S:
        raise ValueError(f"{shown(text)} is no speed; write whole kilobytes per second, from 1KB/s to 1000KB/s")
    return int(match[1])


def text_of_size(value: int) -> str:
    """A size as it is declared: ``4KB``, ``100B``."""
    unit = next(unit for unit in ("MB", "KB", "B") if value % _BYTES[unit] == 0)
    return f"{value // _BYTES[unit]}{unit}"


def text_of_speed(value: int) -> str:
    """A speed as it is declared: ``64KB/s``."""
    return f"{value}KB/s"


def _schema(pattern: re.Pattern[str], example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern.pattern}$", "examples": [example]})


Size = Annotated[int, BeforeValidator(size), PlainSerializer(text_of_size), _schema(_SIZE, "4KB")]
Speed = Annotated[int, BeforeValidator(speed), PlainSerializer(text_of_speed), _schema(_SPEED, "64KB/s")]
