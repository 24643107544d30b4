"""Groups: a log, or a part of one, summarized in one row for each run of consecutive records (used by `islands`).

    partition  line   block            delta            records  optional  first  last  xor  total
    int        id%P   id div P >> 10   number - offset  of which not required    numbers of  the fingerprints

``number`` is ``id div P``. Records without an id are in line and block -1, and their number is their offset. A record's
fingerprint is a 64-bit hash of (partition, id, value), or of (id, value) if a record may be in any partition. Expected rows
have positions instead of offsets. If they are not grouped by these, their delta is 0, and first and last are the positions
that demand them (-1 if one has none).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import arrow
from verifiers.base import Evidence

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

UNDECODABLE = -1
_LEAST = (0, *(10**power for power in range(1, 19)))  # number with one digit, with two, …
# A cast takes " 07" for 7, unlike `findings.decoded`; a text with any other character is longer than its number.
_ID = f"CASE WHEN id >= get(array({', '.join(f'{one}L' for one in _LEAST)}), octet_length(key) - 1) THEN id END"
_HOME = ("partition", "line", "block")
_ROW = ("number", "fingerprint")
_KEY = (*_HOME, "delta")
_HOW = {
    "records": np.add,
    "optional": np.add,
    "first": np.minimum,
    "last": np.maximum,
    "xor": np.bitwise_xor,
    "total": np.add,
}
_COLUMNS = (*_KEY, *_HOW)
_TOTALS = (
    "count(*) AS records",
    "bit_xor(fingerprint) AS xor",
    "sum(shiftrightunsigned(fingerprint, 32)) AS total",  # the upper half only: 2^31 records cannot overflow the sum
)
_ENDS = ("min(number) AS first", "max(number) AS last")
_OPTIONAL = "count_if(NOT required) AS optional"
_OPTIONAL_ONE = "bigint(NOT required) AS optional"  # for a single row
_PROBE = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of blocks, and how much may be held in the driver's memory.

    Attributes:
        block_bits: a block has 2 to the power of this many numbers.
        least_run: least mean number of records in a group of the first rows; below it, groups are made without offsets.
        most_groups: of one log, some 200 bytes each while they are collected.
        most_rows: held at once, some 50 bytes each.
        most_ids: ticked off, a byte each.
        small_rows: so many are read again even if they are most of the log.
        held_rows: of both logs of an audit; so few are grouped in this process, not by Spark.
        driver_rows: of both logs of an audit; executors compare so many, or more, and the driver holds a row for each chunk.
        chunk_bits: a chunk has at least 2 to the power of this many rows in the mean.
        first_chunks: no more are made at first, of both logs; smaller ones only if too many rows are in those that differ.
    """

    block_bits: int = 10
    least_run: int = 8
    most_groups: int = 4_000_000
    most_rows: int = 8_000_000
    most_ids: int = 500_000_000
    small_rows: int = 100_000
    held_rows: int = 200_000
    driver_rows: int = 10_000_000
    chunk_bits: int = 4
    first_chunks: int = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The summary of a log.

    Attributes:
        columns: by name, as above, all of one length, ordered by the first four.
        by_offset: False if ``delta`` is 0 throughout, so that a block has one group in each partition.
        placed: whether a group's records are between the offsets (or positions) ``first - delta`` and ``last - delta``.
    """

    columns: Mapping[str, Longs]
    by_offset: bool
    placed: bool

    def __getitem__(self, column: str) -> Longs:
        return self.columns[column]

    def merge(self, other: "Groups") -> "Groups":
        """Merge the groups of two parts; associative and commutative.

        Raises:
            ValueError: one was made by offset and the other was not.
        """
        if self.by_offset is not other.by_offset:
            raise ValueError("groups by offset and groups without it cannot be merged: summarize both parts alike")
        columns = {name: np.concatenate((self[name], other[name])) for name in _COLUMNS}
        return _merged(columns, by_offset=self.by_offset, placed=self.placed and other.placed)

    def without_offsets(self) -> "Groups":
        """Return one group for each block in each partition."""
        return _merged({**self.columns, "delta": np.zeros_like(self["delta"])}, by_offset=False, placed=False)

    def solid(self) -> Flags:
        """Whether each group is an island: as many records as numbers, in the order of their offsets."""
        return np.asarray(self["records"] == self["last"] - self["first"] + 1, np.bool_)

    def ids(self, partitions: int) -> Longs:
        """Return one number for line and block of each group; `block_of` computes it for a row."""
        return np.where(self["line"] < 0, UNDECODABLE, self["block"] * partitions + self["line"])


def summarize(evidence: Evidence, limits: Limits, *, few: bool = False) -> Groups | None:
    """Summarize the observed log; None if there are too many groups to be held.

    Args:
        few: whether its rows may be held. Spark takes longer to group some ten thousand than to hand them over.
    """
    rows = _keyed(decoded(evidence.observed), evidence, limits, "offset").selectExpr(*_HOME, "number - offset AS delta", *_ROW)
    if few:
        return _unless_many(_of_few(rows.selectExpr(*_KEY, "fingerprint", "0L AS optional", "number AS place"), limits), limits)
    by_offset = _have_runs(rows, limits)
    keyed = rows if by_offset else rows.withColumn("delta", F.lit(0).cast("long"))
    return _bounded(keyed, (*_TOTALS, "0L AS optional", *_ENDS), limits, by_offset=by_offset, placed=by_offset)


def _have_runs(rows: DataFrame, limits: Limits) -> bool:
    """Whether the first rows are in few groups."""
    probe = rows.select(*_KEY).take(_PROBE)
    return len(set(probe)) * limits.least_run <= len(probe)


def summarize_expected(evidence: Evidence, limits: Limits, *, few: bool = False, placed: bool = False) -> Groups | None:
    """Summarize the expected rows; the other arguments are those of `summarize`.

    Args:
        placed: whether every row has a position. If such rows have runs, they are grouped by position, as observed ones are by
            offset, so that the groups show whether ids rise with the positions (`dealt_in_turn`).
    """
    keyed = _keyed(evidence.expected, evidence, limits, "position")
    if placed:
        found = _by_position(keyed.selectExpr(*_HOME, "number - position AS delta", *_ROW, "required"), limits, few=few)
        if found is not None:
            return found
    rows = keyed.selectExpr(*_HOME, "0L AS delta", *_ROW, "position", "required")
    if few:
        single = rows.selectExpr(*_KEY, "fingerprint", _OPTIONAL_ONE, "coalesce(position, -1L) AS place")
        return _unless_many(_expected_of_few(single), limits)
    ends = {"min": "first", "max": "last"}
    places = (f"IF(count(position) = count(*), {end}(position), -1L) AS {name}" for end, name in ends.items())
    return _bounded(rows, (*_TOTALS, _OPTIONAL, *places), limits, by_offset=False, placed=True)


def _by_position(rows: DataFrame, limits: Limits, *, few: bool) -> Groups | None:
    """Group by the difference of number and position; None if the rows have no runs, or too many of them."""
    if few:
        found = _of_few(rows.selectExpr(*_KEY, "fingerprint", _OPTIONAL_ONE, "number AS place"), limits)
        return _unless_many(found, limits) if found.by_offset else None
    if not _have_runs(rows, limits):
        return None
    return _bounded(rows, (*_TOTALS, _OPTIONAL, *_ENDS), limits, by_offset=True, placed=True)


def decoded(observed: DataFrame) -> DataFrame:
    """Do what `findings.decoded` does without a regular expression, at the speed of a scan."""
    return observed.withColumn("id", F.expr("try_cast(key AS BIGINT)")).withColumn("id", F.expr(_ID))


def dealt_in_turn(log: Groups) -> bool:
    """Whether the groups show that ids are places: each partition has one line, which is in no other, and its ids rise.

    It follows that no id is there twice. False if the groups do not show it.
    """
    if not log.by_offset or not lines_are_alone(log):
        return False
    order = np.lexsort((log["first"], log["partition"]))
    home, first, last, delta = (log[name][order] for name in ("partition", "first", "last", "delta"))
    behind = (first[1:] > last[:-1]) & (first[1:] - delta[1:] > last[:-1] - delta[:-1])  # within a group both rise by one
    return bool((behind | (home[1:] != home[:-1])).all())


def lines_are_alone(log: Groups) -> bool:
    """Whether each partition of a log has the ids of one line, and each line is in one partition."""
    pairs = np.unique(np.stack((log["partition"], log["line"])), axis=1)
    return all(len(np.unique(side)) == pairs.shape[1] for side in pairs)


def block_of(partitions: int, limits: Limits) -> str:
    """SQL: one number for line and block of a row with an ``id``."""
    return f"coalesce(shiftright(id DIV {partitions}, {limits.block_bits}) * {partitions} + id % {partitions}, {UNDECODABLE})"


def longs(rows: pa.Table, *names: str) -> tuple[Longs, ...]:
    """Return columns of integers."""
    return tuple(rows.column(name).to_numpy().astype(np.int64, copy=False) for name in names)


def starts(*columns: Longs) -> Longs:
    """Return the places where a run of equal values begins; the columns must be sorted."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    changes = np.any([np.diff(column) != 0 for column in columns], axis=0)
    return np.concatenate(([0], np.flatnonzero(changes) + 1))


