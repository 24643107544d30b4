"""Rows of one's own in a workload: `rows: {sql: …}`, `{file: …}`, `{python: …}` or `{command: […]}`; else integers are sent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from chaos.grammar.base import Declared, Location, shown
from chaos.loader import sources
from chaos.loader.declaration import PLACEHOLDERS
from chaos.subject.placeholders import partly_substituted

_KINDS = ("sql", "file", "python", "command")
Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _names_a_function(name: str) -> str:
    module, _, function = name.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"{shown(name)} does not name a function; write module:function, e.g. shop.testing:orders")
    return name


FunctionName = Annotated[Written, AfterValidator(_names_a_function)]


class Rows(Declared):
    """Where the rows come from that the loader writes: one of ``sql``, ``file``, ``python`` and ``command``.

    Attributes:
        sql: a query over ``ids``, whose column ``id`` counts from 0 to ``records`` - 1; the judge's Spark computes it.
        file: Parquet or JSON lines; the path begins at the folder of the scenarios file.
        python: ``module:function``, which yields rows and is given a seed.
        command: a loader of your own, word by word. It writes ``records`` records to the topic itself, and says what became of
            them (docs/adapters.md).
        folder: where the module is looked for first; it begins at the folder of the scenarios file too.
    """

    sql: Written | None = None
    file: Written | None = None
    python: FunctionName | None = None
    command: Annotated[tuple[Written, ...], Field(min_length=1)] | None = None
    folder: Written | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = f"this has {' and '.join(given)}" if given else "this has none of them"
            raise ValueError(f"rows come from one of sql, file, python and command, and {found}; write one of them")
        if self.folder is not None and self.python is None:
            raise ValueError("folder is where a module of python is looked for; leave it out")
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    @property
    def texts(self) -> Mapping[Location, tuple[str, tuple[str, ...]]]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        return {("command", number): (word, PLACEHOLDERS) for number, word in enumerate(self.command or ())}

    def below(self, folder: Path) -> Self:
        """The same with whole paths."""
        places: dict[str, Any] = {}
        if self.file is not None:
            places["file"] = str((folder / self.file).resolve())
        if self.python is not None:
            places["folder"] = str((folder / (self.folder or ".")).resolve())
        if self.command is not None:
            project = {"project": str(folder.resolve())}
            places["command"] = tuple(partly_substituted(word, project) for word in self.command)
        return self.model_copy(update=places)

    def problem(self, folder: Path) -> str:
        """Why they cannot be had, as far as that is known without asking Spark or running anything; "" if nothing is wrong."""
        if self.file is None:
            return ""
        wrong = sources.problem(Path(self.below(folder).file or ""))
        return f"{shown(self.file)} {wrong}; a path begins at the folder of this file, {folder.resolve()}" if wrong else ""

    def count(self) -> int | None:
        """How many rows a file has, once its path is whole; None where that is not known beforehand."""
        if self.file is None or sources.problem(Path(self.file)):
            return None
        return sources.count(Path(self.file))
