"""What the framework asks of every kind of sink, and of every kind of table.

A table is read once, when the job has ended, by the job's own Spark with the job's packages and settings: another version of
Spark often cannot read it. That process runs a function of `chaos.contract.read_table`, which the kind of table names.

What must be in a table is said by `expected`, whose rows have the table's columns. Its rows have no offsets, no order and no
transactions, so they are judged as a multiset: duplicates, gaps, values.
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
"""Placeholders that are of one run only: without one of them, all runs would write one table."""
NOT_ASKED = "the sink is a table, whose rows have neither offsets nor transactions"
"""Why verifiers of logs are not asked."""
OF_LOGS_ONLY = ("atomicity", "offsets", "stability", "hanging", "commits", PRECEDENCE)
Place = Annotated[Written, Template(PLACEHOLDERS)]
_NUMBER = re.compile(r"\d+")


class SinkBase(KindByKey):
    """What a pipeline writes. What is said here holds for one that has nothing, and a kind overrides what it has."""

    @property
    def readers(self) -> tuple[str, ...]:
        """Functions of other packages that it names."""
        return ()

    @property
    def table(self) -> "TableSink | None":
        """None for a topic."""
        return None

    def not_asked(self, topics: TopicSpecs) -> Mapping[str, str]:  # noqa: ARG002 - it needs no topics
        """Verifiers that have nothing to judge here, with the reason."""
        return {}

    def problems(self, pipeline: Any) -> Iterator[Problem]:  # noqa: ARG002 - it asks for nothing
        """What is wrong with a pipeline that writes it, beside its topics, with places in the pipeline's declaration."""
        yield from ()


class TableSink(SinkBase):
    """A table that a Spark job writes in place of a topic."""

    FORMAT: ClassVar[str]
    """What `chaos.contract.read_table` reads it as."""
    topic: ClassVar[str] = ""
    routing: ClassVar[None] = None
    form: ClassVar[Literal["log"]] = "log"

    @property
    def table(self) -> "TableSink":
        return self

    @property
    def place(self) -> str:
        """A path or a name."""
        return str(getattr(self, self.kind))

    @property
    def options(self) -> Mapping[str, str]:
        """Those of Spark's reader."""
        return {}

    @property
    def spec(self) -> dict[str, Any]:
        """What `chaos.contract.read_table` is told of it."""
        reading = {"format": self.FORMAT, "place": self.place, "options": dict(self.options)}
        return {**reading, "password_in": "", "arguments": {}}

    @property
    def spoken(self) -> str:
        """What people are told that it is."""
        return f"a table of {self.kind}"

    @property
    def tells_versions(self) -> bool:
        """Whether it can be seen in files, and so at once, that rows were added."""
        return False

    def versions(self) -> int:
        """How many times rows were added so far; 0 where there is no table yet, and where that is not told by files."""
        return 0

    def of_run(self, known: Mapping[str, str]) -> Self:
        """The same with the names and places of a run."""
        return texts.of_run(self, known)

    def not_asked(self, topics: TopicSpecs) -> Mapping[str, str]:  # noqa: ARG002
        return dict.fromkeys(OF_LOGS_ONLY, NOT_ASKED)

    def mend(self, problem: str) -> str:
        """What to do about a table that cannot be read.

        Args:
            problem: its kind, as the reading calls it.
        """
        match problem:
            case "absent":
                return "does the pipeline write elsewhere? Its place is {sink} among the arguments, too; see logs/pipeline.log"
            case "lacking":
                return f"the job's Spark lacks {self.needs}: name its package in packages, for this version of Spark and Scala"
            case "other":
                return "a package is for another version of Spark or Scala; see logs/table.log"
            case _:
                return self.look

    @property
    def needs(self) -> str:
        """What a package must bring."""
        return f"what reads {self.kind}"

    @property
    def look(self) -> str:
        """Where to look when reading fails for another reason."""
        return "see logs/table.log"

    def problems(self, pipeline: Any) -> Iterator[Problem]:
        said = "what the table must hold is not said; write expected: {sql: SELECT …}, or {python: module:function}"
        yield from missing_rows(pipeline, "table-without-expected", said)
        if pipeline.positions != "checkpoint":
            why = "no broker tells how far a job that writes a table is, and it must be known"
            yield ("positions",), Message("positions-of-table", f"{why}; leave positions out: it is read from the checkpoint")
        own = [text for text, _ in texts.texts_of(self).values()]
        where = [*own, *self.places_beside(pipeline)]
        if own and not any(name in OF_A_RUN for text in where for name in names_in(text)):
            known = ", ".join(f"{{{name}}}" for name in OF_A_RUN)
            said = f"all runs would write this one table; put {{folder}} or {{suffix}} into it (one of {known})"
            yield ("sink", self.kind), Message("one-table-for-all", said)

    def places_beside(self, pipeline: Any) -> tuple[str, ...]:  # noqa: ARG002 - it has none
        """Further texts of the pipeline that may say where the table is."""
        return ()


class FileTable(TableSink):
    """A table in a folder, whose files tell how often rows were added."""

    @property
    def tells_versions(self) -> bool:
        return True

    def versions(self) -> int:
        return self.counted(Path(self.place.removeprefix("file:"))) if self.tells_versions else 0

    def counted(self, folder: Path) -> int:
        """How many times rows were added to the table in this folder."""
        raise NotImplementedError


def after_last(folder: Path, pattern: str) -> int:
    """The number behind the highest that files of a log begin with; 0 where there is none."""
    numbers = (_NUMBER.match(file.name.removeprefix("v")) for file in folder.glob(pattern) if not file.name.startswith("."))
    return 1 + max((int(number[0]) for number in numbers if number), default=-1)
