"""Which record of the sink answers which record of the source: the evidence of an audit, prepared for the verifiers.

If keys recur, both logs are multisets: a row that is demanded n times and present m times makes m - n duplicates or n - m gaps,
and the k-th of equal rows answers the k-th of equal records.

Records are ordered by their places in the source. Ids give these places only if id ``i`` is in the partition of line
``i mod P``, alone there, and ids rise in each partition. Ids that are distributed otherwise, that recur, or that do not rise
are treated like any other keys (`Prepared.otherwise`).

Ids made of places are offset * (P + 1) + partition: each source partition is a line, and its numbers are its offsets. A record
of the sink whose key is not in the source is in line P, numbered by the first place of its key.

If a record may be in any partition (`by_key`, ``anywhere``), order is judged among the rows of one sink partition that answer
one source partition. If equal records are in several partitions, it is unknown which row answers which.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit import expired
from chaos.audit.expired import Compared
from chaos.audit.identity import Model
from chaos.audit.logs import Fixed, Logs
from chaos.common.errors import InconclusiveError
from chaos.judging import spark_session
from chaos.matching import answers, doubles, row_ids
from chaos.matching.fast import alignment, copies, small
from chaos.matching.fast.alignment import Copied
from verifiers import arrow
from verifiers.base import Evidence, Finding
from verifiers.findings import at
from verifiers.single_scan.groups import Limits, longs
from verifiers.single_scan.runs import Runs

_DEFAULT = Limits()
_PLACE = ("partition", "offset")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Evidence for the verifiers, and how to name its ids in reports.

    Attributes:
        unique: whether certainly no id is expected twice.
        unnamed: source rows without an identity; nothing can be judged if there are any.
        why: what these rows lack; completes "3 of the source's …".
        keys: finds the keys of ids that were made of places; None if the ids are the keys.
        unordered: partition and offset of the sink rows whose order is unknown; None if there are none.
        copied: number of records on each side, if the sink is known to be an ordered copy; nothing is wrong then, and the
            evidence is empty.
        beyond: rows outside the evidence that are known to be right, as runs of the records that they answer
            (`chaos.matching.fast.alignment`); None if there are none, or only such rows.
        alike: number of rows outside the evidence that are present as often as demanded; their order is not judged.
        undecided: number of sink rows left out because compaction may have removed the records that they answer.
        compared: the rows and records in the evidence if a log begins above 0; None if none does.
        by_model: whether a query gives the demanded rows (`chaos.audit.query`): the verifiers judge them directly.
        doubles: number of records of the source that demand the same row as an earlier one; None if ids are places, which never
            recur, or if a query says what equal records demand.
        otherwise: prepares the comparison by any keys, for a source whose ids are not places; None if this is that one.
    """

    evidence: Evidence
    unique: bool
    unnamed: DataFrame
    why: str
    keys: Callable[[frozenset[int]], Mapping[int, str]] | None = None
    unordered: DataFrame | None = None
    copied: int = 0
    beyond: Runs | None = None
    alike: int = 0
    undecided: int = 0
    compared: Compared | None = None
    by_model: bool = False
    doubles: int | None = None
    otherwise: "Callable[[], Prepared] | None" = None

    @property
    def proved(self) -> int:
        """Number of records outside the evidence that are known to be right."""
        return self.copied + self.alike if self.beyond is None else self.beyond.records

    def with_keys(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Name keys in place of ids that were made of places, also in details about other records."""
        if self.keys is None:
            return tuple(findings)
        keys = self.keys(row_ids.ids_in([one for finding in findings for one in finding.examples]))
        return tuple(
            replace(finding, examples=tuple(row_ids.with_keys(one, keys) for one in finding.examples)) for finding in findings
        )


def by_key(logs: Logs, demanded: Model, *, anywhere: bool = False, limits: Limits = _DEFAULT) -> Prepared:
    """Prepare the comparison by any keys, which may recur; only rows and records of doubtful keys are joined.

    Args:
        anywhere: whether a record may be in any partition of the sink; all keys are doubtful then.
    """
    if not expired.begins(logs.fixed):
        return _by_key(logs, demanded, anywhere=anywhere, limits=limits)
    question = expired.Question(logs.fixed.processed, anywhere)
    if logs.records >= limits.driver_rows and (right := _copy_behind_the_cut(logs, demanded, question, limits)):
        return right
    compared = expired.compare(_wanted(logs.source, demanded), logs.sink, logs.fixed, question, limits)
    left = replace(logs, source=compared.of_source(logs.source), sink=compared.of_sink(logs.sink))
    asked = _by_key(left, demanded, anywhere=anywhere, limits=limits)
    return replace(asked, compared=compared, unordered=compared.with_unordered(asked.unordered, logs.sink.sparkSession))


def _by_key(logs: Logs, demanded: Model, *, anywhere: bool, limits: Limits) -> Prepared:
    wanted = _wanted(logs.source, demanded)
    processed = logs.fixed.processed
    copied = None if anywhere else copies.compare(wanted, logs.sink, processed, logs.records, limits, doubles=True)
    if copied is not None and not len(copied.doubtful):
        return _of_copy(logs, copied, wanted)
    narrow = None if copied is None or logs.fixed.compacted else _narrowly(logs, demanded, copied, limits)
    are_few = logs.records <= _DEFAULT.small_rows
    asked = narrow or _joined(logs, wanted, logs.sink, anywhere=anywhere, are_few=are_few)
    return replace(asked, doubles=_doubles(copied, wanted))


def _doubles(copied: Copied | None, wanted: DataFrame) -> int:
    return doubles.count(wanted) if copied is None or copied.doubles is None else copied.doubles


def _copy_behind_the_cut(logs: Logs, demanded: Model, asked: expired.Question, limits: Limits) -> Prepared | None:
    """Prepare large logs that begin above 0 if the rest of the sink is a copy of the rest of the source; else return None."""
    compared = expired.by_counts(_wanted(logs.source, demanded), logs.sink, logs.fixed, asked)
    if compared is None:
        return None
    left = replace(logs, source=compared.of_source(logs.source), sink=compared.of_sink(logs.sink))
    wanted = _wanted(left.source, demanded)
    copied = copies.compare(wanted, left.sink, asked.positions, logs.records, limits, doubles=True)
    if copied is None or not copied.rows or len(copied.doubtful):
        return None
    return replace(_of_copy(left, copied, wanted), compared=compared)


def _of_copy(logs: Logs, copied: Copied, wanted: DataFrame) -> Prepared:
    """Prepare evidence without rows for a sink that is known to be a copy."""
    columns = "id long, partition int, value string, required boolean, position long"
    nothing = logs.source.sparkSession.createDataFrame([], columns)
    bounds = logs.fixed.sink_of(logs.fixed.partitions + 1)
    evidence = Evidence("sink", nothing, logs.sink.limit(0), bounds, logs.fixed.processed)
    unnamed = logs.source.limit(0)
    return Prepared(evidence, unique=True, unnamed=unnamed, why="", copied=copied.rows, doubles=_doubles(copied, wanted))


def _wanted(source: DataFrame, demanded: Model) -> DataFrame:
    """Replace the value of each record by the one that it demands."""
    return source.withColumn("value", demanded(F.col("value")).cast("string"))


def _narrowly(logs: Logs, demanded: Model, copied: Copied, limits: Limits) -> Prepared | None:
    """Prepare the records and rows of doubtful keys alone; None if they are too many."""
    most = alignment.worth_asking(copied.rows, limits)
    if copied.aligned is None or len(copied.doubtful) > most:
        return None
    of_keys = partial(alignment.of_doubtful_keys, copied=copied)
    doubtful = (_wanted(of_keys(logs.source), demanded), of_keys(logs.sink))
    with ThreadPoolExecutor(len(doubtful)) as pool:
        ours, theirs = pool.map(arrow.table, (side.limit(limits.small_rows + 1) for side in doubtful))
    if max(len(ours), len(theirs)) <= limits.small_rows:
        return _found_here(logs, ours, theirs, copied.aligned.without(*longs(theirs, *_PLACE)))
    source, sink = (_held(side.limit(most + 1)) for side in doubtful)
    if max(source.count(), sink.count()) > most:
        return None
    asked = _joined(logs, source, sink, anywhere=False, are_few=True)
    return replace(asked, beyond=copied.aligned.without(*longs(arrow.table(sink.select(*_PLACE)), *_PLACE)))


def _found_here(logs: Logs, wanted: pa.Table, sink: pa.Table, beyond: Runs) -> Prepared:
    """Prepare records and rows that are few enough to be matched without Spark."""
    lines, positions = logs.fixed.partitions + 1, logs.fixed.processed
    found = small.find(wanted, sink, lines, positions)
    spark = spark_session.beside(logs.source.sparkSession)
    expected, observed = arrow.frame(spark, found.expected), arrow.frame(spark, found.observed)
    return Prepared(
        Evidence("sink", expected, observed, logs.fixed.sink_of(lines), positions),
        unique=True,
        unnamed=expected.limit(0),
        why="",
        keys=partial(_names, logs, found.keys),
        unordered=None if found.unordered is None else arrow.frame(spark, found.unordered),
        beyond=beyond.merge(found.right),
    )


def _held(rows: DataFrame) -> DataFrame:
    """Keep the rows in one partition, which avoids shuffles."""
    return row_ids.held(rows.coalesce(1))


def _joined(logs: Logs, demanded: DataFrame, sink: DataFrame, *, anywhere: bool, are_few: bool) -> Prepared:
    """Prepare these records and these rows of the sink, which are complete for each of their keys.

    Args:
        demanded: the records, with the values that they demand.
        are_few: whether frames that are read several times are kept in one partition.
    """
    partitions = logs.fixed.partitions
    lines = partitions + 1
    positions, bounds = logs.fixed.processed, logs.fixed.sink_of(lines)
    id_ = f"offset * {lines} + partition AS id"
    removable = f"{_removable(logs.fixed, anywhere=anywhere)} AS removable"
    keyed = demanded.where("key IS NOT NULL")
    keep = _held if are_few else DataFrame.persist
    wanted = keep(keyed.selectExpr("partition", "offset", "key", "value", id_, removable))
    found = answers.find(wanted, sink, lines, positions, anywhere=anywhere, compacted=logs.fixed.compacted, keep=keep)
    named, unordered = found.rows, found.unordered
    if are_few and unordered is not None:
        unordered = _held(unordered)
    required = "true" if found.removed is None else "removed IS NULL"
    needed = wanted if found.removed is None else wanted.join(found.removed.selectExpr("id", "true AS removed"), "id", "left")
    expected = needed.selectExpr("id", "partition", "value", f"{required} AS required", "offset AS position")
    observed = named.selectExpr("partition", "offset", "timestamp_ms", "CAST(id AS STRING) AS key", "value")
    evidence = Evidence("sink", expected, observed, bounds, positions, anywhere=anywhere)
    names = wanted.select("key", "id").unionByName(named.where(f"id % {lines} = {partitions}").select("key", "id"))

    return Prepared(
        evidence,
        unique=True,
        unnamed=demanded.where("key IS NULL"),
        why="records have no key, or lack the header",
        keys=partial(_names, logs, partial(_keys, names)),
        unordered=unordered,
        undecided=found.undecided,
    )


def _names(logs: Logs, here: Callable[[AbstractSet[int]], Mapping[int, str]], asked: frozenset[int]) -> Mapping[int, str]:
    """Return the keys of ids that were made of places.

    Args:
        here: finds the keys of held records and rows; the others are looked up in the log.
    """
    lines, found = logs.fixed.partitions + 1, here(asked)
    others = asked - found.keys()
    beyond = logs.source.where(at((one % lines, one // lines) for one in others))
    return {**found, **_keys(beyond.selectExpr("key", f"offset * {lines} + partition AS id"), others)}


def _keys(names: DataFrame, asked: AbstractSet[int]) -> dict[int, str]:
    return {row["id"]: row["key"] for row in names.where(F.col("id").isin(sorted(asked))).collect()} if asked else {}


# conditions ---------------------------------------------------------------------------------------------------------------


def require_identified(asked: Prepared) -> None:
    """Raise InconclusiveError if a record of the source has no identity."""
    lost, first = asked.unnamed.agg(F.count("*"), F.expr("min(struct(partition, offset, key))")).collect()[0]
    if lost:
        place = f"the first at partition {first['partition']} offset {first['offset']}: {first['key']!r}"
        remedy = "name what identifies a record: --identity key or header:NAME"
        raise InconclusiveError(f"{lost} of the source's {asked.why}, {place}; {remedy}")


def _removable(fixed: Fixed, *, anywhere: bool) -> str:
    """Return SQL: whether compaction may have removed the row that answers a record from the sink.

    Compaction keeps the last row of each key in each partition of the sink, unless that is a tombstone. The rows of a key are
    in the order of its records if these are in one partition of the source.
    """
    if "sink" not in fixed.compacted:
        return "false"
    if fixed.grown or not fixed.cleaned_by_key:
        return "true"
    followed = "offset < max(offset) OVER (PARTITION BY key, partition)"
    elsewhere = "min(partition) OVER (PARTITION BY key) < max(partition) OVER (PARTITION BY key)"
    return f"(value IS NULL OR {followed}{f' OR {elsewhere}' if anywhere else ''})"
