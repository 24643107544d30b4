"""Find the rows of the sink that are out of place, by the definition of `verifiers.disorder`.

The rows of one group of the sink that answer records of one group of the source are a line. In it a record has its rank among
the answered ones as its number, so a line in order is one run, whose numbers and places rise by one together. Spark makes the
runs; where a line has several, a Python function on an executor finds the rows out of place, from the runs of that line alone.
That function travels by value, so executors need numpy, and not this package.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from verifiers import disorder
from verifiers.disorder import of_line
from verifiers.findings import EXAMPLES
from verifiers.frames import matching, sums
from verifiers.frames.question import AuditError, Question, changed_meanwhile
from verifiers.frames.sums import Sums

_LINE = "PARTITION BY here, line ORDER BY"
_FOUND = ArrayType(StructType([StructField(name, LongType()) for name in ("first", "last", "at", "rival")]))


@dataclass(frozen=True, slots=True)
class Order:
    """The rows out of place.

    Attributes:
        checked: rows that were judged.
        late, early: rows that are too late or too early; latest, earliest: by how many records at most.
        undecided: rows that were left out, because their order is not known.
        rows: columns k struct, g struct, n long, far long (above 0 if too late), theirs struct; lazy.
    """

    checked: int
    late: int
    latest: int
    early: int
    earliest: int
    undecided: int
    rows: DataFrame

    @property
    def count(self) -> int:
        """Rows out of place."""
        return self.late + self.early

    def first(self) -> list[Row]:
        """Return k, g, n and far of the first rows, as many as reports show."""
        return self.rows.select("k", "g", "n", "far").orderBy("g", "n").limit(EXAMPLES).collect()


def of(question: Question, found: Sums, rows: int) -> Order:
    """Judge the order; of all rows, and if some are out of place, of those whose order is known.

    Args:
        rows: how many rows of the sink have the key of a record.

    Raises:
        AuditError: the frames have other rows now, or the executors' Python failed.
    """
    answered = _answered(question, found)
    order = _judged(answered, 0)
    if order.checked != rows:
        raise changed_meanwhile()
    if not order.count:
        return order
    undecided = answered.where("doubtful").count()
    return _judged(answered.where("NOT doubtful"), undecided) if undecided else order


def _answered(question: Question, found: Sums) -> DataFrame:
    """Rows of the sink with an answer: k, here, line, n, number, doubtful, theirs."""
    rows = sums.both(question)
    columns = ("k", "g AS here", "answer.g AS line", "n", "answer.n AS number", "doubtful", "theirs")
    parts = []
    if found.differing is None or found.differing:
        differing = matching.matched(question, rows.where(sums.in_buckets(question, found, that_differ=True)))
        parts.append(differing.where("NOT mine AND answer IS NOT NULL").selectExpr(*columns))
    if found.differing is not None:
        others = sums.hashed(question, rows.where(sums.in_buckets(question, found, that_differ=False)))
        parts.append(matching.equal(others).selectExpr(*columns))
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _judged(answered: DataFrame, undecided: int) -> Order:
    """Judge these rows."""
    ranked = answered.selectExpr("*", f"CAST(dense_rank() OVER ({_LINE} number) AS BIGINT) AS rank")
    placed = ranked.selectExpr("*", f"CAST(row_number() OVER ({_LINE} n, number) AS BIGINT) AS at")
    lines = _lines(placed)
    disordered = lines.where("size(runs) > 1").select("here", "line", F.explode(_by_value()("runs")).alias("one"))
    misplaced = disordered.select("here", "line", "one.*")
    each = misplaced.selectExpr("*", "explode(sequence(0L, last - first)) AS step").selectExpr(
        "here AS _here", "line AS _line", "at + step AS _at", "rival - (first + step) AS far"
    )
    rows = placed.join(each, F.expr("here <=> _here AND line <=> _line AND at = _at"))
    checked, late, latest, early, earliest = _totals(lines, misplaced)
    shown = rows.selectExpr("k", "here AS g", "n", "far", "theirs")
    return Order(checked, late, latest, early, earliest, undecided, shown)


def _lines(placed: DataFrame) -> DataFrame:
    """Here, line, its number of rows, and its runs: array<struct<first, last, at>>."""
    begins = placed.selectExpr(
        "here", "line", "rank", "at", f"coalesce(rank - lag(rank) OVER ({_LINE} at) <> 1, true) AS begins"
    )
    numbered = begins.selectExpr("*", f"count(IF(begins, 1, NULL)) OVER ({_LINE} at) AS run")
    runs = numbered.groupBy("here", "line", "run").agg(
        *map(F.expr, ("min(rank) AS first", "max(rank) AS last", "min(at) AS at"))
    )
    sums_of_line = ("sum(last - first + 1) AS rows", "collect_list(struct(first, last, at)) AS runs")
    return runs.groupBy("here", "line").agg(*map(F.expr, sums_of_line))


def _totals(lines: DataFrame, misplaced: DataFrame) -> tuple[int, ...]:
    """Return rows, late ones, how late at most, early ones, how early at most."""
    all_rows = lines.selectExpr("rows", "CAST(NULL AS BOOLEAN) AS late", "0L AS far")
    wrong = misplaced.selectExpr(
        "last - first + 1 AS rows", "rival > last AS late", "IF(rival > last, rival - first, last - rival) AS far"
    )
    totals = (
        "sum(IF(late IS NULL, rows, 0L))",
        *("sum(IF(late, rows, 0L))", "max(IF(late, far, 0L))"),
        *("sum(IF(NOT late, rows, 0L))", "max(IF(NOT late, far, 0L))"),
    )
    try:
        return tuple(all_rows.unionByName(wrong).selectExpr(*(f"coalesce({one}, 0L)" for one in totals)).collect()[0])
    except PySparkException as error:
        why = next((line.strip() for line in str(error).splitlines() if "ModuleNotFoundError: " in line), "")
        if why:
            raise AuditError(f"order: the executors' Python failed ({why}): install it there, or order=None") from None
        raise


def _by_value() -> Callable[[str], Column]:
    """Make Spark's function of `_out_of_place`; the modules that it needs are not imported on executors."""
    for module in (disorder, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return F.udf(_out_of_place, _FOUND, useArrow=False)


def _out_of_place(runs: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Return first, last, at and rival of the rows of a line that are out of place."""
    first, last, at = np.array(sorted(runs, key=_at), np.int64).T
    return list(zip(*of_line(first, last, at).tolist(), strict=True))


def _at(run: tuple[int, int, int]) -> int:
    return run[2]
