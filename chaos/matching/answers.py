"""Find the record of the source that each row of the sink answers, if keys may recur.

A row answers a record of its own partition, key and value; else one of its key and value, and it is misrouted; else, if nothing
demands its value, one of its key, and its value is wrong. Each record is answered once, and the k-th of several equal rows
answers the k-th equal record; those that the pipeline has processed come first. A row that is left over is one too many, and
has the id of the first record like it; or its key is not in the source, and it has an id of the last line. If a record may be
anywhere, the partition plays no part.

A row does not show which of several equal records it answers. Only their order depends on it; so the order of these is not
known:

    there too often or too rarely   any of them may be the one too many, or the one that is missing
    with a value nothing demands    and a key that recurs: the row may stand in the place of any of its records
    in several partitions           and a record may be anywhere: rows of one partition may answer records of any other
    not processed yet               and a log was compacted: the rows of earlier ones may have been removed, or their records

Compaction removes all but the last records of a key, so it leaves the last of several equal records. If a log was compacted,
the last row answers the last of them that was processed, and so on backwards. Then two things are undecided:

    a row that is left over      the source was compacted: the row may answer a record that was removed; so may one of another
                                 value, unless it is where the answer to a record of its key would be
    a record without an answer   the sink was compacted, and may have lost the row to a later one of its key
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.findings import by_partition

_EXACT, _ALIKE = ("partition", "key", "value"), ("key", "value")


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows of the sink, matched with records.

    Attributes:
        rows: rows of the sink with the ``id`` of the record that each answers, null without a key.
        unordered: partition and offset of the rows whose order is not known; None if there are none.
        undecided: number of rows that are left out, because the source was compacted.
        removed: ``id`` of the records whose answers may have been removed from the sink; None if there are none.
    """

    rows: DataFrame
    unordered: DataFrame | None = None
    undecided: int = 0
    removed: DataFrame | None = None


def find(
    wanted: DataFrame,
    sink: DataFrame,
    lines: int,
    positions: Mapping[int, int],
    *,
    anywhere: bool,
    compacted: Collection[str] = (),
    keep: Callable[[DataFrame], DataFrame] = DataFrame.persist,
    known: DataFrame | None = None,
    as_they_are: bool = False,
) -> Answers:
    """Match the rows of a sink with the demanded records.

    Args:
        wanted: partition, offset, key, value and id of demanded records, and whether compaction may have removed the answer.
        lines: ids are offset * lines + partition; the last line is that of keys which the source does not have.
        anywhere: whether a record may be in any partition of the sink.
        compacted: ``source``, ``sink``, or both.
        keep: keeps rows that several queries use.
        known: partition and offset of rows with a certain answer, and its ``id``.
        as_they_are: whether a row that is left over has an id of the last line even if its key is in the source.
    """
    processed = f"offset < {by_partition(positions)}"
    match = partial(matched, processed=processed, backwards=bool(compacted))
    rows = sink.select("partition", "offset", "timestamp_ms", "key", "value")
    same = keep(_certain(wanted, rows, known, partial(match, by=_ALIKE if anywhere else _EXACT)))
    early = [wanted.where(f"NOT {processed}").select(*_ALIKE)] if compacted else []
    left = same.where("id IS NULL AND key IS NOT NULL").drop("id")
    if not left.take(1) and same.where("id IS NOT NULL").count() == wanted.count():  # a perfect copy, which is the rule
        return Answers(same, _places(same, [*early, *([_spread(same, lines)] if anywhere else [])]))
    free = wanted.join(same.select("id"), "id", "left_anti")
    certain = f"{processed} AND NOT removable" if "source" in compacted else "true"
    moved = keep(match(free.where(certain), left, _ALIKE))
    free = keep(free.join(moved.select("id"), "id", "left_anti"))
    others = moved.where("id IS NULL").drop("id")
    others = _looked_up(others, wanted, _EXACT, "here")
    others = keep(_looked_up(others, wanted, _ALIKE, "anywhere").selectExpr("*", "coalesce(here, anywhere) AS first_id"))
    surplus = others.where("first_id IS NOT NULL").withColumnRenamed("first_id", "id").select(*same.columns)
    changed = match(free.where(certain), others.where("first_id IS NULL").select(*rows.columns), ("key",))
    if "source" in compacted:
        sure = (one.where("id IS NOT NULL").select(*changed.columns) for one in (same, moved))
        changed = _in_their_places(keep(changed), reduce(DataFrame.unionByName, sure), lines, keep)
    changed = keep(_named(changed.withColumnRenamed("id", "own"), wanted, lines, as_they_are=as_they_are))
    undecided = surplus.count() + changed.where("own IS NULL").count() if "source" in compacted else 0
    rest = [changed.where("own IS NOT NULL")] if "source" in compacted else [surplus, changed]
    parts = (same.where("id IS NOT NULL OR key IS NULL"), moved.where("id IS NOT NULL"), *rest)
    named = keep(reduce(DataFrame.unionByName, (one.select(*same.columns) for one in parts)))
    missing = free.join(changed.selectExpr("own AS id"), "id", "left_anti").where(processed)
    odd = _recurring(wanted, surplus.select(*_ALIKE).unionByName(missing.select(*_ALIKE)), _ALIKE)
    wrong = _recurring(wanted, changed.select(*_ALIKE), ("key",))
    unordered = _places(named, [odd, wrong, *early, *([_spread(named, lines)] if anywhere else [])])
    removed = missing.where("removable").select("id") if "sink" in compacted else None
    return Answers(named, unordered, undecided, removed)


