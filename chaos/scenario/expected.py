"""What is right, said by the user: `expected`, beside it `identity`, `rows_per_record` and `timers`.

How the rows are computed: `chaos.expectation.models`; how those of a twin are had: `chaos.engine.twins`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.grammar.base import Declared, Location, Message, Problem, WrongValueError, shown
from chaos.scenario.functions import FOLDER_WITHOUT_PYTHON, FunctionName
from chaos.scenario.texts import Written

SOURCE = "source"
TRANSACTIONS = "transactions"
_KINDS = ("sql", "python", "same_as")
_ALLOWED = (
    "write source (a copy), {sql: SELECT …}, {python: module:function}, {same_as: fault_free}, or transactions, which needs no "
    "model"
)


class ExpectedRows(Declared):
    """What the sink must hold: one of ``sql`` and ``python``, which compute it from what the source holds, and ``same_as``.

    Attributes:
        sql: a query over the topics that the pipeline reads, by their names, with the columns ``key``, ``value``,
            ``partition``, ``offset`` and ``timestamp``. It gives ``key`` and ``value``, and perhaps ``partition`` and
            ``offset``, the place of the source record that demands the row. Where the sink is a table, it gives the columns of
            the table instead.
        python: ``module:function``, which is given a mapping from the names of these topics to DataFrames, and the Spark
            session, and returns a DataFrame with the same columns as the query.
        folder: where the module is looked for first; it begins at the folder of the scenarios file, which is the default.
        same_as: ``fault_free``: what the same pipeline writes of the same workload while nothing is broken, its twin. It runs
            twice at first, and again when the pipeline or the workload has changed.
        files: of ``same_as``: further files and folders of which the pipeline is made; they begin at the folder of the
            scenarios file. A twin is run again when one has changed, as it is when a file that the pipeline names has.
    """

    sql: Written | None = None
    python: FunctionName | None = None
    folder: Written | None = None
    same_as: Literal["fault_free"] | None = None
    files: tuple[Written, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = f"this has {' and '.join(given)}" if given else "this has none of them"
            raise WrongValueError(
                "not-one-expected", f"what is expected is said in sql, in python or by same_as, and {found}; write one of them"
            )
        if self.folder is not None and self.python is None:
            raise WrongValueError(FOLDER_WITHOUT_PYTHON.code, FOLDER_WITHOUT_PYTHON)
        if self.files and self.same_as is None:
            raise WrongValueError(
                "files-without-twin", "files are what a twin is made of, and this has no same_as; leave them out"
            )
        return self

    def below(self, folder: Path) -> Self:
        """The same with whole paths."""
        places: dict[str, Any] = {"files": tuple(str((folder / name).resolve()) for name in self.files)}
        if self.python is not None:
            places["folder"] = str((folder / (self.folder or ".")).resolve())
        return self.model_copy(update=places)

    def missing(self, folder: Path) -> Iterator[Problem]:
        """The files that are not there."""
        for number, name in enumerate(self.files):
            if not os.path.exists(folder / name):  # noqa: PTH110 - `Path.exists` raises OSError for a path that is too long
                begins = f"a path begins at the folder of this file, {folder.resolve()}"
                yield ("files", number), Message("file-not-there", f"{shown(name)} is not there; {begins}")


def _expected(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    if value in (SOURCE, TRANSACTIONS) or isinstance(value, Mapping | ExpectedRows):
        return value
    raise WrongValueError("not-expected-rows", f"{shown(value)} does not say what is expected; {_ALLOWED}")


Expected = Annotated[Literal["source", "transactions"] | ExpectedRows, BeforeValidator(_expected)]


class RowsPerRecord(Declared):
    """How many rows of the sink one record of the source makes.

    Attributes:
        min: at least so many.
        max: at most so many.
    """

    min: Annotated[float, Field(ge=0)]
    max: Annotated[float, Field(ge=0)]

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


def problems(
    expected: Expected | None, identity: str | None, reads: tuple[str, ...], *, has_positions: bool = True
) -> Iterator[Problem]:
    """What is wrong with what a pipeline says is right, as far as that is known without Spark, with places in its declaration.

    Args:
        reads: the topics whose names the query may use.
        has_positions: whether the pipeline can be asked how far it is.
    """
    if identity is not None and expected == TRANSACTIONS:
        text = "no rows are compared with others where transactions are asked; leave identity out"
        yield ("identity",), Message("identity-of-transactions", text)
    if not isinstance(expected, ExpectedRows):
        return
    folded = [name.lower() for name in reads]
    twice = next((name for number, name in enumerate(reads) if name.lower() in folded[:number]), None)
    if twice is not None:
        text = f"{twice} and another topic that is read differ in capitals only, and SQL does not tell them apart"
        yield ("expected",), Message("topics-alike-in-sql", text)
    if expected.same_as is not None and not has_positions:
        why = "with positions: none it is not known when a run without faults is over"
        text = f"{why}; write group or positions, or expected: {{sql: SELECT …}}"
        yield ("expected", "same_as"), Message("twin-without-positions", text)
    if expected.sql is not None and not any(_named(name, expected.sql) for name in reads):
        there = ", ".join(map(quoted, reads))
        text = f"the query names none of the topics that this pipeline reads: {there}"
        yield ("expected", "sql"), Message("query-without-topic", text)


def of_pipeline(declared: Any) -> Iterator[Problem]:
    """What is wrong with what a pipeline says of the rows that it writes, with places in its declaration.

    Args:
        declared: the pipeline, of any kind that writes.
    """
    yield from problems(declared.expected, declared.identity, declared.reads, has_positions=declared.has_positions)
    if declared.sink.form == "state":
        yield from of_state(declared)
    in_transactions = bool(declared.group) and declared.transactions
    asked = declared.expected, declared.rows_per_record
    yield from of_transactions(*asked, timers=declared.timers, in_transactions=in_transactions)


def of_state(declared: Any) -> Iterator[Problem]:
    """What is wrong with a pipeline whose sink is judged as a state, with places in its declaration.

    Args:
        declared: the pipeline; its ``expected``, ``identity`` and positions are looked at.
    """
    if not isinstance(declared.expected, ExpectedRows):
        place: Location = () if declared.expected is None else ("expected",)
        text = "what the state must be is not said; write expected: {sql: SELECT …}, with one row for each key"
        yield place, Message("state-without-expected", text)
    if declared.identity is not None:
        text = "a state has one row for each key, by which it is told from others; leave identity out"
        yield ("identity",), Message("identity-of-state", text)
    if not declared.has_positions:
        why = "how far a state is cannot be told by the number of its rows"
        text = f"{why}; write group or positions, where it says how far it is"
        yield ("positions",), Message("state-without-positions", text)


def of_transactions(
    expected: Expected | None, rows: RowsPerRecord | None, *, timers: bool, in_transactions: bool
) -> Iterator[Problem]:
    """What is wrong with asking for transactions.

    Args:
        timers: whether the pipeline says that a timer writes rows, too.
        in_transactions: whether the pipeline has positions in a group, and uses transactions.
    """
    why = "transactions are asked of positions that are committed in them, and this pipeline commits none so"
    if expected == TRANSACTIONS and not in_transactions:
        yield ("expected",), Message("transactions-without-positions", f"{why}; write {{sql: …}}, or leave it out")
    if rows is not None and not in_transactions:
        yield ("rows_per_record",), Message("rows-without-transactions", f"{why}; leave it out")
    if timers and expected != TRANSACTIONS and rows is None:
        text = "timers are asked of transactions; write expected: transactions or rows_per_record, or leave it out"
        yield ("timers",), Message("timers-without-transactions", text)


def quoted(topic: str) -> str:
    """The name as a query spells it."""
    return topic if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", topic) else f"`{topic}`"


def _named(topic: str, sql: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-])", sql, re.IGNORECASE) is not None
