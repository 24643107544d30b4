"""The base of every kind of sink, and of every kind of table.

A table is read once, when the job has ended, by the job's own Spark with the job's packages and settings: another version of
Spark often cannot read it. That process runs a function of `chaos.contract.read_table`, which the kind of table names.

`expected` defines the rows of a table, with the table's columns. Rows of a table have no offsets, no order and no transactions,
so they are judged as a multiset: duplicates, gaps, values.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from chaos.contract.placeholders import names_in
from chaos.grammar.base import Message, Problem
from chaos.scenario import texts
from chaos.scenario.expected import missing_rows
from chaos.scenario.one_of import KindByKey
from chaos.scenario.texts import Template, Written
from chaos.scenario.topics import TopicSpecs
from chaos.scenario.verifiers import PRECEDENCE

PLACEHOLDERS = ("folder", "checkpoint", "source", "prefix", "suffix", "project")
OF_A_RUN = ("folder", "checkpoint", "suffix")
"""Placeholders that differ between runs: without one of them, all runs would write one table."""
NOT_ASKED = "the sink is a table, whose rows have neither offsets nor transactions"
"""Why verifiers of logs do not run."""
OF_LOGS_ONLY = ("atomicity", "offsets", "stability", "hanging", "commits", PRECEDENCE)
Place = Annotated[Written, Template(PLACEHOLDERS)]
_NUMBER = re.compile(r"\d+")


class SinkBase(KindByKey):
    """The sink of a pipeline. The defaults are for a kind that has nothing; a kind overrides what it has."""

    @property
    def readers(self) -> tuple[str, ...]:
        """Functions of other packages that it names."""
        return ()

    @property
    def table(self) -> "TableSink | None":
        """The sink, if it is a table; None for a topic."""
        return None

    def not_asked(self, topics: TopicSpecs) -> Mapping[str, str]:  # noqa: ARG002 - it needs no topics
        """Verifiers that have nothing to judge here, with the reason."""
        return {}

    def problems(self, pipeline: Any) -> Iterator[Problem]:  # noqa: ARG002 - it asks for nothing
        """Find mistakes in a pipeline that writes it, beside its topics, with places in the pipeline's declaration."""
        yield from ()


class TableSink(SinkBase):
    """A table that a Spark job writes in place of a topic."""

    FORMAT: ClassVar[str]
    """The format for `chaos.contract.read_table`."""
    topic: ClassVar[str] = ""
    routing: ClassVar[None] = None
    form: ClassVar[Literal["log"]] = "log"

    @property
    def table(self) -> "TableSink":
        return self

    @property
    def place(self) -> str:
        """The path or the name of the table."""
        return str(getattr(self, self.kind))

    @property
    def options(self) -> Mapping[str, str]:
        """Options of Spark's reader."""
        return {}

    @property
    def spec(self) -> dict[str, Any]:
        """The specification for `chaos.contract.read_table`."""
        reading = {"format": self.FORMAT, "place": self.place, "options": dict(self.options)}
        return {**reading, "password_in": "", "arguments": {}}

    @property
    def spoken(self) -> str:
        """The table, in a sentence."""
        return f"a table of {self.kind}"

    @property
    def tells_versions(self) -> bool:
        """Whether files show at once that rows were added."""
        return False

    def versions(self) -> int:
        """Count the additions of rows so far; 0 if there is no table yet, or if files do not show additions."""
        return 0

    def of_run(self, known: Mapping[str, str]) -> Self:
        """Replace placeholders by their values in a run."""
        return texts.of_run(self, known)

    def not_asked(self, topics: TopicSpecs) -> Mapping[str, str]:  # noqa: ARG002
        return dict.fromkeys(OF_LOGS_ONLY, NOT_ASKED)

    def mend(self, problem: str) -> str:
        """Advise on a table that cannot be read.

        Args:
            problem: the kind of problem, as the reader names it.
        """
        match problem:
            case "absent":
                return "does the pipeline write elsewhere? {sink} in its arguments is the table's place; see logs/pipeline.log"
            case "lacking":
                return f"the job's Spark lacks {self.needs}: name its package in packages, for this version of Spark and Scala"
            case "other":
                return "a package is for another version of Spark or Scala; see logs/table.log"
            case _:
                return self.look

    @property
    def needs(self) -> str:
        """The part that a package must bring."""
        return f"a reader for {self.kind}"

    @property
    def look(self) -> str:
        """Advice if reading fails for another reason."""
        return "see logs/table.log"

    def problems(self, pipeline: Any) -> Iterator[Problem]:
        said = "a table needs a definition of its rows; write expected: {sql: SELECT …}, or {python: module:function}"
        yield from missing_rows(pipeline, "table-without-expected", said)
        if pipeline.positions != "checkpoint":
            why = "only its checkpoint shows how far a job that writes a table is"
            yield ("positions",), Message("positions-of-table", f"{why}; leave positions out: the default is the checkpoint")
        own = [text for text, _ in texts.texts_of(self).values()]
        where = [*own, *self.places_beside(pipeline)]
        if own and not any(name in OF_A_RUN for text in where for name in names_in(text)):
            known = ", ".join(f"{{{name}}}" for name in OF_A_RUN)
            said = f"all runs would write this one table; put {{folder}} or {{suffix}} into it (one of {known})"
            yield ("sink", self.kind), Message("one-table-for-all", said)

    def places_beside(self, pipeline: Any) -> tuple[str, ...]:  # noqa: ARG002 - it has none
        """Return further texts of the pipeline that may contain the place of the table."""
        return ()


class FileTable(TableSink):
    """A table in a folder, whose files show how often rows were added."""

    @property
    def tells_versions(self) -> bool:
        return True

    def versions(self) -> int:
        return self.counted(Path(self.place.removeprefix("file:"))) if self.tells_versions else 0

    def counted(self, folder: Path) -> int:
        """Count the additions of rows to the table in this folder."""
        raise NotImplementedError


def after_last(folder: Path, pattern: str) -> int:
    """Return the number after the highest one that begins the name of a log's file; 0 if there is none."""
    numbers = (_NUMBER.match(file.name.removeprefix("v")) for file in folder.glob(pattern) if not file.name.startswith("."))
    return 1 + max((int(number[0]) for number in numbers if number), default=-1)