def _certain(
    wanted: DataFrame, rows: DataFrame, known: DataFrame | None, match: Callable[[DataFrame, DataFrame], DataFrame]
) -> DataFrame:
    """Add the ``id`` of the answered record to rows, or null: as known, or else as matched."""
    if known is None:
        return match(wanted, rows)
    free, left = wanted.join(known.select("id"), "id", "left_anti"), rows.join(known, ["partition", "offset"], "left_anti")
    sure = rows.join(known, ["partition", "offset"]).select(*rows.columns, "id")
    return sure.unionByName(match(free, left))


def matched(
    wanted: DataFrame, rows: DataFrame, by: Sequence[str], processed: str = "true", *, backwards: bool = False
) -> DataFrame:
    """Add the ``id`` of the answered record to rows, or null: among rows equal in these columns, the k-th answers the k-th.

    Args:
        processed: SQL that holds for records that are answered first.
        backwards: whether both are numbered from the last one on.
    """
    first = f"PARTITION BY {', '.join(by)} ORDER BY"
    places = "partition DESC, offset DESC" if backwards else "partition, offset"
    asked = f"{first} NOT ({processed}), {places}"
    offered = wanted.selectExpr(*(f"{name} AS _{name}" for name in by), "id", f"row_number() OVER ({asked}) AS _nth")
    alike = F.expr(" AND ".join((*(f"{name} <=> _{name}" for name in by), "nth = _nth")))
    numbered = rows.selectExpr("*", f"row_number() OVER ({first} {places}) AS nth")
    return numbered.join(offered, alike, "left").select(*rows.columns, "id")


def _named(changed: DataFrame, wanted: DataFrame, lines: int, *, as_they_are: bool) -> DataFrame:
    """Give an ``id`` to rows with a value that nothing demands: ``own``, else the first of the key, else of the last line."""
    alike = "partition, offset" if as_they_are else "key"  # rows as they are have nothing in common
    stray = f"min(offset * {lines - 1} + partition) OVER (PARTITION BY {alike}) * {lines} + {lines - 1} AS stray"
    no_key = changed.selectExpr("*", "CAST(NULL AS BIGINT) AS of_key")
    found = (no_key if as_they_are else _looked_up(changed, wanted, ("key",), "of_key")).selectExpr("*", stray)
    return found.selectExpr("*", "coalesce(own, of_key, stray) AS id")


def _in_their_places(changed: DataFrame, sure: DataFrame, lines: int, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Keep the answers of changed rows only if they lie behind all rows before the record's place, and before the others.

    A row elsewhere is an earlier version of its key, and the record has no answer.
    """
    for beside in (sure, sure.limit(0)):
        found = changed.where("id IS NOT NULL")
        if not found.take(1):
            return changed
        told = "beside" if beside is sure else "true"
        both = found.selectExpr("*", "false AS beside").unionByName(beside.selectExpr("*", "true AS beside"))
        numbered = both.selectExpr("*", f"id % {lines} AS line", f"id DIV {lines} AS number")
        of_line, before = "PARTITION BY partition, line", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        placed = numbered.selectExpr(
            "*",
            f"max(IF({told}, offset, NULL)) OVER ({of_line} ORDER BY number, offset {before}) AS after",
            # rows behind, in n log n steps: Spark computes a frame up to UNBOUNDED FOLLOWING anew for each row
            f"min(IF({told}, offset, NULL)) OVER ({of_line} ORDER BY number DESC, offset DESC {before}) AS before",
        ).where("NOT beside")
        fits = "coalesce(offset > after, true) AND coalesce(offset < before, true)"
        kept = placed.selectExpr(*(name for name in changed.columns if name != "id"), f"IF({fits}, id, NULL) AS id")
        changed = keep(kept.select(*changed.columns).unionByName(changed.where("id IS NULL")))
    return changed


def _looked_up(rows: DataFrame, wanted: DataFrame, by: Sequence[str], name: str) -> DataFrame:
    """Add a last column to rows: the id of the first record that equals each in these columns, or null."""
    firsts = wanted.groupBy(*(F.col(column).alias(f"_{column}") for column in by)).agg(F.min("id").alias(name))
    alike = F.expr(" AND ".join(f"{column} <=> _{column}" for column in by))
    return rows.join(firsts, alike, "left").select(*rows.columns, name)


# unknown order -------------------------------------------------------------------------------------------------------------


def _recurring(wanted: DataFrame, odd: DataFrame, by: Sequence[str]) -> DataFrame:
    """Select the odd keys and values that equal, in these columns, a record that is demanded more than once."""
    recurring = wanted.groupBy(*(F.col(name).alias(f"_{name}") for name in by)).count().where("count > 1")
    alike = F.expr(" AND ".join(f"{name} <=> _{name}" for name in by))
    return odd.distinct().join(recurring, alike, "left_semi")


def _spread(named: DataFrame, lines: int) -> DataFrame:
    """Return key and value of equal rows that are in several partitions, or answer records of several."""
    ends = (
        f"{end}({what}) AS {end}_{name}"
        for name, what in (("here", "partition"), ("there", f"id % {lines}"))
        for end in ("min", "max")
    )
    found = named.groupBy(*_ALIKE).agg(*map(F.expr, ends))
    return found.where("min_here < max_here OR min_there < max_there").select(*_ALIKE)


def _places(named: DataFrame, classes: Sequence[DataFrame]) -> DataFrame | None:
    """Return partition and offset of the rows with these keys and values; None if there are no classes."""
    if not classes:
        return None
    these = reduce(DataFrame.unionByName, classes).selectExpr("key AS _key", "value AS _value")
    return named.join(these, F.expr("key <=> _key AND value <=> _value"), "left_semi").select("partition", "offset")
