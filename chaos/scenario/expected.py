"""What is right, said by the user: `expected`, beside it `identity`, and `rows_per_record`.

How the rows are computed: `chaos.judging.models`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.grammar.base import Declared, Problem, shown
from chaos.scenario.rows import FunctionName, Written

SOURCE = "source"
TRANSACTIONS = "transactions"
_ALLOWED = "write source (a copy), {sql: SELECT …}, {python: module:function}, or transactions, which needs no model"


class ExpectedRows(Declared):
    """What the sink must hold, computed from what the source holds: one of ``sql`` and ``python``.

    Attributes:
        sql: a query over the topics that the pipeline reads, by their names, with the columns ``key``, ``value``,
            ``partition``, ``offset`` and ``timestamp``. It gives ``key`` and ``value``, and perhaps ``partition`` and
            ``offset``, the place of the source record that demands the row. Where the sink is a table, it gives the columns of
            the table instead.
        python: ``module:function``, which is given a mapping from the names of these topics to DataFrames, and the Spark
            session, and returns a DataFrame with the same columns as the query.
        folder: where the module is looked for first; it begins at the folder of the scenarios file, which is the default.
    """

    sql: Written | None = None
    python: FunctionName | None = None
    folder: Written | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in ("sql", "python") if getattr(self, kind) is not None]
        if len(given) != 1:
            found = "this has both" if given else "this has neither"
            raise ValueError(f"what is expected is said in sql or in python, and {found}; write one of them")
        if self.folder is not None and self.python is None:
            raise ValueError("folder is where a module of python is looked for; leave it out")
        return self

    @property
    def kind(self) -> str:
        return "sql" if self.sql is not None else "python"

    def below(self, folder: Path) -> Self:
        """The same with a whole path."""
        if self.python is None:
            return self
        return self.model_copy(update={"folder": str((folder / (self.folder or ".")).resolve())})


def _expected(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    if value in (SOURCE, TRANSACTIONS) or isinstance(value, Mapping | ExpectedRows):
        return value
    raise ValueError(f"{shown(value)} does not say what is expected; {_ALLOWED}")


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
            raise ValueError(f"at most {self.max:g} rows, and at least {self.min:g}: write the smaller number as min")
        return self


def _rows_per_record(value: Any) -> Any:
    """A number alone stands for both."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"min": value, "max": value}
    if isinstance(value, Mapping | RowsPerRecord):
        return value
    raise ValueError(f"{shown(value)} does not say how many rows a record makes; write a number, or {{min: 0, max: 1}}")


HowManyRows = Annotated[RowsPerRecord, BeforeValidator(_rows_per_record)]


def problems(expected: Expected | None, model: str | None, identity: str | None, reads: tuple[str, ...]) -> Iterator[Problem]:
    """What is wrong with what a pipeline says is right, as far as that is known without Spark, with places in its declaration.

    Args:
        model: the older key, which says it by name.
        reads: the topics whose names the query may use.
    """
    if expected is not None and model is not None:
        yield ("model",), "model and expected both say what is right; leave model out"
    if identity is not None and model == "square":
        yield ("identity",), "this pipeline has model: square, whose records are identified by their keys; leave identity out"
    if identity is not None and expected == TRANSACTIONS:
        yield ("identity",), "no rows are compared with others where transactions are asked; leave identity out"
    if not isinstance(expected, ExpectedRows):
        return
    folded = [name.lower() for name in reads]
    twice = next((name for number, name in enumerate(reads) if name.lower() in folded[:number]), None)
    if twice is not None:
        yield ("expected",), f"{twice} and another topic that is read differ in capitals only, and SQL does not tell them apart"
    if expected.sql is not None and not any(_named(name, expected.sql) for name in reads):
        there = ", ".join(map(quoted, reads))
        yield ("expected", "sql"), f"the query names none of the topics that this pipeline reads: {there}"


def of_transactions(expected: Expected | None, rows: RowsPerRecord | None, *, in_transactions: bool) -> Iterator[Problem]:
    """What is wrong with asking for transactions.

    Args:
        in_transactions: whether the pipeline has positions in a group, and uses transactions.
    """
    why = "transactions are asked of positions that are committed in them, and this pipeline commits none so"
    if expected == TRANSACTIONS and not in_transactions:
        yield ("expected",), f"{why}; write {{sql: …}}, or leave it out"
    if rows is not None and not in_transactions:
        yield ("rows_per_record",), f"{why}; leave it out"


def quoted(topic: str) -> str:
    """The name as a query spells it."""
    return topic if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", topic) else f"`{topic}`"


def _named(topic: str, sql: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-])", sql, re.IGNORECASE) is not None
