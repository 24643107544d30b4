"""Islands: duplicates, gaps, ordering and values of a large log at once, in one scan that does not shuffle rows.

An island is a run of records whose numbers rise by one with their offsets. Between two transaction markers a sound pipeline
writes nothing else, so 10^8 records are some 10^5 islands, and what holds of the islands holds of the records::

    offset            0  1  2  3  4  5  6  7  8  9 10 11 12 13 14      4, 9 and 14 are markers
    number            0  1  2  3  -  4  5  6  7  -  8 10 11  6  -      9 is lost, 6 is there again
    number - offset   0  0  0  0    -1 -1 -1 -1    -2 -1 -1 -7         four groups; that of -1 has a hole

1. A hash aggregation puts each record into the group of its partition, its *line* ``id mod P``, its *block* of 1024 *numbers*
   ``id div P``, and the difference of number and offset (`groups`). A group with as many records as there are numbers
   from its first to its last is an island, since no two records of a partition share an offset. Expected rows are grouped too.
2. A block is *sound* if as many records are there as are expected and their fingerprints agree: exclusive or and sum of a
   hash of partition, id and value (of id and value if a record may be in any partition). Then none is missing, double, wrong
   or elsewhere; two unlike blocks agree by chance with a probability of at most 2^-64. As islands that do not overlap hold no
   number twice, no id is expected twice either.
3. The rows of all other blocks are read again, and the verifiers judge these as if the log held nothing else. Their result for
   a record depends only on records of the same id, so the other blocks change nothing but ``checked``.
4. Order is judged by islands alone (`verifiers.disorder`). Rows of groups that are not islands are read again and cut into
   runs, and records that nothing demands are left out: their blocks are not sound.

A log without runs, for example with every third number in turn in a partition, has a group for each record. Its first rows show
this, or at the latest the number of groups, before they are collected. Then blocks are compared without offsets, and order is
judged piece by piece (`pieces`). If more than half of the records would be read again, the verifiers judge the whole log.
All ways give identical findings. Why scenarios are judged otherwise: docs/adr/0007.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import arrow, disorder, gaps, values
from verifiers.base import Evidence, Finding
from verifiers.duplicates import Duplicates
from verifiers.findings import rule
from verifiers.gaps import Gaps
from verifiers.ordering import Ordering
from verifiers.single_scan import groups, pieces, runs
from verifiers.single_scan.groups import UNDECODABLE, Flags, Groups, Limits, Longs, longs, reduced, starts
from verifiers.single_scan.pieces import Order
from verifiers.single_scan.runs import Runs
from verifiers.values import Values

NAMES = ("duplicates", "gaps", "ordering", "values")
_KINDS = (("duplicates", ("duplicate",)), ("gaps", gaps.KINDS), ("ordering", ("inversion",)), ("values", values.KINDS))
_DEFAULT = Limits()


def check(evidence: Evidence, limits: Limits = _DEFAULT, *, unique: bool = True) -> tuple[Finding, ...]:
    """Judge one log with the verifiers of `NAMES`, in this order.

    Args:
        unique: False if an id may be expected more than once; its first row by (partition, position) then counts as the one
            that demands it. Every row must then have a position, which is unique in its partition.
    """
    expected, observed = summarize(evidence, limits)
    return judge(evidence, expected, observed, limits, unique=unique)


def summarize(
    evidence: Evidence, limits: Limits = _DEFAULT, *, few: bool = False, placed: bool = False
) -> tuple[Groups | None, Groups | None]:
    """Group the expected and the observed rows; None for a side with too many groups.

    Args:
        few: whether the rows may be held, as in `groups.summarize`.
        placed: whether each expected row has a position, as in `groups.summarize_expected`.
    """
    with ThreadPoolExecutor(1) as pool:  # one scan ends while the other begins
        expected = pool.submit(groups.summarize_expected, evidence, limits, few=few, placed=placed)
        observed = groups.summarize(evidence, limits, few=few)
        return expected.result(), observed


def judge(
    evidence: Evidence, expected: Groups | None, observed: Groups | None, limits: Limits, *, unique: bool
) -> tuple[Finding, ...]:
    """Judge as `check` does, from the groups of both sides; a side with too many groups is None."""
    whole = evidence if unique else replace(evidence, expected=demanded(evidence.expected))
    if expected is None or observed is None:
        return _directly(whole)
    partitions = evidence.lines
    doubtful, order = _doubtful(expected, observed, partitions), None
    if observed.by_offset and _are_most(doubtful, observed, partitions, limits):  # only its first rows had runs
        observed = observed.without_offsets()
        doubtful = _doubtful(expected, observed, partitions)
    if not observed.by_offset and not _are_most(doubtful, observed, partitions, limits):
        order = pieces.read(evidence, observed, limits)
        if order.repeated is None and not unique:
            return _directly(whole)
        if order.repeated is not None:
            doubtful = np.union1d(doubtful, order.repeated)
    if _are_most(doubtful, observed, partitions, limits):
        return _directly(whole)
    proved = int(observed["records"][~np.isin(observed.ids(partitions), doubtful)].sum())
    if not len(doubtful):
        ordering = _ordering(evidence, _without_rows(evidence), observed, order, _DEFAULT)
        return tuple(ordering if one.verifier == ordering.verifier else one for one in sound(evidence, proved))
    with _narrowed(evidence, doubtful, (expected, observed), limits, unique=unique) as narrow:
        return narrowly(narrow, proved, partial(_ordering, evidence, narrow, observed, order, limits))


def _without_rows(evidence: Evidence) -> Evidence:
    """Return the evidence without its rows."""
    return replace(evidence, observed=evidence.observed.limit(0), expected=evidence.expected.limit(0))


def narrowly(narrow: Evidence, proved: int, ordering: Callable[[], Finding]) -> tuple[Finding, ...]:
    """Judge a log of which only a part is doubtful.

    Args:
        narrow: the doubtful part.
        proved: number of records outside it, which are known to be right.
        ordering: judges the order of the whole log.
    """
    with ThreadPoolExecutor(len(NAMES)) as pool:  # so few rows cost less than the start of a query
        asked = (
            pool.submit(Duplicates().check, narrow, proved),
            pool.submit(Gaps().check, narrow, proved),
            pool.submit(ordering),
            pool.submit(Values().check, narrow, proved),
        )
        return tuple(one.result() for one in asked)


def demanded(expected: DataFrame) -> DataFrame:
    """Select the first row of each id, by (partition, position)."""
    firsts = expected.groupBy("id").agg(F.expr("min_by(struct(*), struct(partition, position)) AS first"))
    return firsts.select("first.*").select(*expected.columns)


def _directly(evidence: Evidence) -> tuple[Finding, ...]:
    return tuple(verifier.check(evidence) for verifier in (Duplicates(), Gaps(), Ordering(), Values()))


def sound(evidence: Evidence, proved: int) -> tuple[Finding, ...]:
    """Make the findings for a log whose records are all known to be right.

    Args:
        proved: number of records.
    """
    verdict, note = rule(evidence, 0, proved)
    return tuple(
        Finding(name, evidence.subject, verdict, 0, proved, dict.fromkeys(kinds, 0), (), note) for name, kinds in _KINDS
    )


# which blocks are read again -----------------------------------------------------------------------------------------------


def _doubtful(expected: Groups, observed: Groups, partitions: int) -> Longs:
    """Return the blocks that are not proved sound, or that hold groups which are not islands; ascending."""
    found, wanted = observed.ids(partitions), expected.ids(partitions)
    unlike = _unlike(_by_block(expected, partitions), _by_block(observed, partitions))
    broken = found[~observed.solid() | _overlapping(observed, found)] if observed.by_offset else found[:0]
    undecodable = found[found == UNDECODABLE]
    return np.unique(np.concatenate((unlike, broken, undecodable, wanted[expected["optional"] > 0])))


def _are_most(blocks: Longs, observed: Groups, partitions: int, limits: Limits) -> bool:
    """Whether these blocks have more than half of the records, and more than `Limits.small_rows`."""
    again = np.isin(observed.ids(partitions), blocks)
    proved, rest = (int(observed["records"][part].sum()) for part in (~again, again))
    return rest > proved and rest > limits.small_rows


def _by_block(side: Groups, partitions: int) -> Longs:
    """A row for each block, ascending: block, xor, records, total."""
    blocks = side.ids(partitions)
    order = np.argsort(blocks, kind="stable")
    begins = starts(blocks[order])
    sums = (reduced(np.add, side[name][order], begins) for name in ("records", "total"))
    return np.stack((blocks[order][begins], reduced(np.bitwise_xor, side["xor"][order], begins), *sums), axis=1)


def _unlike(expected: Longs, observed: Longs) -> Longs:
    """Return blocks that only one side has, or whose contents differ."""
    both, here, there = np.intersect1d(expected[:, 0], observed[:, 0], assume_unique=True, return_indices=True)
    same = (expected[here] == observed[there]).all(axis=1)
    return np.setdiff1d(np.concatenate((expected[:, 0], observed[:, 0])), both[same])


def _overlapping(side: Groups, blocks: Longs) -> Flags:
    """Flag groups that begin before the last number of another one of their block."""
    order = np.lexsort((side["first"], blocks))
    flags = np.zeros(len(order), np.bool_)
    same = blocks[order][1:] == blocks[order][:-1]
    flags[order[1:]] = same & (side["first"][order][1:] <= side["last"][order][:-1])
    return flags


# reading them again --------------------------------------------------------------------------------------------------------


@contextmanager
def _narrowed(
    evidence: Evidence, doubtful: Longs, sides: tuple[Groups, Groups], limits: Limits, *, unique: bool
) -> Iterator[Evidence]:
    """Narrow the evidence to these blocks; their rows are read once, and kept until the context ends."""
    expected = _within(evidence.expected, evidence, doubtful, limits, _span(sides[0], evidence, doubtful, "position"))
    rows = groups.decoded(evidence.observed)
    observed = _within(rows, evidence, doubtful, limits, _span(sides[1], evidence, doubtful, "offset"))
    narrow = replace(
        evidence, expected=expected if unique else demanded(expected), observed=observed.select(*evidence.observed.columns)
    )
    kept = (narrow.expected.persist(), narrow.observed.persist())
    try:
        yield narrow
    finally:
        for frame in kept:
            frame.unpersist()


def _within(rows: DataFrame, evidence: Evidence, blocks: Longs, limits: Limits, span: str) -> DataFrame:
    """Select the rows of these blocks; rows need an id.

    Args:
        span: SQL that holds for all of them, with which a Parquet reader can skip others.
    """
    wanted = arrow.frame(rows.sparkSession, pa.table({"_block": blocks}))
    keyed = rows.where(span).withColumn("_block", F.expr(groups.block_of(evidence.lines, limits)))
    return keyed.join(F.broadcast(wanted), "_block", "left_semi").drop("_block")


def _span(side: Groups, evidence: Evidence, blocks: Longs, place: str) -> str:
    """SQL: the range of offsets (or positions) of the rows of these blocks, in any partition.

    It is one comparison: to compare each row with a few ranges costs more than to look its block up, and with a hundred of
    them a query has a method so long that the JVM never compiles it.
    """
    wanted = np.isin(side.ids(evidence.lines), blocks)
    if not side.placed or not wanted.any():
        return "true"
    first, last, delta = (side[name][wanted] for name in ("first", "last", "delta"))
    return f"{place} BETWEEN {(first - delta).min()} AND {(last - delta).max()}"


# order ---------------------------------------------------------------------------------------------------------------------


def _ordering(evidence: Evidence, narrow: Evidence, observed: Groups, order: Order | None, limits: Limits) -> Finding:
    """Judge the order by runs: islands, and rows read again for other groups; by pieces if there are too many."""
    strays = _strays(narrow)
    found = runs_of(narrow, observed, limits)
    if found is not None:
        checked = int(observed["records"][observed["line"] != UNDECODABLE].sum())
        wrong = runs.disorder_of(found.without(*strays) if len(strays[0]) else found)
    else:
        order = order or pieces.read(evidence, observed, limits)
        checked, wrong = order.checked, pieces.disorder_of(evidence, strays, limits) if order.falls else disorder.NONE
    return Ordering().found(evidence, checked - len(strays[0]), wrong, (narrow, evidence))


def _strays(narrow: Evidence) -> tuple[Longs, Longs]:
    """Return partition and offset of the records that nothing demands; only doubtful blocks can have such."""
    rows = groups.decoded(narrow.observed).where("id IS NOT NULL")
    found = arrow.table(rows.join(narrow.expected.select("id"), "id", "left_anti").select("partition", "offset"))
    partition, offset = longs(found, "partition", "offset")
    return partition, offset


def runs_of(evidence: Evidence, observed: Groups | None, limits: Limits = _DEFAULT) -> Runs | None:
    """Return the log as runs; None if there are too many.

    Args:
        evidence: the log, or at least its blocks with groups which are not islands.
        observed: the groups of the whole log.
    """
    if observed is None or not observed.by_offset:
        return None
    blocks = observed.ids(evidence.lines)
    again = np.isin(blocks, blocks[~observed.solid()])
    if int(observed["records"][again].sum()) > limits.most_rows:
        return None
    found = runs.of_groups(observed, ~again)
    return found.merge(_cut(evidence, np.unique(blocks[again]), limits)) if again.any() else found


def _cut(narrow: Evidence, blocks: Longs, limits: Limits) -> Runs:
    return cut(_within(groups.decoded(narrow.observed), narrow, blocks, limits, "true"), narrow.lines)


def cut(rows: DataFrame, partitions: int) -> Runs:
    """Cut the rows with an id into runs; they are held in the driver's memory meanwhile."""
    columns = ("partition", "offset", f"id % {partitions} AS line", f"id DIV {partitions} AS number")
    found = arrow.table(rows.where("id IS NOT NULL").selectExpr(*columns))
    return runs.of_rows(*(column.to_numpy().astype(np.int64, copy=False) for column in found.columns))
