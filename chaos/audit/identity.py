"""Identity and model: which record of the sink answers which record of the source, and what it must say.

``dense-key``   the key is a decimal number; id ``i`` is number ``i div P`` of line ``i mod P``
``key``         any key, which may recur; a record's place in the source is its id
``header:NAME`` the same, by a header (`chaos.audit.logs` lands it as the key)
an expression  the same, by SQL over key, value and headers, ``get_json_object(value, '$.order_id')`` for example

Keys that recur make both logs multisets: what is demanded n times and is there m times has m - n duplicates or n - m gaps, and
the k-th of records that are alike answers the k-th.

The order of records is that of their places in the source. Ids tell these only where id ``i`` is in the partition of line
``i mod P``, alone there, and ids rise in each partition. Numbers that were dealt to partitions otherwise, that recur, or that
do not rise are treated as any other keys (`Prepared.otherwise`).

Ids made of places are offset * (P + 1) + partition: each source partition is a line, and its numbers are its offsets. A record
of the sink whose key the source does not have is in line P, numbered by where its key is there first.

Where a record may be in any partition (`by_key`, ``anywhere``), order is that of the rows of one sink partition which answer
one source partition. Of records that are alike and in several partitions it cannot be told which row answers which.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from traceback import extract_tb

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit import expired
from chaos.audit.expired import Compared
from chaos.audit.logs import AuditUsageError, Ends, Fixed, Logs
from chaos.common import user_code
from chaos.common.errors import InconclusiveError, one_line
from chaos.expectation import expressions
from chaos.judging import spark_session
from chaos.matching import answers
from chaos.matching.fast import alignment, small
from chaos.matching.fast.alignment import Copied
from verifiers import arrow
from verifiers.base import Bounds, Evidence
from verifiers.findings import at
from verifiers.single_scan import groups, pieces
from verifiers.single_scan.groups import Groups, Limits, decoded, longs
from verifiers.single_scan.runs import Runs

DENSE, KEY = "dense-key", "key"
IDENTITY = "identity"
_HEADER = "header:"
_DEFAULT = Limits()
_PLACE = ("partition", "offset")
_COLUMNS = {"key": "string", "value": "string"}
_HEADERS = {"headers": "array<struct<key: string, value: binary>>"}  # as Spark's Kafka source has them

_NOT_THEIRS = re.compile(rf"{re.escape(__file__)}|/chaos/common/|/contextlib\.py|/importlib/|<frozen |/pyspark/|/py4j/")

Model = Callable[[Column], Column]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the verifiers are asked, and how its ids are named for people.

    Attributes:
        unique: whether it is certain that no id is expected twice.
        unnamed: rows of the source that nothing identifies; nothing can be judged if there are any.
        why: what is wrong with those, as in "3 of the source's …".
        keys: finds the keys of ids that were made here; None where the ids are the keys.
        unordered: partition and offset of the sink's rows whose order cannot be told; None where that is so of none.
        copied: how many records there are on either side, if the sink is known to be a copy in order; nothing is wrong then,
            and the evidence is empty.
        beyond: rows beyond the evidence, which are known to be right, as runs of the records that they answer
            (`chaos.matching.fast.alignment`); None where there are none, or nothing but these.
        alike: how many rows beyond the evidence are demanded as often as they are there, where their order is not asked.
        undecided: how many rows of the sink are not in the evidence, for what they answer may have been compacted away.
        compared: which rows and records are in the evidence where a log begins above 0; None where that was not asked.
        by_model: whether it is of rows that a query demands (`chaos.audit.query`): the verifiers are asked directly.
        otherwise: the same question by any keys, for a source whose ids are not places; None where it is that already.
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
    otherwise: "Callable[[], Prepared] | None" = None

    @property
    def proved(self) -> int:
        """How many records beyond the evidence are known to be right."""
        return self.copied + self.alike if self.beyond is None else self.beyond.records


def model(name: str) -> Model:
    """``identity``, or ``module:function``: from the source's value to the sink's, both string columns.

    Raises:
        AuditUsageError: there is no such function, or its module cannot be imported.
    """
    if name == IDENTITY:
        return copied
    module, _, function = name.partition(":")
    if not module or not function:
        raise AuditUsageError(f"--model {name}: must be identity, or module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with _told(name, "cannot be imported"):
            found = getattr(importlib.import_module(module), function, None)
    finally:
        with suppress(ValueError):  # the module may have changed it
            sys.path.remove(str(Path.cwd()))
    if not callable(found):
        there = "is no function" if found is not None else "is not there"
        raise AuditUsageError(f"--model {name}: {function} {there} in {module}; name a function of it")
    return partial(_called, name, found)


def _called(name: str, function: Callable[[Column], object], value: Column) -> Column:
    """What a function of the user's own makes of a column."""
    with _told(name, "failed"):
        found = function(value)
    if not isinstance(found, Column):
        returned = "None" if found is None else f"a value of type {type(found).__name__}"
        raise AuditUsageError(
            f"--model {name}: returned {returned}; it must return a Column, made of the Column that it is given"
        )
    return found