def reduced(how: np.ufunc, column: Longs, begins: Longs) -> Longs:
    """Reduce each run to one value."""
    return np.asarray(how.reduceat(column, begins), np.int64)


def _keyed(rows: DataFrame, evidence: Evidence, limits: Limits, place: str) -> DataFrame:
    """Add the columns of `_HOME` and `_ROW` to rows."""
    partitions = evidence.lines
    proved = "id, value" if evidence.anywhere else "partition, id, value"
    numbered = rows.selectExpr("*", f"coalesce(id % {partitions}, {UNDECODABLE}L) AS line", f"id DIV {partitions} AS numbered")
    return numbered.selectExpr(
        "*",
        f"coalesce(shiftright(numbered, {limits.block_bits}), {UNDECODABLE}L) AS block",
        f"coalesce(numbered, {place}) AS number",
        f"IF(id IS NULL, 0L, xxhash64({proved})) AS fingerprint",
    )


def _bounded(rows: DataFrame, totals: Sequence[str], limits: Limits, *, by_offset: bool, placed: bool) -> Groups | None:
    found = arrow.table(rows.groupBy(*_KEY).agg(*map(F.expr, totals)).limit(limits.most_groups + 1))
    if len(found) > limits.most_groups:
        return None
    columns = {name: found.column(name).to_numpy().astype(np.int64, copy=False) for name in _COLUMNS}
    return _merged(columns, by_offset=by_offset, placed=placed and not (columns["first"] < columns["delta"]).any())


