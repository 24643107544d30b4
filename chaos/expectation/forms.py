"""What a sink is: a log, a state, or a table. It decides what the demanded rows look like, and which rows answer them."""

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
    """A topic, each record of which counts.

    Attributes:
        counts_records: whether its growth is counted in records of the source, as how many rows there are is not seen.
        identity_is_key: whether what identifies a row is its key, and stands beside no other one.
        last_values: whether of each key the last value counts, and not how it came to that.
    """

    counts_records: ClassVar[bool] = False
    identity_is_key: ClassVar[bool] = False
    last_values: ClassVar[bool] = False

    def contracted(self, found: DataFrame, called: str, sources: OneTopic, _identity: str = "") -> DataFrame:
        """The columns of rows, as text and numbers: key, value, partition, offset.

        Args:
            called: who gives them, in a sentence.
            identity: SQL by which rows are told apart.

        Raises:
            ModelError: one is missing, of another type, or no column of a record.
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
        """The rows that `contracted` gave, counted, and with what is known of their order.

        Raises:
            ModelError: a place is of no record, or a key has two rows and may have one.
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
            raise ModelError(f"{called} has a row with {place}, and the source has none such; give the place of a record")
        if sources.unordered:
            return Demanded(held, count, sources.unordered, placed=False)
        if placed < count:
            return Demanded(
                held, count, f"{count - placed} of its rows have no partition and offset of the source", placed=False
            )
        shared = 0 if is_apart is not None and is_apart(held) else _sharing(held)
        return Demanded(held, count, f"{shared} of its rows share a record of the source" if shared else "", placed=True)

    def counted(self, log: DataFrame) -> DataFrame:
        """Those of the records of a log that count."""
        return log

    def undue(self, called: str, sources: OneTopic) -> str:
        """Why it is not known which rows are due while records of the source are left; "" where the places of rows tell it."""
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
        """Which rows of the sink answer these; arguments as in `chaos.matching.row_ids.of_sink`."""
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
    """A topic that is a state: one row for each key; one without a value is none, as a tombstone is."""

    counts_records: ClassVar[bool] = True
    last_values: ClassVar[bool] = True

    def demand(
        self, held: DataFrame, called: str, _views: Views, _sources: OneTopic, _is_apart: IsApart | None = None
    ) -> Demanded:
        twice = held.groupBy("key").count().where("count > 1").orderBy("key").first()
        if twice is not None:
            key = "null" if twice["key"] is None else repr(twice["key"])
            raise ModelError(f"{called} gives {twice['count']} rows of key {key}, and a state has one; GROUP BY the key")
        there = held.where("value IS NOT NULL")
        return Demanded(there, there.count(), row_ids.OF_STATE, placed=False)

    def counted(self, log: DataFrame) -> DataFrame:
        return row_ids.last_of_each(log)

    def undue(self, called: str, _sources: OneTopic) -> str:
        return f"{called} says what the state must be at the end, so it is not known what it must be now"

    def answering(self, found: Demanded, positions: Mapping[int, int], lines: int, **_words: bool | str) -> Numbering:
        return row_ids.of_last_values(found.rows, positions, lines)


@dataclass(frozen=True, slots=True)
class TableRows(Log):
    """A table; its rows have its columns, which become text as those of the table did when they were read.

    Attributes:
        columns: of the table; until it has been read there are none, and those that are given are taken for them.
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
        return f"{called} does not say which record demands a row of a table, so it is not known which rows are due"

    def answering(
        self, found: Demanded, positions: Mapping[int, int], lines: int, *, identity: str = "", **_words: bool | str
    ) -> Numbering:
        return row_ids.of_sink(found.rows, positions, lines, anywhere=True, unordered=_OF_TABLE, as_they_are=not identity)


def of_scenario(scenario: Scenario) -> Log:
    """What the sink of a scenario's pipeline is."""
    if scenario.table is not None:
        return TableRows()
    return State() if scenario.pipeline.sink and scenario.pipeline.sink.form == "state" else Log()


def _sharing(rows: DataFrame) -> int:
    """How many rows share a place with another."""
    alike = rows.groupBy("partition", "offset").count().where("count > 1")
    shared: int = alike.selectExpr("coalesce(sum(count), 0)").collect()[0][0]
    return shared


def _unlike(found: Sequence[tuple[str, str]], columns: Columns) -> str:
    """Why these are not the columns of the table; "" if they are. Whole numbers may be of different sizes."""
    there, given = ({name.lower(): kind for name, kind in ones} for ones in (columns, found))
    listed = ", ".join(f"{name} {kind}" for name, kind in columns)
    if len(given) < len(found):
        return "has two columns of one name; keep one"
    missing = next((name for name in there if name not in given), None)
    if missing is not None:
        return f"has no column {missing}, and the table has; the columns of the table are {listed}"
    unknown = next((name for name in given if name not in there), None)
    if unknown is not None:
        return f"has a column {unknown}, and the table has none; the columns of the table are {listed}"
    for name, kind in there.items():
        one = given[name]
        if one not in {kind, "void"} and not {one, kind} <= set(_NUMBERS):
            return f"has a column {name} of type {one}, and that of the table is {kind}; write CAST({name} AS {kind})"
    return ""


def _wrong_columns(names: Sequence[str], sources: OneTopic) -> str:
    """Why columns of these names are no rows; "" if they are."""
    for name in ("key", "value"):
        if name not in names:
            return f"has no column {name}; its columns are {', '.join(names)}. For records without one, write NULL AS {name}"
    unknown = next((name for name in names if name not in _OF_ROWS), None)
    if unknown is not None:
        return f"has a column {unknown}, which no row of a sink has; the columns are {', '.join(_OF_ROWS)}"
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"has two columns {twice}; keep one"
    place = next((name for name in names if name in {"partition", "offset"}), None)
    if place and (refused := sources.refused_place(place)):
        return refused
    if ("partition" in names) != ("offset" in names):
        one, other = ("partition", "offset") if "partition" in names else ("offset", "partition")
        return f"has {one} and no {other}; both together are the place of a record of the source"
    return ""


def _wrong_type(name: str, kind: str) -> str:
    """Why a column may not have this type; "" if it may."""
    if name in {"key", "value"}:
        return "" if kind in _TEXTS else f"has a {name} of type {kind}; CAST({name} AS STRING), or make it a binary"
    return "" if kind in _NUMBERS else f"has a column {name} of type {kind}; give a whole number"
