"""What every declared value is: frozen, without unknown keys; and how an error shows a value and suggests a word."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
FaultName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+(-[a-z0-9_]+)*$")]
Tag = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Stream = Literal["up", "down", "both"]
Location = tuple[str | int, ...]


class Declared(BaseModel):
    """Frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Mistake:
    """One error.

    Attributes:
        location: keys and indices that lead to it.
        at_key: whether the key is wrong, not its value.
    """

    location: Location
    message: str
    at_key: bool = False


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`` (did you mean gaps?)``, whatever the case of letters; nothing when nothing is close."""
    spelled = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), spelled, n=1) if isinstance(word, str) else []
    return f" (did you mean {spelled[close[0]]}?)" if close else ""


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
