"""The user's definition of a correct sink: `expected`, with `identity`, `rows_per_record` and `timers`.

A way to define it is one class here: its keys, its checks, and facts that a run needs beforehand. The resulting rows are one
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
_NOT_IN_TRANSACTIONS = "judging transactions needs positions that they commit, and this pipeline commits none in them"
_KNOWN_ROWS = "write sql, file, python or generator in place of command"


class Way(Declared):
    """One way to define the rows of the sink. Its messages have places in the pipeline."""

    key: ClassVar[str]
    """The key of such a declaration, or its word."""
    example: ClassVar[str]
    """An example of such a declaration."""
    misplaced: ClassVar[Mapping[str, Message]] = {}
    """Further key -> the message if it stands without `key`."""
    gives_rows: ClassVar[bool] = True
    """Whether it defines the expected rows, in place of the records of the source."""
    compares_rows: ClassVar[bool] = True
    """Whether rows are compared at all."""
    runs_before: ClassVar[int] = 0
    """The number of runs that record the expected rows, if they are not known yet."""
    left_out: ClassVar[Mapping[str, str]] = {}
    """Verifiers that have nothing to judge with it, and why."""

    def refused(self, pipeline: Any) -> Iterator[Problem]:  # noqa: ARG002 - most refuse nothing
        """Refuse a pipeline that lacks something for it, or has a useless key."""
        yield from ()

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:
        """Refuse a user's loader, whose records are not known before they are sent."""
        if not pipeline.has_positions:
            known = "the number of rows of your own loader is open, and with positions: none nothing shows when all are there"
            text = f"{known}; write group or positions in the pipeline, or {_KNOWN_ROWS}"
            yield Message("own-loader-without-positions", text)

    def below(self, folder: Path) -> Self:  # noqa: ARG002 - most have no paths
        """Resolve paths."""
        return self

    def missing(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - most have no files
        """Report its files that do not exist; places are below ``expected``."""
        yield from ()


class Copied(Way):
    """The sink holds the records of the source; this is the default."""

    key: ClassVar[str] = SOURCE
    example: ClassVar[str] = "source (a copy)"
    gives_rows: ClassVar[bool] = False

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:  # noqa: ARG002 - a record is a row
        yield from ()


class ByTransactions(Way):
    """No rows are expected, and the transactions that wrote them are judged."""

    key: ClassVar[str] = TRANSACTIONS
    example: ClassVar[str] = "transactions, which needs no model"
    gives_rows: ClassVar[bool] = False
    compares_rows: ClassVar[bool] = False
    left_out: ClassVar[Mapping[str, str]] = {"offsets": "expected: transactions"}

    def refused(self, pipeline: Any) -> Iterator[Problem]:
        if pipeline.identity is not None:
            text = "expected: transactions compares no rows, so identity has no effect; leave identity out"
            yield ("identity",), Message("identity-of-transactions", text)
        if not _in_transactions(pipeline):
            text = f"{_NOT_IN_TRANSACTIONS}; write {{sql: …}}, or leave expected out"
            yield ("expected",), Message("transactions-without-positions", text)

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:  # noqa: ARG002 - no rows are counted
        yield from ()


class ByQuery(Way):
    """A query computes the rows."""

    key: ClassVar[str] = "sql"
    example: ClassVar[str] = "{sql: SELECT …}"
    sql: Written | None = None
    """a query over the topics that the pipeline reads, by name, with the columns ``key``, ``value``, ``partition``, ``offset``
    and ``timestamp``. It returns ``key`` and ``value``, and optionally ``partition`` and ``offset``, the place of the source
    record that demands the row. If the sink is a table, it returns the columns of the table instead.
    """

    def refused(self, pipeline: Any) -> Iterator[Problem]:
        if not any(_is_named_in(name, self.sql or "") for name in pipeline.reads):
            there = ", ".join(map(quoted, pipeline.reads))
            text = f"the query uses none of the topics that this pipeline reads: {there}"
            yield ("expected", "sql"), Message("query-without-topic", text)


class ByFunction(Way):
    """A Python function computes the rows."""

    key: ClassVar[str] = "python"
    example: ClassVar[str] = "{python: module:function}"
    misplaced: ClassVar[Mapping[str, Message]] = {"folder": FOLDER_WITHOUT_PYTHON}
    python: FunctionName | None = None
    """``module:function``. The function gets a mapping from the names of these topics to DataFrames, and the Spark session, and
    returns a DataFrame with the same columns as the query.
    """
    folder: Written | None = None
    """the folder in which the module is looked for first; the path begins at the folder of the scenarios file, which is the
    default.
    """

    def below(self, folder: Path) -> Self:
        return self.model_copy(update={"folder": str((folder / (self.folder or ".")).resolve())})


class ByTwin(Way):
    """A run without faults records the rows."""

    key: ClassVar[str] = "same_as"
    example: ClassVar[str] = "{same_as: fault_free}"
    misplaced: ClassVar[Mapping[str, Message]] = {
        "files": Message("files-without-twin", "files is for same_as, which is missing; leave files out")
    }
    runs_before: ClassVar[int] = 2
    same_as: Literal["fault_free"] | None = None
    """``fault_free``: the rows that the same pipeline writes for the same workload without faults, its twin. The twin runs
    twice at first, and again when the pipeline or the workload has changed.
    """
    files: tuple[Written, ...] = ()
    """for ``same_as``: further files and folders of the pipeline; the paths begin at the folder of the scenarios file. The twin
    runs again when one of them has changed, or a file that the pipeline names.
    """

    def refused(self, pipeline: Any) -> Iterator[Problem]:
        if not pipeline.has_positions:
            why = "with positions: none, nothing shows when a run without faults is over"
            text = f"{why}; write group or positions, or expected: {{sql: SELECT …}}"
            yield ("expected", "same_as"), Message("twin-without-positions", text)

    def refused_unknown(self, pipeline: Any) -> Iterator[Message]:  # noqa: ARG002 - whichever it is
        same = "a twin needs the same records, but a loader of your own may send others"
        yield Message("twin-of-own-loader", f"{same}; {_KNOWN_ROWS}, or expected: {{sql: SELECT …}}")

    def below(self, folder: Path) -> Self:
        return self.model_copy(update={"files": tuple(str((folder / name).resolve()) for name in self.files)})

    def missing(self, folder: Path) -> Iterator[Problem]:
        for number, name in enumerate(self.files):
            if not os.path.exists(folder / name):  # noqa: PTH110 - `Path.exists` raises OSError for a path that is too long
                begins = f"a path begins at the folder of this file, {folder.resolve()}"
                yield ("files", number), Message("file-not-there", f"{shown(name)} does not exist; {begins}")


WITH_KEYS: tuple[type[Way], ...] = (ByQuery, ByFunction, ByTwin)
"""Ways that are declared by keys."""


class ExpectedRows(ByTwin, ByFunction, ByQuery):
    """The rows that the sink must hold: one of ``sql`` and ``python``, which compute them from the source, and ``same_as``."""

    @property
    def way(self) -> Way:
        """The declared way; this class has the keys of all ways."""
        way = next(way for way in WITH_KEYS if getattr(self, way.key) is not None)
        return way.model_construct(**{name: getattr(self, name) for name in way.model_fields})

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [way.key for way in WITH_KEYS if getattr(self, way.key) is not None]
        if len(given) != 1:
            found = f"this has {' and '.join(given)}" if given else "this has none of them"
            raise WrongValueError(
                "not-one-expected", f"expected needs exactly one of sql, python and same_as, but {found}; write one of them"
            )
        wrong = (text for way in WITH_KEYS if way.key not in given for key, text in way.misplaced.items() if getattr(self, key))
        if message := next(wrong, None):
            raise WrongValueError(message.code, message)
        return self

    def below(self, folder: Path) -> Self:
        return self.model_copy(update=dict(self.way.below(folder)))


WORDS: Mapping[str, Way] = {way.key: way for way in (Copied(), ByTransactions())}
"""Ways that are declared by a word."""
_EXAMPLES = [WORDS[SOURCE].example, *(way.example for way in WITH_KEYS)]
_ALLOWED = f"write {', '.join(_EXAMPLES)}, or {WORDS[TRANSACTIONS].example}"


def _expected(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    if value in tuple(WORDS) or isinstance(value, Mapping | ExpectedRows):
        return value
    raise WrongValueError("not-expected-rows", f"{shown(value)} does not define the expected rows; {_ALLOWED}")


Expected = Annotated[Literal["source", "transactions"] | ExpectedRows, BeforeValidator(_expected)]


def way_of(expected: Expected | None) -> Way:
    """Return the way of a declaration; the default is a copy."""
    return expected.way if isinstance(expected, ExpectedRows) else WORDS[expected or SOURCE]


class RowsPerRecord(Declared):
    """The number of sink rows that one source record makes."""

    min: Annotated[float, Field(ge=0)]
    """the smallest number."""
    max: Annotated[float, Field(ge=0)]
    """the largest number."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max < self.min:
            raise WrongValueError(
                "min-above-max", f"max: {self.max:g} is less than min: {self.min:g}; write the smaller number as min"
            )
        return self


def _rows_per_record(value: Any) -> Any:
    """Read a single number as both."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"min": value, "max": value}
    if isinstance(value, Mapping | RowsPerRecord):
        return value
    raise WrongValueError(
        "not-rows-per-record",
        f"{shown(value)} is not a number of rows; write a number, or {{min: 0, max: 1}}",
    )


HowManyRows = Annotated[RowsPerRecord, BeforeValidator(_rows_per_record)]


def of_pipeline(declared: Any) -> Iterator[Problem]:
    """Find mistakes in the definition of a pipeline's rows, with places in its declaration.

    Args:
        declared: the pipeline, of any kind that writes.
    """
    if declared.way.gives_rows:
        yield from _alike_in_sql(declared.reads)
    yield from declared.way.refused(declared)
    if declared.sink.form == "state":
        yield from _beside_state(declared)
    if declared.rows_per_record is not None and not _in_transactions(declared):
        text = f"{_NOT_IN_TRANSACTIONS}; leave rows_per_record out"
        yield ("rows_per_record",), Message("rows-without-transactions", text)
    if declared.timers and declared.way.compares_rows and declared.rows_per_record is None:
        text = "timers is for judging transactions; write expected: transactions or rows_per_record, or leave timers out"
        yield ("timers",), Message("timers-without-transactions", text)


def missing_rows(declared: Any, code: str, text: str) -> Iterator[Problem]:
    """Refuse a pipeline whose sink needs a definition of its rows, if it has none."""
    if not declared.way.gives_rows:
        place: Location = () if declared.expected is None else ("expected",)
        yield place, Message(code, text)


def _alike_in_sql(reads: tuple[str, ...]) -> Iterator[Problem]:
    folded = [name.lower() for name in reads]
    twice = next((name for number, name in enumerate(reads) if name.lower() in folded[:number]), None)
    if twice is not None:
        text = f"SQL cannot tell {twice} from another topic in reads: their names differ in capitals only; rename one"
        yield ("expected",), Message("topics-alike-in-sql", text)


def _beside_state(declared: Any) -> Iterator[Problem]:
    """Find mistakes in a pipeline whose sink is judged as a state."""
    text = "a state needs a definition of its rows; write expected: {sql: SELECT …}, with one row for each key"
    yield from missing_rows(declared, "state-without-expected", text)
    if declared.identity is not None:
        text = "the key alone identifies a row of a state; leave identity out"
        yield ("identity",), Message("identity-of-state", text)
    if not declared.has_positions:
        text = "the number of rows does not show how far a state is; write group or positions, which do"
        yield ("positions",), Message("state-without-positions", text)


def _in_transactions(declared: Any) -> bool:
    """Whether a pipeline has positions in a group, and uses transactions."""
    return bool(declared.group) and declared.transactions


def quoted(topic: str) -> str:
    """Spell the name of a topic in a query."""
    return topic if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", topic) else f"`{topic}`"


def _is_named_in(topic: str, sql: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-])", sql, re.IGNORECASE) is not None
