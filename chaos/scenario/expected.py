"""What is right, said by the user: `expected`, beside it `identity`, `rows_per_record` and `timers`.

A way to say it is one class here: its keys, what it refuses, and what a run must know of it beforehand. What comes of it is one
class in `chaos.expectation.definitions`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.grammar.base import Declared, Location, Message, Problem, WrongValueError, shown
from chaos.scenario.functions import FOLDER_WITHOUT_PYTHON, FunctionName
from chaos.scenario.texts import Written
from chaos.scenario.verifiers import TRANSACTIONS

SOURCE = "source"
_NOT_IN_TRANSACTIONS = "transactions are asked of positions that are committed in them, and this pipeline commits none so"
_KNOWN_ROWS = "write sql, file, python or generator in place of command"


class Way(Declared):
    """One way to say what the sink must hold. The texts of what it refuses have places in the pipeline."""

    key: ClassVar[str]
    """of a declaration in this way; for one without keys, the word."""
    example: ClassVar[str]
    """of such a declaration."""
    misplaced: ClassVar[Mapping[str, Message]] = {}
    """its other keys, and what is wrong where they are without its own."""
    gives_rows: ClassVar[bool] = True
    """whether it says which rows there must be, in place of those of the source."""
    compares_rows: ClassVar[bool] = True
    """whether rows are held against others at all."""
    runs_before: ClassVar[int] = 0
    """by how many runs what is right is found out, where it is not known yet."""
    left_out: ClassVar[Mapping[str, str]] = {}
    """verifiers that it leaves nothing to judge, and why."""

    def refused(self, pipeline: Any) -> Iterator[Problem]:  # noqa: ARG002 - most refuse nothing
        """What a pipeline lacks for it, or has in vain."""
        yield from ()

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:
        """Why it cannot be asked of records that only a loader of the user's own knows before they are sent."""
        if not pipeline.has_positions:
            known = "how many rows these records demand is not known, nor with positions: none when all of them are there"
            text = f"{known}; write group or positions in the pipeline, or {_KNOWN_ROWS}"
            yield Message("own-loader-without-positions", text)

    def below(self, folder: Path) -> Self:  # noqa: ARG002 - most have no paths
        """The same with whole paths."""
        return self

    def missing(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - most have no files
        """Its files that are not there; places are below ``expected``."""
        yield from ()


class Copied(Way):
    """The sink holds what the source does; also where nothing is said."""

    key: ClassVar[str] = SOURCE
    example: ClassVar[str] = "source (a copy)"
    gives_rows: ClassVar[bool] = False

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:  # noqa: ARG002 - a record is a row
        yield from ()


class ByTransactions(Way):
    """Nothing is said of the rows, and the transactions that wrote them are judged."""

    key: ClassVar[str] = TRANSACTIONS
    example: ClassVar[str] = "transactions, which needs no model"
    gives_rows: ClassVar[bool] = False
    compares_rows: ClassVar[bool] = False
    left_out: ClassVar[Mapping[str, str]] = {"offsets": "expected: transactions"}

    def refused(self, pipeline: Any) -> Iterator[Problem]:
        if pipeline.identity is not None:
            text = "no rows are compared with others where transactions are asked; leave identity out"
            yield ("identity",), Message("identity-of-transactions", text)
        if not _in_transactions(pipeline):
            text = f"{_NOT_IN_TRANSACTIONS}; write {{sql: …}}, or leave it out"
            yield ("expected",), Message("transactions-without-positions", text)

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:  # noqa: ARG002 - no rows are counted
        yield from ()


class ByQuery(Way):
    """By a query."""

    key: ClassVar[str] = "sql"
    example: ClassVar[str] = "{sql: SELECT …}"
    sql: Written | None = None
    """a query over the topics that the pipeline reads, by their names, with the columns ``key``, ``value``, ``partition``,
    ``offset`` and ``timestamp``. It gives ``key`` and ``value``, and perhaps ``partition`` and ``offset``, the place of the
    source record that demands the row. Where the sink is a table, it gives the columns of the table instead.
    """

    def refused(self, pipeline: Any) -> Iterator[Problem]:
        if not any(_is_named_in(name, self.sql or "") for name in pipeline.reads):
            there = ", ".join(map(quoted, pipeline.reads))
            text = f"the query names none of the topics that this pipeline reads: {there}"
            yield ("expected", "sql"), Message("query-without-topic", text)


class ByFunction(Way):
    """By a function of Python."""

    key: ClassVar[str] = "python"
    example: ClassVar[str] = "{python: module:function}"
    misplaced: ClassVar[Mapping[str, Message]] = {"folder": FOLDER_WITHOUT_PYTHON}
    python: FunctionName | None = None
    """``module:function``, which is given a mapping from the names of these topics to DataFrames, and the Spark session, and
    returns a DataFrame with the same columns as the query.
    """
    folder: Written | None = None
    """where the module is looked for first; it begins at the folder of the scenarios file, which is the default."""

    def below(self, folder: Path) -> Self:
        return self.model_copy(update={"folder": str((folder / (self.folder or ".")).resolve())})


class ByTwin(Way):
    """By a run without faults."""

    key: ClassVar[str] = "same_as"
    example: ClassVar[str] = "{same_as: fault_free}"
    misplaced: ClassVar[Mapping[str, Message]] = {
        "files": Message("files-without-twin", "files are what a twin is made of, and this has no same_as; leave them out")
    }
    runs_before: ClassVar[int] = 2
    same_as: Literal["fault_free"] | None = None
    """``fault_free``: what the same pipeline writes of the same workload while nothing is broken, its twin. It runs twice at
    first, and again when the pipeline or the workload has changed.
    """
    files: tuple[Written, ...] = ()
    """of ``same_as``: further files and folders of which the pipeline is made; they begin at the folder of the scenarios file.
    A twin is run again when one has changed, as it is when a file that the pipeline names has.
    """

    def refused(self, pipeline: Any) -> Iterator[Problem]:
        if not pipeline.has_positions:
            why = "with positions: none it is not known when a run without faults is over"
            text = f"{why}; write group or positions, or expected: {{sql: SELECT …}}"
            yield ("expected", "same_as"), Message("twin-without-positions", text)

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:  # noqa: ARG002 - whichever it is
        same = "a twin needs the same records, and a loader of your own may send others"
        yield Message("twin-of-own-loader", f"{same}; {_KNOWN_ROWS}, or expected: {{sql: SELECT …}}")

    def below(self, folder: Path) -> Self:
        return self.model_copy(update={"files": tuple(str((folder / name).resolve()) for name in self.files)})

    def missing(self, folder: Path) -> Iterator[Problem]:
        for number, name in enumerate(self.files):
            if not os.path.exists(folder / name):  # noqa: PTH110 - `Path.exists` raises OSError for a path that is too long
                begins = f"a path begins at the folder of this file, {folder.resolve()}"
                yield ("files", number), Message("file-not-there", f"{shown(name)} is not there; {begins}")


WITH_KEYS: tuple[type[Way], ...] = (ByQuery, ByFunction, ByTwin)
"""The ways that are declared by their keys."""


class ExpectedRows(ByTwin, ByFunction, ByQuery):
    """What the sink must hold: one of ``sql`` and ``python``, which compute it from what the source holds, and ``same_as``."""

    @property
    def way(self) -> Way:
        """The one that is declared; this class has the keys of all of them."""
        way = next(way for way in WITH_KEYS if getattr(self, way.key) is not None)
        return way.model_construct(**{name: getattr(self, name) for name in way.model_fields})

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [way.key for way in WITH_KEYS if getattr(self, way.key) is not None]
        if len(given) != 1:
            found = f"this has {' and '.join(given)}" if given else "this has none of them"
            raise WrongValueError(
                "not-one-expected", f"what is expected is said in sql, in python or by same_as, and {found}; write one of them"
            )
        wrong = (text for way in WITH_KEYS if way.key not in given for key, text in way.misplaced.items() if getattr(self, key))
        if message := next(wrong, None):
            raise WrongValueError(message.code, message)
        return self

    def below(self, folder: Path) -> Self:
        return self.model_copy(update=dict(self.way.below(folder)))


WORDS: Mapping[str, Way] = {way.key: way for way in (Copied(), ByTransactions())}
"""Those that are declared by a word."""
_EXAMPLES = [WORDS[SOURCE].example, *(way.example for way in WITH_KEYS)]
_ALLOWED = f"write {', '.join(_EXAMPLES)}, or {WORDS[TRANSACTIONS].example}"


def _expected(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    if value in tuple(WORDS) or isinstance(value, Mapping | ExpectedRows):
        return value
    raise WrongValueError("not-expected-rows", f"{shown(value)} does not say what is expected; {_ALLOWED}")


Expected = Annotated[Literal["source", "transactions"] | ExpectedRows, BeforeValidator(_expected)]


def way_of(expected: Expected | None) -> Way:
    """How it is said what is right: by a copy, where nothing is said."""
    return expected.way if isinstance(expected, ExpectedRows) else WORDS[expected or SOURCE]


class RowsPerRecord(Declared):
    """How many rows of the sink one record of the source makes."""

    min: Annotated[float, Field(ge=0)]
    """at least so many."""
    max: Annotated[float, Field(ge=0)]
    """at most so many."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max < self.min:
            raise WrongValueError(
                "min-above-max", f"at most {self.max:g} rows, and at least {self.min:g}: write the smaller number as min"
            )
        return self


def _rows_per_record(value: Any) -> Any:
    """A number alone stands for both."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"min": value, "max": value}
    if isinstance(value, Mapping | RowsPerRecord):
        return value
    raise WrongValueError(
        "not-rows-per-record",
        f"{shown(value)} does not say how many rows a record makes; write a number, or {{min: 0, max: 1}}",
    )


HowManyRows = Annotated[RowsPerRecord, BeforeValidator(_rows_per_record)]


def of_pipeline(declared: Any) -> Iterator[Problem]:
    """What is wrong with what a pipeline says of the rows that it writes, with places in its declaration.

    Args:
        declared: the pipeline, of any kind that writes.
    """
    if declared.way.gives_rows:
        yield from _alike_in_sql(declared.reads)
    yield from declared.way.refused(declared)
    if declared.sink.form == "state":
        yield from _beside_state(declared)
    if declared.rows_per_record is not None and not _in_transactions(declared):
        text = f"{_NOT_IN_TRANSACTIONS}; leave it out"
        yield ("rows_per_record",), Message("rows-without-transactions", text)
    if declared.timers and declared.way.compares_rows and declared.rows_per_record is None:
        text = "timers are asked of transactions; write expected: transactions or rows_per_record, or leave it out"
        yield ("timers",), Message("timers-without-transactions", text)


def missing_rows(declared: Any, code: str, text: str) -> Iterator[Problem]:
    """That a pipeline with this sink must say which rows there are, where it does not."""
    if not declared.way.gives_rows:
        place: Location = () if declared.expected is None else ("expected",)
        yield place, Message(code, text)


def _alike_in_sql(reads: tuple[str, ...]) -> Iterator[Problem]:
    folded = [name.lower() for name in reads]
    twice = next((name for number, name in enumerate(reads) if name.lower() in folded[:number]), None)
    if twice is not None:
        text = f"{twice} and another topic that is read differ in capitals only, and SQL does not tell them apart"
        yield ("expected",), Message("topics-alike-in-sql", text)


def _beside_state(declared: Any) -> Iterator[Problem]:
    """What is wrong with a pipeline whose sink is judged as a state."""
    text = "what the state must be is not said; write expected: {sql: SELECT …}, with one row for each key"
    yield from missing_rows(declared, "state-without-expected", text)
    if declared.identity is not None:
        text = "a state has one row for each key, by which it is told from others; leave identity out"
        yield ("identity",), Message("identity-of-state", text)
    if not declared.has_positions:
        why = "how far a state is cannot be told by the number of its rows"
        text = f"{why}; write group or positions, where it says how far it is"
        yield ("positions",), Message("state-without-positions", text)


def _in_transactions(declared: Any) -> bool:
    """Whether a pipeline has positions in a group, and uses transactions."""
    return bool(declared.group) and declared.transactions


def quoted(topic: str) -> str:
    """The name as a query spells it."""
    return topic if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", topic) else f"`{topic}`"


def _is_named_in(topic: str, sql: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-])", sql, re.IGNORECASE) is not None
