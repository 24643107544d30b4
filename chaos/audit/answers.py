"""Which record of the source each row of the sink answers, where keys may recur.

A row answers a record of its own partition, key and value; else one of its key and value, and it is misrouted; else, if nothing
demands its value, one of its key, and its value is wrong. Each record is answered once, and of those alike the k-th row answers
the k-th record. A row that is left is one too many, and has the id of the first record like it; or its key is not in the
source, and it has an id of the last line. Where a record may be anywhere, the partition plays no part.

Which of several records that are alike a row answers cannot be told from the row. It need not be, for nothing but their order
depends on it; and the order of these cannot be told:

    there too often or too rarely   any of them may be the one too many, or the one that is missing
    in several partitions           and a record may be anywhere: rows of one partition may answer records of any other
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.findings import by_partition

_EXACT, _ALIKE = ("partition", "key", "value"), ("key", "value")


@dataclass(frozen=True, slots=True)
class Answers:
    """What was found.

    Attributes:
        rows: those of the sink with the ``id`` of the record that each answers, null where there is no key.
        unordered: partition and offset of the rows whose order cannot be told; None where that is so of none.
    """

    rows: DataFrame
    unordered: DataFrame | None = None


def find(wanted: DataFrame, sink: DataFrame, lines: int, positions: Mapping[int, int], *, anywhere: bool) -> Answers:
    """The answers to what is demanded.

    Args:
        wanted: partition, offset, key, value and id of what is demanded.
        lines: ids are offset * lines + partition; the last line is that of keys which the source does not have.
        anywhere: whether a record may be in any partition of the sink.
    """
    rows = sink.select("partition", "offset", "timestamp_ms", "key", "value")
    same = _matched(wanted, rows, _ALIKE if anywhere else _EXACT).persist()
    left = same.where("id IS NULL AND key IS NOT NULL").drop("id")
    if not left.take(1) and same.where("id IS NOT NULL").count() == wanted.count():  # a perfect copy, which is the rule
        return Answers(same, _places(same, _spread(same, lines)) if anywhere else None)
    free = wanted.join(same.select("id"), "id", "left_anti")
    moved = _matched(free, left, _ALIKE).persist()
    free = free.join(moved.select("id"), "id", "left_anti")
    others = moved.where("id IS NULL").drop("id")
    others = _looked_up(others, wanted, _EXACT, "here")
    others = _looked_up(others, wanted, _ALIKE, "anywhere").selectExpr("*", "coalesce(here, anywhere) AS first_id").persist()
    surplus = others.where("first_id IS NOT NULL").withColumnRenamed("first_id", "id").select(*same.columns)
    changed = _matched(free, others.where("first_id IS NULL").select(*rows.columns), ("key",)).withColumnRenamed("id", "own")
    changed = _looked_up(changed, wanted, ("key",), "of_key")
    stray = f"min(offset * {lines - 1} + partition) OVER (PARTITION BY key) * {lines} + {lines - 1}"
    changed = changed.selectExpr("*", f"{stray} AS stray").selectExpr("*", "coalesce(own, of_key, stray) AS id").persist()
    parts = (same.where("id IS NOT NULL OR key IS NULL"), moved.where("id IS NOT NULL"), surplus, changed.select(*same.columns))
    named = reduce(DataFrame.unionByName, parts)
    missing = free.join(changed.selectExpr("own AS id"), "id", "left_anti").where(f"offset < {by_partition(positions)}")
    classes = _recurring(wanted, surplus.select(*_ALIKE).unionByName(missing.select(*_ALIKE)))
    return Answers(named, _places(named, classes.unionByName(_spread(named, lines)) if anywhere else classes))


def _matched(wanted: DataFrame, rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """The rows with the ``id`` of what they answer, or null: of those alike in these columns the k-th answers the k-th."""
    nth = f"row_number() OVER (PARTITION BY {', '.join(by)} ORDER BY partition, offset)"
    offered = wanted.selectExpr(*(f"{name} AS _{name}" for name in by), "id", f"{nth} AS _nth")
    alike = F.expr(" AND ".join((*(f"{name} <=> _{name}" for name in by), "nth = _nth")))
    return rows.selectExpr("*", f"{nth} AS nth").join(offered, alike, "left").select(*rows.columns, "id")


def _looked_up(rows: DataFrame, wanted: DataFrame, by: Sequence[str], name: str) -> DataFrame:
    """The rows and, as a last column, the id of the first record that is like each in these columns; null if there is none."""
    firsts = wanted.groupBy(*(F.col(column).alias(f"_{column}") for column in by)).agg(F.min("id").alias(name))
    alike = F.expr(" AND ".join(f"{column} <=> _{column}" for column in by))
    return rows.join(firsts, alike, "left").select(*rows.columns, name)


# whose order cannot be told ------------------------------------------------------------------------------------------------


def _recurring(wanted: DataFrame, odd: DataFrame) -> DataFrame:
    """Key and value of what is demanded more than once, and is there too often or too rarely."""
    recurring = wanted.groupBy(*_ALIKE).count().where("count > 1").selectExpr("key AS _key", "value AS _value")
    return odd.distinct().join(recurring, F.expr("key <=> _key AND value <=> _value"), "left_semi")


def _spread(named: DataFrame, lines: int) -> DataFrame:
    """Key and value of rows that are alike, and are in several partitions or answer records of several."""
    ends = (
        f"{end}({what}) AS {end}_{name}"
        for name, what in (("here", "partition"), ("there", f"id % {lines}"))
        for end in ("min", "max")
    )
    found = named.groupBy(*_ALIKE).agg(*map(F.expr, ends))
    return found.where("min_here < max_here OR min_there < max_there").select(*_ALIKE)


def _places(named: DataFrame, classes: DataFrame) -> DataFrame:
    """Partition and offset of the rows with these keys and values."""
    alike = F.expr("key <=> _key AND value <=> _value")
    return named.join(classes.selectExpr("key AS _key", "value AS _value"), alike, "left_semi").select("partition", "offset")
