"""Forms of a sink: a log, a state, or a table. The form decides the columns of demanded rows, and which rows answer them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.contract.read_table import as_json
from chaos.expectation.base import IsApart, ModelError, Views, all_of, told
from chaos.expectation.sources import OneTopic
from chaos.matching import row_ids
from chaos.matching.demanded import Columns, Demanded
from chaos.matching.row_ids import Numbering, text
from chaos.scenario.model import Scenario

_OF_ROWS = ("key", "value", "partition", "offset")
_TEXTS = ("string", "binary", "void")
_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_OF_TABLE = "the rows of a table have no order"


@dataclass(frozen=True, slots=True)
class Log:
    """A topic in which every record counts.

    Attributes:
        counts_records: whether growth is counted in source records, because the number of rows is not visible.
        identity_is_key: whether the identity of a row takes the place of its key.
        last_values: whether only the last value of each key counts.
    """

    counts_records: ClassVar[bool] = False
    identity_is_key: ClassVar[bool] = False
    last_values: ClassVar[bool] = False

    def contracted(self, found: DataFrame, called: str, sources: OneTopic, _identity: str = "") -> DataFrame:
        """Convert the columns of rows to text and numbers: key, value, partition, offset.

        Args:
            called: the definition of the rows, in a sentence.
            identity: SQL that identifies a row.

        Raises:
            ModelError: a column is missing, has a wrong type, or is not a column of a record.
        """
        kinds = [(name.lower(), kind) for name, kind in found.dtypes]
        if wrong := _wrong_columns([name for name, _ in kinds], sources) or next(
            filter(None, (_wrong_type(*one) for one in kinds)), ""
        ):
            raise ModelError(f"{called} {wrong}")
        of_kind = dict(kinds)
        texts = [
            f"{text(name) if of_kind[name] == 'binary' else f'CAST({name} AS STRING)'} AS {name}" for name in ("key", "value")
        ]
        place = [f"CAST({name if name in of_kind else 'NULL'} AS BIGINT) AS {name}" for name in ("partition", "offset")]
        return found.selectExpr(*texts, *place)

    def demand(
        self, held: DataFrame, called: str, views: Views, sources: OneTopic, is_apart: IsApart | None = None
    ) -> Demanded:
        """Count the rows from `contracted`, and find out whether their order is known.

        Raises:
            ModelError: a place belongs to no record, or a key has two rows where one is allowed.
        """
        count, placed, lowest, highest, before = (
            held.selectExpr("partition", "offset", "partition IS NOT NULL AND offset IS NOT NULL AS placed")
            .selectExpr(
                "count(*)",
                "count_if(placed)",
                "coalesce(min(IF(placed, partition, NULL)), 0)",
                "coalesce(max(IF(placed, partition, NULL)), 0)",
                "coalesce(min(IF(placed, offset, NULL)), 0)",
            )
            .collect()[0]
        )
        partitions = 1 + (all_of(views).selectExpr("coalesce(max(partition), 0)").collect()[0][0] if placed else 0)
        if lowest < 0 or before < 0 or highest >= partitions:
            place = f"offset {before}" if before < 0 else f"partition {lowest if lowest < 0 else highest}"
            raise ModelError(f"{called} returned a row with {place}; return the partition and offset of a source record")
        if sources.unordered:
            return Demanded(held, count, sources.unordered, placed=False)
        if placed < count:
            return Demanded(
                held, count, f"{count - placed} expected rows have no partition and offset of the source", placed=False
            )
        shared = 0 if is_apart is not None and is_apart(held) else _sharing(held)
        return Demanded(held, count, f"{shared} expected rows share a source record" if shared else "", placed=True)

    def counted(self, log: DataFrame) -> DataFrame:
        """Return the records of a log that count."""
        return log

    def undue(self, called: str, sources: OneTopic) -> str:
        """Explain why it is unknown which rows are due while source records are left; "" if the places of rows decide."""
        return sources.undue(called)

    def answering(
        self,
        found: Demanded,
        positions: Mapping[int, int],
        lines: int,
        *,
        anywhere: bool,
        identity: str = "",
        as_they_are: bool = True,
    ) -> Numbering:
        """Find the rows of the sink that answer these; arguments as in `chaos.matching.row_ids.of_sink`."""
        return row_ids.of_sink(
            found.rows,
            positions,
            lines,
            anywhere=anywhere or not found.placed,
            unordered=found.unordered,
            identity=identity,
            as_they_are=as_they_are,
        )


@dataclass(frozen=True, slots=True)
class State(Log):
    """A topic that is a state: one row for each key; a row without a value counts as absent, like a tombstone."""

    counts_records: ClassVar[bool] = True
    last_values: ClassVar[bool] = True

    def demand(
        self, held: DataFrame, called: str, _views: Views, _sources: OneTopic, _is_apart: IsApart | None = None
    ) -> Demanded:
        twice = held.groupBy("key").count().where("count > 1").orderBy("key").first()
        if twice is not None:
            key = "null" if twice["key"] is None else repr(twice["key"])
            raise ModelError(f"{called} gives {twice['count']} rows for key {key}, but a state has one; GROUP BY the key")
        there = held.where("value IS NOT NULL")
        return Demanded(there, there.count(), row_ids.OF_STATE, placed=False)

    def counted(self, log: DataFrame) -> DataFrame:
        return row_ids.last_of_each(log)

    def undue(self, called: str, _sources: OneTopic) -> str:
        return f"{called} defines the state at the end only, so it is unknown which values are due"

    def answering(self, found: Demanded, positions: Mapping[int, int], lines: int, **_words: bool | str) -> Numbering:
        return row_ids.of_last_values(found.rows, positions, lines)


@dataclass(frozen=True, slots=True)
class TableRows(Log):
    """A table; expected rows have its columns, and become text in the same way as the rows that were read.

    Attributes:
        columns: the columns of the table; empty until it has been read, and then those of the expected rows are used.
    """

    columns: Columns = ()
    counts_records: ClassVar[bool] = True
    identity_is_key: ClassVar[bool] = True

    def contracted(self, found: DataFrame, called: str, _sources: OneTopic, identity: str = "") -> DataFrame:
        columns = self.columns or tuple(found.dtypes)
        if wrong := _unlike(found.dtypes, columns):
            raise ModelError(f"{called} {wrong}")
        quoted = [(f"`{name.replace('`', '``')}`", kind) for name, kind in columns]
        with told("identity", columns=[name for name, _ in columns]):
            as_there = found.select(*(F.expr(f"CAST({name} AS {kind}) AS {name}") for name, kind in quoted))
            value = as_json(columns)
            own = F.coalesce(F.expr(f"CAST(({identity}) AS STRING)"), F.lit("null")) if identity else value
            nowhere = [F.lit(None).cast("bigint").alias(name) for name in ("partition", "offset")]
            return as_there.select(own.alias("key"), value.alias("value"), *nowhere)

    def undue(self, called: str, _sources: OneTopic) -> str:
        return f"{called} does not say which record a row of a table comes from, so it is unknown which rows are due"

    def answering(
        self, found: Demanded, positions: Mapping[int, int], lines: int, *, identity: str = "", **_words: bool | str
    ) -> Numbering:
        return row_ids.of_sink(found.rows, positions, lines, anywhere=True, unordered=_OF_TABLE, as_they_are=not identity)


def of_scenario(scenario: Scenario) -> Log:
    """Choose the form of the sink of a scenario's pipeline."""
    if scenario.table is not None:
        return TableRows()
    return State() if scenario.pipeline.sink and scenario.pipeline.sink.form == "state" else Log()