def _of_few(rows: DataFrame, limits: Limits) -> Groups:
    """Group the observed log, from rows as `_single` takes them."""
    single = _single(rows)
    probe = np.stack([single[name][:_PROBE] for name in _KEY])
    by_offset = np.unique(probe, axis=1).shape[1] * limits.least_run <= probe.shape[1]
    if not by_offset:
        single["delta"] = np.zeros_like(single["delta"])
    return _merged(single, by_offset=by_offset, placed=by_offset)


def _expected_of_few(rows: DataFrame) -> Groups:
    """Group the expected rows, as `_single` takes them; without a place (-1), both ends are -1, too."""
    single = _single(rows)
    found = _merged(single, by_offset=False, placed=not (single["first"] < 0).any())
    first, last = found["first"], found["last"]
    return replace(found, columns={**found.columns, "last": np.where(first < 0, first, last)})


def _single(rows: DataFrame) -> dict[str, Longs]:
    """Load rows, each as a group of its own.

    Args:
        rows: columns of `_KEY`, fingerprint, optional (0 or 1), and place, which becomes first and last.
    """
    found = arrow.table(rows)
    fingerprint, optional, place = longs(found, "fingerprint", "optional", "place")
    upper = (fingerprint.view(np.uint64) >> np.uint64(32)).astype(np.int64)
    values = (np.ones_like(place), optional, place, place, fingerprint, upper)
    return {**dict(zip(_KEY, longs(found, *_KEY), strict=True)), **dict(zip(_HOW, values, strict=True))}


def _unless_many(found: Groups, limits: Limits) -> Groups | None:
    return found if len(found["records"]) <= limits.most_groups else None


def _merged(columns: Mapping[str, Longs], *, by_offset: bool, placed: bool) -> Groups:
    """Sort groups by key, and merge those with equal keys."""
    order = np.lexsort([columns[name] for name in reversed(_KEY)])
    ordered = {name: column[order] for name, column in columns.items()}
    begins = starts(*(ordered[name] for name in _KEY))
    keys = {name: ordered[name][begins] for name in _KEY}
    return Groups(keys | {name: reduced(how, ordered[name], begins) for name, how in _HOW.items()}, by_offset, placed)
