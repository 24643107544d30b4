"""Identity and model: which record of the sink answers which record of the source, and what it must say.

``dense-key``   the key is a decimal number, written in rising order; id ``i`` is number ``i div P`` of line ``i mod P``
``key``         any key, each once in the source; a record's place in the source is its id
``header:NAME`` the same, by a header (`chaos.audit.logs` lands it as the key)

Ids made of places are offset * (P + 1) + partition: each source partition is a line, and its numbers are its offsets. A record
of the sink whose key the source does not have is in line P, numbered by where its key is there first.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit.logs import AuditUsageError, Ends, Logs
from chaos.common.errors import InconclusiveError
from verifiers.base import Bounds, Evidence
from verifiers.single_scan.groups import decoded

Model = Callable[[Column], Column]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the verifiers are asked, and how its ids are named for people.

    Attributes:
        unique: whether it is certain that no id is expected twice.
        unnamed: rows of the source that nothing identifies; nothing can be judged if there are any.
        why: what is wrong with those, as in "3 of the source's …".
        keys: finds the keys of ids that were made here; None where the ids are the keys.
    """

    evidence: Evidence
    unique: bool
    unnamed: DataFrame
    why: str
    keys: Callable[[frozenset[int]], Mapping[int, str]] | None = field(default=None)


def model(name: str) -> Model:
    """``identity``, ``square``, or ``module:function``: from the source's value to the sink's, both string columns.

    Raises:
        AuditUsageError: there is no such function.
    """
    if name in _MODELS:
        return _MODELS[name]
    module, _, function = name.partition(":")
    if not module or not function:
        raise AuditUsageError(f"--model {name}: must be identity, square, or module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Model = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise AuditUsageError(f"--model {name}: {error}") from error
    finally:
        sys.path.pop(0)
    return found


def dense(logs: Logs, demanded: Model) -> Asked:
    rows = decoded(logs.source)
    bounds = _whole(logs.fixed.sink, _partitions(logs))
    expected = rows.select("id", "partition", *_demand(demanded))
    evidence = Evidence("sink", expected, logs.sink, bounds, _positions(logs))
    return Asked(evidence, unique=False, unnamed=rows.where("id IS NULL"), why="keys are not ids")


def by_key(logs: Logs, demanded: Model) -> Asked:
    """By any keys, or the header that was landed as the key; both logs are joined."""
    partitions = _partitions(logs)
    lines = partitions + 1
    first = F.expr("min_by(struct(partition, offset, value), struct(partition, offset)) AS first")
    wanted = logs.source.groupBy("key").agg(first).selectExpr("key", "first.*")
    wanted = wanted.withColumn("id", F.expr(f"IF(key IS NULL, NULL, offset * {lines} + partition)"))
    stray = logs.sink.join(wanted, "key", "left_anti").where("key IS NOT NULL").groupBy("key")
    place = f"CAST(min(offset * {partitions} + partition) * {lines} + {partitions} AS BIGINT) AS id"
    ids = wanted.select("key", "id").unionByName(stray.agg(F.expr(place))).persist()
    named = logs.sink.join(ids, "key", "left").drop("key").selectExpr("*", "CAST(id AS STRING) AS key")
    columns = ("partition", "offset", "timestamp_ms", "key", "value")
    bounds = _whole(logs.fixed.sink, lines)
    expected = wanted.select("id", "partition", *_demand(demanded))
    evidence = Evidence("sink", expected, named.select(*columns), bounds, _positions(logs))

    def keys(asked: frozenset[int]) -> Mapping[int, str]:
        return {row["id"]: row["key"] for row in ids.where(F.col("id").isin(sorted(asked))).collect()} if asked else {}

    unnamed = logs.source.where("key IS NULL")
    return Asked(evidence, unique=True, unnamed=unnamed, why="records have no key, or not the header", keys=keys)


def require_identified(asked: Asked) -> None:
    """Raise InconclusiveError where a record of the source cannot be identified."""
    lost, first = asked.unnamed.agg(F.count("*"), F.expr("min(struct(partition, offset, key))")).collect()[0]
    if lost:
        place = f"the first at partition {first['partition']} offset {first['offset']}: {first['key']!r}"
        remedy = "name what identifies a record: --identity key or header:NAME"
        raise InconclusiveError(f"{lost} of the source's {asked.why}, {place}; {remedy}")


def _demand(demanded: Model) -> tuple[Column, ...]:
    value = demanded(F.col("value")).cast("string").alias("value")
    return (value, F.lit(True).alias("required"), F.col("offset").alias("position"))  # noqa: FBT003 - a literal of SQL


def _partitions(logs: Logs) -> int:
    return 1 + max((*logs.fixed.source, *logs.fixed.sink), default=0)


def _whole(ends: Ends, partitions: int) -> Ends:
    """The ends of all partitions, also of those that hold nothing."""
    return {number: ends.get(number, Bounds(0, 0, 0)) for number in range(partitions)}


def _positions(logs: Logs) -> Mapping[int, int]:
    """Where no group was named, all of the source must have been processed."""
    ends = {number: one.hw for number, one in logs.fixed.source.items()}
    return ends if logs.fixed.positions is None else logs.fixed.positions


def _square(value: Column) -> Column:
    """The square as the square pipeline writes it; computed as a long where it is one, which is quicker."""
    short, exact = value.try_cast("bigint"), value.cast("decimal(38, 0)")
    return F.coalesce(F.try_multiply(short, short).cast("string"), (exact * exact).cast("string"))


_MODELS: Mapping[str, Model] = {"identity": lambda value: value, "square": _square}
