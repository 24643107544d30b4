"""Types for texts of a declaration: a text with placeholders, or a path that begins at the scenarios file.

    run: tuple[Annotated[Word, Template()], ...]
    application: Annotated[Word, ProjectPath()]

One function finds these texts at any depth of a declaration, so no class lists its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, StringConstraints

from chaos.common.errors import one_line
from chaos.contract.placeholders import partly_substituted, substituted
from chaos.grammar.base import Location, Message

M = TypeVar("M", bound=BaseModel)
_PROJECT = "project"
Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Text(NamedTuple):
    """A text with placeholders, and the placeholders that are known there beside the names of topics."""

    text: str
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """Marks a text with placeholders.

    Attributes:
        known: the known placeholders; None for all of the kind of pipeline.
        more: further placeholders.
    """

    known: tuple[str, ...] | None = None
    more: tuple[str, ...] = ()

    def placeholders(self, of_kind: tuple[str, ...]) -> tuple[str, ...]:
        known = of_kind if self.known is None else self.known
        return tuple(dict.fromkeys((*known, *self.more)))


@dataclass(frozen=True, slots=True)
class ProjectPath:
    """Marks a path that begins at the folder of the scenarios file."""


Mark = Template | ProjectPath
Change = Callable[[Location, str, Mark], str]


def texts_of(declared: BaseModel, of_kind: tuple[str, ...] = ()) -> dict[Location, Text]:
    """Find the texts with placeholders: place -> the text, and its known placeholders beside topics.

    Args:
        of_kind: the placeholders of a text whose mark names none.
    """
    found: dict[Location, Text] = {}

    def note(place: Location, text: str, mark: Mark) -> str:
        if isinstance(mark, Template):
            found[place] = Text(text, mark.placeholders(of_kind))
        return text

    _changed((), declared, note)
    return found


def paths_of(declared: BaseModel) -> tuple[str, ...]:
    """Find all paths that begin at the folder of the scenarios file."""
    found: list[str] = []

    def note(_place: Location, text: str, mark: Mark) -> str:
        if isinstance(mark, ProjectPath):
            found.append(text)
        return text

    _changed((), declared, note)
    return tuple(found)


def below(declared: M, folder: Path, of_kind: tuple[str, ...] = ()) -> M:
    """Resolve paths, and replace ``{project}`` by the folder of the scenarios file.

    A part that has a method ``below`` of its own resolves itself.
    """
    project = {_PROJECT: str(folder.resolve())}

    def place(_place: Location, text: str, mark: Mark) -> str:
        if isinstance(mark, ProjectPath):
            return str((folder / text).resolve())
        return partly_substituted(text, project) if _PROJECT in mark.placeholders(of_kind) else text

    parts = {name: getattr(declared, name) for name in type(declared).model_fields}
    own = {name: part.below(folder) for name, part in parts.items() if hasattr(part, "below")}
    return _changed((), declared, place).model_copy(update=own)


def of_run(declared: M, known: Mapping[str, str]) -> M:
    """Replace placeholders by their values in a run."""
    return _changed((), declared, lambda _place, text, mark: substituted(text, known) if isinstance(mark, Template) else text)


def not_a_folder(path: str, folder: Path) -> Message:
    """Report a path that is not a folder; it begins at the folder of the scenarios file."""
    return Message(
        "not-a-folder", f"{one_line(path)} is not a folder; a path begins at the folder of this file, {folder.resolve()}"
    )


def _changed(place: Location, declared: M, change: Change) -> M:
    """Replace the marked texts of a declaration; an empty text means none, and stays."""
    update = {}
    for name, field in type(declared).model_fields.items():
        before = getattr(declared, name)
        after = _walked((*place, field.alias or name), before, field.annotation, tuple(field.metadata), change)
        if after != before:
            update[name] = after
    return declared.model_copy(update=update) if update else declared


def _walked(place: Location, value: Any, hint: Any, marks: tuple[Any, ...], change: Change) -> Any:
    """Replace the marked texts of a value; `hint` and `marks` come from its annotation."""
    if get_origin(hint) is Annotated:
        hint, *inner = get_args(hint)
        return _walked(place, value, hint, (*inner, *marks), change)
    if isinstance(value, str):
        mark = next((one for one in marks if isinstance(one, Mark)), None)
        if mark is not None:
            return change(place, value, mark) if value else value
    if isinstance(value, BaseModel):
        return _changed(place, value, change)
    return _inside(place, value, hint, change)


def _inside(place: Location, value: Any, hint: Any, change: Change) -> Any:
    """Replace the marked texts in a collection."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        for part in parts:  # one of them fits the value
            value = _walked(place, value, part, (), change)
    elif kind is tuple and isinstance(value, tuple):
        return tuple(_walked((*place, number), one, parts[0], (), change) for number, one in enumerate(value))
    elif kind is dict and isinstance(value, Mapping):
        return {name: _walked((*place, name), one, parts[1], (), change) for name, one in value.items()}
    return value