@contextmanager
def _told(name: str, what: str) -> Iterator[None]:
    """Whatever the user's own code does in place of returning, in a line. It may raise anything, and end the process."""
    try:
        with user_code.confined():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = f"exit({error.code!r}) was called" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
        said = str(error) if isinstance(error, user_code.OverdueError) else said
        raise AuditUsageError(f"--model {name}: {what}: {one_line(said)}{_in_their_code(error)}; mend the model") from error


def _in_their_code(error: BaseException) -> str:
    """Where in the user's own code it was, if it was there."""
    frames = (one for one in reversed(extract_tb(error.__traceback__)) if not _NOT_THEIRS.search(one.filename))
    return next((f" ({one.filename}:{one.lineno})" for one in frames), "")


def sql(identity: str) -> str:
    """What identifies a record, as SQL over key and value (strings) and headers."""
    if identity in (DENSE, KEY):
        return "key"
    name = identity.removeprefix(_HEADER).replace("\\", "\\\\").replace("'", "\\'")
    return f"get(filter(headers, header -> header.key = '{name}'), 0).value" if identity.startswith(_HEADER) else identity


def require_known(spark: SparkSession, identity: str, demanded: Model, *, headers: bool) -> None:
    """Raise AuditUsageError unless Spark can read the expression and the model, and both say something of one record alone.

    Args:
        headers: whether records have them: topics do, folders do not.
    """
    is_own = demanded is not copied
    if identity in (DENSE, KEY) and not is_own:
        return
    columns = _COLUMNS | (_HEADERS if headers else {})
    nothing = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    wrong = expressions.why_not(nothing, demanded(F.col("value")), may_be_constant=True) if is_own else ""
    if wrong:
        raise AuditUsageError(f"--model: what it makes of a value cannot be judged: {wrong}")
    if identity in (DENSE, KEY):
        return
    wrong = expressions.why_no_sql(nothing, sql(identity))
    if wrong:
        raise AuditUsageError(f"--identity {identity}: {wrong} The columns are {', '.join(columns)}.")


def dense(logs: Logs, demanded: Model) -> Prepared:
    rows = decoded(logs.source)
    bounds = _whole(logs.fixed.sink, _partitions(logs))
    value = demanded(F.col("value")).cast("string").alias("value")
    required = F.lit(True).alias("required")  # noqa: FBT003 - a literal of SQL
    expected = rows.select("id", "partition", value, required, F.col("offset").alias("position"))
    evidence = Evidence("sink", expected, logs.sink, bounds, _positions(logs))
    otherwise = partial(by_key, logs, demanded)
    return Prepared(evidence, False, rows.where("id IS NULL"), "keys are not ids", otherwise=otherwise)  # noqa: FBT003 - `unique`


