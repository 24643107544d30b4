"""`--expected-sql`: compare the sink with the result of a query over the source (`chaos.expectation.model`).

The query sees each source topic as a view of its name, and a landed folder as the view ``source``. The partitions of several
topics are numbered consecutively, as in the folders that ``--landing`` leaves, so that a place belongs to one topic only.

With `--as-state` the query gives the last value of each key, which compaction of the sink does not remove.

A query may need any record of the source. If compaction or retention may have removed some, its result for all of them is
unknown. Only a row with a place of its own is taken to depend on that record alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from chaos.audit import expired, settings
from chaos.audit.expired import Compared
from chaos.audit.logs import AuditUsageError, Fixed, Logs
from chaos.audit.prepared import Prepared
from chaos.common.errors import InconclusiveError
from chaos.expectation.base import ModelError, view
from chaos.expectation.definitions import Query
from chaos.expectation.forms import Log, State
from chaos.expectation.model import Model
from chaos.matching import row_ids
from chaos.matching.demanded import Demanded
from chaos.matching.fast import sums
from chaos.matching.fast.alignment import Copied
from chaos.matching.fast.sums import Narrowed
from verifiers.base import Evidence
from verifiers.findings import at

_LANDED = "source"


def model(query: str, identity: str = "", *, state: bool = False) -> Model:
    """Read the query from the option, or from the file that it names as ``@file``.

    Args:
        identity: SQL that identifies rows beside their keys; empty if the keys identify them.
        state: whether only the last value of each key of the sink counts.

    Raises:
        AuditUsageError: the file does not exist, or is empty.
    """
    sql = settings.query(query)
    return Model(Query(sql), State() if state else Log(), identity=identity, stated_in="options")


def require_known(spark: SparkSession, asked: Model, topics: tuple[str, ...]) -> None:
    """Raise AuditUsageError unless Spark can resolve the query and the identity.

    Args:
        topics: the source's topics; empty if it was landed.
    """
    try:
        asked.require_known(spark, topics or (_LANDED,))
    except ModelError as error:
        raise AuditUsageError(asked.told(error)) from None


def by_model(logs: Logs, asked: Model, *, anywhere: bool) -> Prepared:
    """Prepare the comparison with the rows that the query demands.

    Raises:
        InconclusiveError: the demanded rows are unknown.
    """
    fixed = logs.fixed
    lines = fixed.partitions + 1
    positions = fixed.processed
    if asked.form.last_values and fixed.grown:
        why = "so compaction may have removed a last value before it was read"
        raise InconclusiveError(
            f"--as-state: the sink is compacted, and grew while it was read, {why}; audit again, or name --group"
        )
    holed = {side: why for side, why in fixed.compacted.items() if side == "source" or not asked.form.last_values}
    for side, why in holed.items():
        raise InconclusiveError(f"--expected-sql: the {side} {why}, and has holes: records that the query needs may be gone")
    due, copied, compared = _due(logs, asked, positions, anywhere=anywhere)
    anywhere = anywhere or not due.placed
    if due.unordered:
        _require_complete(fixed, due)
    elif compared is None:
        compared = _compared(due.rows, logs, positions, anywhere=anywhere)
    if compared is not None:
        due = replace(due, rows=compared.of_source(due.rows), count=due.count - compared.records)
        logs = replace(logs, sink=compared.of_sink(logs.sink))
    narrow = _narrowed(logs, asked, due, copied, anywhere=anywhere)
    sides = fixed.sink_of(lines)
    if narrow.are_none:
        nothing = row_ids.unsaid("")(narrow.sink)
        right = Evidence("sink", nothing.expected, narrow.sink, sides, positions, anywhere=anywhere, unordered=due.unordered)
        none = logs.source.limit(0)
        return Prepared(right, unique=True, unnamed=none, why="", copied=narrow.proved, compared=compared, by_model=True)
    found = asked.answering(narrow.demanded, positions, lines, anywhere=anywhere)(narrow.sink)
    if found.unsaid:
        raise InconclusiveError(found.unsaid)
    assert found.answers is not None and found.keys is not None  # noqa: S101, PT018 - ids are made of places here
    landed = Evidence(
        "sink",
        found.expected,
        narrow.sink,
        sides,
        positions,
        answers=found.answers,
        anywhere=found.anywhere,
        unordered=found.unordered,
        state=found.state,
    )
    return Prepared(
        row_ids.numbered(landed, lines),
        unique=True,
        unnamed=logs.source.limit(0),
        why="",
        keys=partial(_keys, due.rows if narrow.beyond is not None else None, asked.identity, found.keys, lines),
        unordered=_unordered(found.answers.where("NOT ordered").select("partition", "offset"), compared),
        beyond=narrow.beyond,
        compared=compared,
        alike=narrow.proved,
        by_model=True,
    )


def _due(
    logs: Logs, asked: Model, positions: Mapping[int, int], *, anywhere: bool
) -> tuple[Demanded, Copied | None, Compared | None]:
    """Return the demanded rows, how far the sink is a copy of them, and which rows of both are compared.

    The second and the third are None unless each demanded row has a place of its own.
    """
    found: list[tuple[Copied | None, Compared | None]] = []

    def is_apart(rows: DataFrame) -> bool:
        if anywhere:
            return False
        compared = _compared(rows, logs, positions, anywhere=False)
        both = (rows, logs.sink) if compared is None else (compared.of_source(rows), compared.of_sink(logs.sink))
        found.append((sums.compared(*both, positions, logs.records), compared))
        return found[0][0] is not None and (compared is None or not compared.records)

    try:
        due = asked.due(logs.source.sparkSession, _views(logs), positions, _held, is_apart)
    except ModelError as error:
        raise InconclusiveError(asked.told(error)) from None
    return due, *(found[0] if found and not due.unordered else (None, None))


def _require_complete(fixed: Fixed, due: Demanded) -> None:
    """Raise InconclusiveError if the source begins above 0: the query does not say which record demands a row."""
    begun = next(((number, one.low) for number, one in sorted(fixed.source.items()) if one.low > 0), None)
    if begun is not None:
        place = f"the source begins at offset {begun[1]} of partition {begun[0]}"
        raise InconclusiveError(f"--expected-sql: {place}, so records that the query needs may have expired ({due.unordered})")


def _compared(rows: DataFrame, logs: Logs, positions: Mapping[int, int], *, anywhere: bool) -> Compared | None:
    """Find which rows of both logs are compared; None if neither begins above 0. A record may demand several rows."""
    if not expired.begins(logs.fixed):
        return None
    wanted, sink = (row_ids.keyed(one) for one in (rows, logs.sink))
    return expired.compare(wanted, sink, logs.fixed, expired.Question(positions, anywhere, single=False))


def _unordered(places: DataFrame, compared: Compared | None) -> DataFrame | None:
    return places if compared is None else compared.with_unordered(places, places.sparkSession)


def _narrowed(logs: Logs, asked: Model, due: Demanded, copied: Copied | None, *, anywhere: bool) -> Narrowed:
    """Leave only the rows of both sides that the verifiers have to judge."""
    if copied is not None:
        return sums.by_place(due, logs.sink, copied)
    if due.unordered and not due.left:
        return sums.by_sums(due, logs.sink, anywhere=anywhere, last_values=asked.form.last_values)
    return Narrowed(due, logs.sink)


def _held(rows: DataFrame) -> DataFrame:
    """Compute the rows once, and cache them: the columns of a cache take a fraction of the memory of a checkpoint."""
    held = rows.persist()
    held.count()
    return held


def _keys(due: DataFrame | None, identity: str, here: DataFrame, lines: int, ids: frozenset[int]) -> Mapping[int, str]:
    """Return the keys of ids.

    Args:
        due: all demanded rows, if reports may name rows outside the evidence; else None.
        here: the keys of the evidence.
    """
    keys = row_ids.keys_of(here, ids)
    beyond = ids - keys.keys()
    if due is None or not beyond:
        return keys
    rows = due.where(at((one % lines, one // lines) for one in beyond))
    named = row_ids.keyed(rows, identity).selectExpr(f"offset * {lines} + partition AS id", "key")
    return {**row_ids.keys_of(named, beyond), **keys}


def _views(logs: Logs) -> Mapping[str, DataFrame]:
    """Map the name of each source topic to its view."""
    timed = "timestamp_ms" if "timestamp_ms" in logs.source.columns else "CAST(NULL AS BIGINT) AS timestamp_ms"
    records = view(logs.source.selectExpr("partition", "offset", timed, "key", "value"))
    numbers = logs.fixed.numbers.get("source", {})
    if not numbers:
        return {_LANDED: records}
    return {topic: records.where(records["partition"].isin(list(own.values()))) for topic, own in numbers.items()}