def _sharing(rows: DataFrame) -> int:
    """Count the rows that share a place with another."""
    alike = rows.groupBy("partition", "offset").count().where("count > 1")
    shared: int = alike.selectExpr("coalesce(sum(count), 0)").collect()[0][0]
    return shared


def _unlike(found: Sequence[tuple[str, str]], columns: Columns) -> str:
    """Explain why these columns differ from those of the table; "" if they do not. Whole numbers may have different sizes."""
    there, given = ({name.lower(): kind for name, kind in ones} for ones in (columns, found))
    listed = ", ".join(f"{name} {kind}" for name, kind in columns)
    if len(given) < len(found):
        return "has two columns of the same name; keep one"
    missing = next((name for name in there if name not in given), None)
    if missing is not None:
        return f"lacks the column {missing} of the table, whose columns are {listed}"
    unknown = next((name for name in given if name not in there), None)
    if unknown is not None:
        return f"has a column {unknown} that is not in the table, whose columns are {listed}"
    for name, kind in there.items():
        one = given[name]
        if one not in {kind, "void"} and not {one, kind} <= set(_NUMBERS):
            return f"has a column {name} of type {one}, but the table has type {kind}; write CAST({name} AS {kind})"
    return ""


def _wrong_columns(names: Sequence[str], sources: OneTopic) -> str:
    """Explain why columns of these names do not make rows; "" if they do."""
    for name in ("key", "value"):
        if name not in names:
            return f"has no column {name}; its columns are {', '.join(names)}. For records without one, write NULL AS {name}"
    unknown = next((name for name in names if name not in _OF_ROWS), None)
    if unknown is not None:
        return f"has an unknown column {unknown}; the columns of a sink are {', '.join(_OF_ROWS)}"
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"has two columns {twice}; keep one"
    place = next((name for name in names if name in {"partition", "offset"}), None)
    if place and (refused := sources.refused_place(place)):
        return refused
    if ("partition" in names) != ("offset" in names):
        one, other = ("partition", "offset") if "partition" in names else ("offset", "partition")
        return f"has {one} but not {other}; return both, the place of a source record, or neither"
    return ""


def _wrong_type(name: str, kind: str) -> str:
    """Explain why a column may not have this type; "" if it may."""
    if name in {"key", "value"}:
        return "" if kind in _TEXTS else f"has a {name} of type {kind}; write CAST({name} AS STRING), or return binary"
    return "" if kind in _NUMBERS else f"has a column {name} of type {kind}; return a whole number"
