"""Find the rows of the sink that are out of place, by the definition of `verifiers.disorder`.

The rows of one group of the sink that answer records of one group of the source are a line. In it a record has its rank among
the answered ones as its number, so a line in order is one run, whose numbers and places rise by one together. Spark makes the
runs; where a line has several, a Python function on an executor finds the rows out of place, from the runs of that line alone.
That function travels by value, so executors need numpy, and not this package.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

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
_PLACES = f"{_LINE} n, number"
_FOUND = ArrayType(StructType([StructField(name, LongType()) for name in ("first", "last", "at", "rival")]))


@dataclass(frozen=True, slots=True)
class Order:
    """The rows out of place.

    Attributes:
        checked: rows that were judged.
        late, early: rows that are too late or too early; latest, earliest: by how many records at most.
        undecided: rows that were left out, because their order is not known.
        first: k, g, n and far of the first rows, as many as reports show.
        rows: columns k struct, g struct, n long, far long (above 0 if too late), theirs struct; lazy.
    """

    checked: int
    late: int
    latest: int
    early: int
    earliest: int
    undecided: int
    first: Sequence[Row]
    rows: DataFrame

    @property
    def count(self) -> int:
        """Rows out of place."""
        return self.late + self.early


def of(question: Question, found: Sums, rows: int) -> Order:
    """Judge the order; of all rows, and if some are out of place, of those whose order is known.

    Args:
        rows: how many rows of the sink have the key of a record.

    Raises:
        AuditError: the frames have other rows now, or the executors' Python failed.
    """
    answered = _answered(question, found)
    order = _judged(answered, is_final=False)
    if order.checked != rows:
        raise changed_meanwhile()
    if not order.count or not order.undecided:
        return replace(order, undecided=0)
    return replace(_judged(answered.where("NOT doubtful"), is_final=True), undecided=order.undecided)


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


def _judged(answered: DataFrame, *, is_final: bool) -> Order:
    """Judge these rows.

    Args:
        is_final: whether doubtful rows are left out already; they need not be judged again, and the first rows are needed.
    """
    ranked = answered.selectExpr("*", f"CAST(dense_rank() OVER ({_LINE} number) AS BIGINT) AS rank")
    placed = ranked.selectExpr("*", f"CAST(row_number() OVER ({_PLACES}) AS BIGINT) AS at")
    with _held(_lines(placed)) as lines:
        disordered = lines.where("size(runs) > 1").select("here", "line", F.explode(_by_value()("runs")).alias("one"))
        misplaced = disordered.select("here", "line", "one.*")
        each = misplaced.selectExpr("*", "explode(sequence(0L, last - first)) AS step").selectExpr(
            "here AS _here", "line AS _line", "at + step AS _at", "rival - (first + step) AS far"
        )
        rows = placed.join(each, F.expr("here <=> _here AND line <=> _line AND at = _at"))
        shown = rows.selectExpr("k", "here AS g", "n", "far", "theirs")
        checked, undecided, late, latest, early, earliest = _totals(lines, misplaced)
        is_asked = late + early > 0 and (is_final or not undecided)
        first = shown.select("k", "g", "n", "far").orderBy("g", "n").limit(EXAMPLES).collect() if is_asked else ()
    return Order(checked, late, latest, early, earliest, undecided, first, shown)


@contextmanager
def _held(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep these rows on executors, so that they are made once; some services refuse that, and they are made each time."""
    try:
        kept = rows.persist()
    except PySparkException:
        yield rows
        return
    try:
        yield kept
    finally:
        kept.unpersist()


def _lines(placed: DataFrame) -> DataFrame:
    """Here, line, its numbers of rows and of doubtful ones, and its runs: array<struct<first, last, at>>."""
    begins = placed.selectExpr(
        *("here", "line", "rank", "at", "n", "number", "doubtful"),
        f"coalesce(rank - lag(rank) OVER ({_PLACES}) <> 1, true) AS begins",
    )
    numbered = begins.selectExpr("*", f"count(IF(begins, 1, NULL)) OVER ({_PLACES}) AS run")
    of_run = ("min(rank) AS first", "max(rank) AS last", "min(at) AS at", "count_if(doubtful) AS doubtful")
    runs = numbered.groupBy("here", "line", "run").agg(*map(F.expr, of_run))
    of_line = ("sum(last - first + 1) AS rows", "sum(doubtful) AS doubtful", "collect_list(struct(first, last, at)) AS runs")
    return runs.groupBy("here", "line").agg(*map(F.expr, of_line))


def _totals(lines: DataFrame, misplaced: DataFrame) -> tuple[int, ...]:
    """Return rows, doubtful ones, late ones, how late at most, early ones, how early at most."""
    all_rows = lines.selectExpr("rows", "doubtful", "CAST(NULL AS BOOLEAN) AS late", "0L AS far")
    wrong = misplaced.selectExpr(
        *("last - first + 1 AS rows", "0L AS doubtful", "rival > last AS late"),
        "IF(rival > last, rival - first, last - rival) AS far",
    )
    totals = (
        *("sum(IF(late IS NULL, rows, 0L))", "sum(doubtful)"),
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