def dealt_in_turn(source: DataFrame, expected: Groups | None, evidence: Evidence, limits: Limits) -> bool:
    """Whether the ids of the source are places: id ``i`` is in the one partition of line ``i mod P``, and ids rise there.

    Ids that were dealt to partitions otherwise, by a hash for example, or that recur or fall, say nothing about order.

    Args:
        expected: the groups of what it demands; None where there are too many.
        evidence: the question about its ids.
    """
    lines = evidence.lines
    if expected is not None:
        if groups.dealt_in_turn(expected):
            return True
        if not groups.lines_are_alone(expected):
            return False
        rise = pieces.rise(source, expected.ids(lines), lines, limits)
        if rise is not None:
            return rise
    rows = decoded(source).where("id IS NOT NULL")
    pairs = rows.selectExpr("partition", f"id % {lines} AS line").distinct().collect()
    if any(len({row[side] for row in pairs}) < len(pairs) for side in ("partition", "line")):
        return False
    before = "lag(id) OVER (PARTITION BY partition ORDER BY offset)"
    falls = rows.selectExpr(f"id <= {before} AS falls").where("falls")
    return not falls.take(1) and not rows.groupBy("id").count().where("count > 1").take(1)


def by_key(logs: Logs, demanded: Model, *, anywhere: bool = False, limits: Limits = _DEFAULT) -> Prepared:
    """By any keys, or the header that was landed as the key; keys may recur. Rows and records of doubtful keys are joined.

    Args:
        anywhere: whether a record may be in any partition of the sink; all keys are doubtful then.
    """
    if not expired.begins(logs.fixed):
        return _by_key(logs, demanded, anywhere=anywhere, limits=limits)
    question = expired.Question(_positions(logs), anywhere)
    compared = expired.compare(_wanted(logs.source, demanded), logs.sink, logs.fixed, question, limits)
    left = replace(logs, source=compared.of_source(logs.source), sink=compared.of_sink(logs.sink))
    asked = _by_key(left, demanded, anywhere=anywhere, limits=limits)
    return replace(asked, compared=compared, unordered=compared.with_unordered(asked.unordered, logs.sink.sparkSession))


def _by_key(logs: Logs, demanded: Model, *, anywhere: bool, limits: Limits) -> Prepared:
    wanted = _wanted(logs.source, demanded)
    copied = None if anywhere else alignment.compare(wanted, logs.sink, _positions(logs), limits)
    if copied is not None and not len(copied.doubtful):
        columns = "id long, partition int, value string, required boolean, position long"
        nothing = logs.source.sparkSession.createDataFrame([], columns)
        bounds = _whole(logs.fixed.sink, _partitions(logs) + 1)
        evidence = Evidence("sink", nothing, logs.sink.limit(0), bounds, _positions(logs))
        return Prepared(evidence, unique=True, unnamed=wanted.limit(0), why="", copied=copied.rows)
    narrow = None if copied is None or logs.fixed.compacted else _narrowly(logs, demanded, copied, limits)
    are_few = logs.records <= _DEFAULT.small_rows
    return narrow or _joined(logs, wanted, logs.sink, anywhere=anywhere, are_few=are_few)


def _wanted(source: DataFrame, demanded: Model) -> DataFrame:
    """The records with the values that they demand."""
    return source.withColumn("value", demanded(F.col("value")).cast("string"))


def _narrowly(logs: Logs, demanded: Model, copied: Copied, limits: Limits) -> Prepared | None:
    """What the records and rows of doubtful keys are asked; None where they are many of the log, and not few."""
    most = alignment.worth_asking(copied, limits)
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
    """What so few records and rows are asked."""
    lines, positions = _partitions(logs) + 1, _positions(logs)
    found = small.find(wanted, sink, lines, positions)
    spark = spark_session.beside(logs.source.sparkSession)
    expected, observed = arrow.frame(spark, found.expected), arrow.frame(spark, found.observed)
    return Prepared(
        Evidence("sink", expected, observed, _whole(logs.fixed.sink, lines), positions),
        unique=True,
        unnamed=expected.limit(0),
        why="",
        keys=partial(_names, logs, found.keys),
        unordered=None if found.unordered is None else arrow.frame(spark, found.unordered),
        beyond=beyond.merge(found.right),
    )


