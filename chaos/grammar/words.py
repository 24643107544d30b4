"""How errors speak: what was found, and what was perhaps meant."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

_LONGEST = 60


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`` (did you mean gaps?)``, or nothing when nothing is close."""
    close = get_close_matches(word.lower(), [*known], n=1) if isinstance(word, str) else []
    return f" (did you mean {close[0]}?)" if close else ""


def shown(value: Any) -> str:
    """A value from the file, in one short line."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return _cut(str(value))
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return _cut(repr(str(value)))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
