"""Rows of one's own in a workload: `rows: {sql: …}`, `{file: …}`, `{python: …}`, `{generator: …}` or `{command: […]}`.

Without them, integers are sent.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from chaos.common.errors import one_line
from chaos.common.plugins import called_wrongly
from chaos.grammar.base import Declared, Location, Message, Problem, WrongValueError, did_you_mean, shown
from chaos.grammar.units import text_of_setting
from chaos.loader import generators, sources
from chaos.loader.declaration import PLACEHOLDERS
from chaos.subject.placeholders import partly_substituted

_KINDS = ("sql", "file", "python", "generator", "command")
FOLDER_WITHOUT_PYTHON = Message("folder-without-python", "folder is where a module of python is looked for; leave it out")
Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _names_a_function(name: str) -> str:
    module, _, function = name.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise WrongValueError(
            "not-a-function", f"{shown(name)} does not name a function; write module:function, e.g. shop.testing:orders"
        )
    return name


FunctionName = Annotated[Written, AfterValidator(_names_a_function)]


class Rows(Declared):
    """Where the rows come from that the loader writes: one of ``sql``, ``file``, ``python``, ``generator`` and ``command``.

    Attributes:
        sql: a query over ``ids``, whose column ``id`` counts from 0 to ``records`` - 1; the judge's Spark computes it.
        file: Parquet or JSON lines; the path begins at the folder of the scenarios file.
        python: ``module:function``, which yields rows and is given a seed.
        generator: a function that an installed package has added (docs/plugins.md), by its name.
        arguments: what the function of ``python`` or the generator is given beside the seed, by name.
        command: a loader of your own, word by word. It writes ``records`` records to the topic itself, and says what became of
            them (docs/adapters.md).
        environment: variables of that loader.
        working_directory: where that loader runs; the path begins at the folder of the scenarios file. The default is the
            folder of the run.
        folder: where the module is looked for first; it begins at the folder of the scenarios file too.
    """

    sql: Written | None = None
    file: Written | None = None
    python: FunctionName | None = None
    generator: Written | None = None
    arguments: dict[str, Annotated[JsonValue, Field(title="value")]] = Field(alias="with", default_factory=dict)
    command: Annotated[tuple[Written, ...], Field(min_length=1)] | None = None
    environment: dict[str, Annotated[str, BeforeValidator(text_of_setting)]] = Field(default_factory=dict)
    working_directory: Written | None = None
    folder: Written | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = f"this has {' and '.join(given)}" if given else "this has none of them"
            raise WrongValueError(
                "rows-not-one-kind",
                f"rows come from one of {', '.join(_KINDS[:-1])} and {_KINDS[-1]}, and {found}; write one of them",
            )
        if self.folder is not None and self.python is None:
            raise WrongValueError(FOLDER_WITHOUT_PYTHON.code, FOLDER_WITHOUT_PYTHON)
        if self.arguments and self.python is None and self.generator is None:
            raise WrongValueError("with-without-generator", "with are arguments of python or of a generator; leave it out")
        for key in ("environment", "working_directory"):
            if getattr(self, key) and self.command is None:
                raise WrongValueError("key-without-command", f"{key} is that of a command; leave it out")
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    @property
    def texts(self) -> Mapping[Location, tuple[str, tuple[str, ...]]]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        return {
            **{("command", number): (word, PLACEHOLDERS) for number, word in enumerate(self.command or ())},
            **{("environment", name): (value, PLACEHOLDERS) for name, value in self.environment.items()},
        }

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
            places["environment"] = {name: partly_substituted(value, project) for name, value in self.environment.items()}
        if self.working_directory is not None:
            places["working_directory"] = str((folder / self.working_directory).resolve())
        return self.model_copy(update=places)

    def problems(self, folder: Path) -> Iterator[Problem]:
        """Why they cannot be had, as far as that is known without asking Spark or running anything."""
        begins = f"a path begins at the folder of this file, {folder.resolve()}"
        if self.file is not None and (wrong := sources.problem(Path(self.below(folder).file or ""))):
            yield ("file",), Message("unusable-file", f"{shown(self.file)} {wrong}; {begins}")
        if self.working_directory is not None and not os.path.isdir(folder / self.working_directory):  # noqa: PTH112 - it takes any path
            yield ("working_directory",), not_a_folder(self.working_directory, folder)
        if self.generator is not None:
            yield from of_function("generator", self.generator, generators.PLUGINS.things, 1, self.arguments)

    def count(self) -> int | None:
        """How many rows a file has, once its path is whole; None where that is not known beforehand."""
        if self.file is None or sources.problem(Path(self.file)):
            return None
        return sources.count(Path(self.file))


def not_a_folder(path: str, folder: Path) -> Message:
    """That a path of a file in this folder leads to no other folder."""
    return Message(
        "not-a-folder", f"{one_line(path)} is not a folder; a path begins at the folder of this file, {folder.resolve()}"
    )


def of_function(
    kind: str, name: str, there: Mapping[str, Callable[..., Any]], given: int, arguments: Mapping[str, Any]
) -> Iterator[Problem]:
    """Why no installed package has added a function of this name, or why it cannot be called so.

    Args:
        kind: what such a function is called, which is also its key.
        there: the functions that were added.
        given: how many arguments it always gets, before those by name, which stand in ``with``.
    """
    if name not in there:
        known = f"there are: {', '.join(there)}" if there else "no package that is installed has added any"
        yield (kind,), Message("no-such-function", f"there is no {kind} {shown(name)}{did_you_mean(name, there)}; {known}")
    elif wrong := called_wrongly(name, there[name], given, arguments):
        yield (("with",) if arguments else (kind,)), Message("called-wrongly", wrong)