def _held(rows: DataFrame) -> DataFrame:
    """The same rows, kept in one place, so that they are not shuffled, and without what they were made of: plans stay short."""
    return rows.coalesce(1).localCheckpoint()


def _joined(logs: Logs, demanded: DataFrame, sink: DataFrame, *, anywhere: bool, are_few: bool) -> Prepared:
    """What these records and these rows of the sink are asked; all that there are of each key.

    Args:
        demanded: the records, with the values that they demand.
        are_few: whether it is worth it to keep what is asked for several times in one place.
    """
    partitions = _partitions(logs)
    lines = partitions + 1
    positions, bounds = _positions(logs), _whole(logs.fixed.sink, lines)
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
        why="records have no key, or not the header",
        keys=partial(_names, logs, partial(_keys, names)),
        unordered=unordered,
        undecided=found.undecided,
    )


def _names(logs: Logs, here: Callable[[AbstractSet[int]], Mapping[int, str]], asked: frozenset[int]) -> Mapping[int, str]:
    """The keys of ids that were made of places.

    Args:
        here: finds those of the records and rows that are held; the others are looked up in the log.
    """
    lines, found = _partitions(logs) + 1, here(asked)
    others = asked - found.keys()
    beyond = logs.source.where(at((one % lines, one // lines) for one in others))
    return {**found, **_keys(beyond.selectExpr("key", f"offset * {lines} + partition AS id"), others)}


def _keys(names: DataFrame, asked: AbstractSet[int]) -> dict[int, str]:
    return {row["id"]: row["key"] for row in names.where(F.col("id").isin(sorted(asked))).collect()} if asked else {}


# what can be asked --------------------------------------------------------------------------------------------------------


def require_identified(asked: Prepared) -> None:
    """Raise InconclusiveError where a record of the source cannot be identified."""
    lost, first = asked.unnamed.agg(F.count("*"), F.expr("min(struct(partition, offset, key))")).collect()[0]
    if lost:
        place = f"the first at partition {first['partition']} offset {first['offset']}: {first['key']!r}"
        remedy = "name what identifies a record: --identity key or header:NAME"
        raise InconclusiveError(f"{lost} of the source's {asked.why}, {place}; {remedy}")


def _removable(fixed: Fixed, *, anywhere: bool) -> str:
    """SQL: whether compaction may have removed the row that answers a record from the sink.

    It keeps the last row of each key in each partition of the sink, unless that is a tombstone. The rows of a key are in the
    order of its records, as far as these are in one partition of the source.
    """
    if "sink" not in fixed.compacted:
        return "false"
    if fixed.grown or not fixed.cleaned_by_key:
        return "true"
    followed = "offset < max(offset) OVER (PARTITION BY key, partition)"
    elsewhere = "min(partition) OVER (PARTITION BY key) < max(partition) OVER (PARTITION BY key)"
    return f"(value IS NULL OR {followed}{f' OR {elsewhere}' if anywhere else ''})"


def _partitions(logs: Logs) -> int:
    return 1 + max((*logs.fixed.source, *logs.fixed.sink), default=0)


def _whole(ends: Ends, partitions: int) -> Ends:
    """The ends of all partitions, also of those that hold nothing."""
    return {number: ends.get(number, Bounds(0, 0, 0)) for number in range(partitions)}


def _positions(logs: Logs) -> Mapping[int, int]:
    """Where no group was named, all of the source must have been processed."""
    ends = {number: one.hw for number, one in logs.fixed.source.items()}
    return ends if logs.fixed.positions is None else logs.fixed.positions


def copied(value: Column) -> Column:
    """The model of a copy."""
    return value
