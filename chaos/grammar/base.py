"""The base class of all declarations, a mistake with its location, and the parts of its message."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$"), Field(title="lower-case words with hyphens")]
FaultName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+(-[a-z0-9_]+)*$"), Field(title="name of a fault")]
Tag = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$"), Field(title="lower-case word")]
Stream = Literal["up", "down", "both"]
Location = tuple[str | int, ...]


class Message(str):
    """The text of a mistake, and its code: a few words with hyphens, which stay when the text is reworded.

    A code belongs to one place in the source, so it also identifies the check that found the mistake.
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Self:
        message = super().__new__(cls, text)
        message.code = code
        return message


Problem = tuple[Location, Message]
"""The location of a mistake in a declaration, and its message."""


class WrongValueError(ValueError):
    """A value that a validator refuses, with the code of the mistake. A plain ValueError is reported too, as `WRONG_VALUE`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


WRONG_VALUE = "wrong-value"
"""Code of a mistake that an installed package reports without a code of its own."""


class Declared(BaseModel):
    """Base of all declarations: frozen, and an unknown key is an error.

    The docstring under a field describes its key. A subclass in which a key means something special declares the field again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, use_attribute_docstrings=True)


_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Mistake:
    """One error in a file.

    Attributes:
        location: the keys and indices that lead to it.
        at_key: whether the key itself is wrong, rather than its value.
    """

    location: Location
    message: Message
    at_key: bool = False


def as_line(place: object, message: Message) -> str:
    """Format a mistake for printing: its place, its text and its code."""
    return f"{place}: {message} [{message.code}]"


def within(place: Location, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Prefix the locations of these problems with a place."""
    return (((*place, *location), message) for location, message in problems)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return `` (did you mean gaps?)``, ignoring case, or an empty text when no known word is close."""
    spelled = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), spelled, n=1) if isinstance(word, str) else []
    return f" (did you mean {spelled[close[0]]}?)" if close else ""


def shown(value: Any) -> str:
    """Format a value from the file as one short line of an error message."""
    match value:
        case None:
            return "an empty value"
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
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
