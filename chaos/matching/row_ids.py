"""Number the user's own rows for the verifiers, which judge numbers: match the rows of a log with the demanded rows.

Keys may recur, be null or be any bytes, so both sides are multisets, and `chaos.matching.answers` matches them. The id of a
demanded row is ``number * (P + 1) + its partition``; its number rises by one in its partition: in the source in the order of
sending, in the sink with the offsets of the source. A row that answers nothing has an id of the last line, P.

In the source an acknowledgement names the place of a row; if the row is there, that decides. Other records are answered in the
order of sending, first those that must be there. Nothing demands a refused record; if it is in the log all the same, it has
its own id, so that `verifiers.ledger` finds it.

The evidence has the logs unchanged. `numbered` makes the evidence for verifiers that look at ids, and `named` gives the
findings their keys back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.matching import answers
from verifiers.base import NO_PLACE, Bounds, Evidence, Example, Finding
from verifiers.details import Detail, Key, Place, R, Record, joined, replaced
from verifiers.findings import at
from verifiers.ordering import Ordering

OF_STATE = "the sink is a state: only the last value of each key counts"
AS_THEY_ARE = frozenset({"atomicity", "stability", "outcomes"})
"""Verifiers that compare views of a log with each other, or keys with reported outcomes: they get the log unchanged."""
_HEADERS = " headers="
_WHOLLY = 2**62  # a position past all records
NO_KEY = "0x"  # the text of no bytes: see `text`
_SENT = "id long, partition int, number long, key binary, value binary, headers array<struct<key: string, value: binary>>"
_LINES = "id long, outcome string, partition int, offset long"
_ALIKE = ("partition", "key", "value")
_CLUSTER_HERE = "local-cluster"  # for Spark's own tests: executors are processes of their own


def text(column: str) -> str:
    """SQL: bytes as text that verifiers compare and people read; `chaos.loader.rows_file.text` explains it."""
    plain = f"CAST({column} AS STRING)"
    return f"IF(is_valid_utf8({plain}) AND NOT startswith({plain}, '0x'), {plain}, concat('0x', hex({column})))"


def with_headers(value: str, headers: str) -> str:
    """SQL: the text of a value, and behind it the headers, if any, so that both are compared and shown.

    Equal texts have equal values and headers, in their order: a value that reads as if headers followed is in hex.
    """
    plain, shown = text(value), f"to_json(transform({headers}, h -> struct(h.key AS key, {text('h.value')} AS value)))"
    unlike = f"IF(instr({plain}, '{_HEADERS}') > 0, concat('0x', hex({value})), {plain})"
    return f"IF(coalesce(size({headers}), 0) > 0, concat(coalesce({unlike}, '{NO_KEY}'), '{_HEADERS}', {shown}), {unlike})"


@dataclass(frozen=True, slots=True)
class Numbered:
    """The expected rows of a log, and the records that answer them; columns as in `verifiers.evidence`.

    Attributes:
        answers, keys: None if the keys are the ids.
        ledger: of the source only.
        anywhere, unordered, unsaid, state: as in the evidence.
    """

    expected: DataFrame
    answers: DataFrame | None = None
    keys: DataFrame | None = None
    ledger: DataFrame | None = None
    anywhere: bool = False
    unordered: str = ""
    unsaid: str = ""
    state: bool = False

    @property
    def views(self) -> Mapping[str, DataFrame]:
        """The views of the evidence."""
        views = {"answers": self.answers, "keys": self.keys, "ledger": self.ledger}
        return {name: view for name, view in views.items() if view is not None}


Numbering = Callable[[DataFrame], Numbered]
"""A function that numbers the records of a log, as they were read."""


def lines_of(*bounds: Mapping[int, Bounds]) -> int:
    """Return the number of lines: one for each partition of these logs, and one for rows that answer nothing."""
    return 2 + max((partition for one in bounds for partition in one), default=0)


def of_source(spark: SparkSession, rows: Path, ledger: Path, lines: int, *, headers: bool = True) -> Numbering:
    """Make the numbering of the source from the file of sent rows and the loader's ledger.

    Args:
        headers: whether headers are compared, too.
    """
    value = with_headers("value", "headers") if headers else text("value")
    sent = spark.read.schema(_SENT).parquet(str(rows))
    told = spark.read.csv(str(ledger), header=True, schema=_LINES).selectExpr("id", "outcome", "partition AS at", "offset")
    wanted = sent.join(told, "id").selectExpr(
        f"number * {lines} + partition AS id",
        *("outcome", "at", "offset AS acknowledged"),
        *("partition", "number AS offset", f"coalesce({text('key')}, '{NO_KEY}') AS key", f"{value} AS value"),
        "false AS removable",
    )

    def number(observed: DataFrame) -> Numbered:
        demanded, rows = held(wanted), keyed(observed)
        named, unordered = _sent_ids(demanded, rows, lines)
        expected = demanded.where("outcome <> 'fail'").selectExpr(
            "id", "partition", "value", "outcome = 'ok' AS required", "CAST(NULL AS BIGINT) AS position"
        )
        of_ledger = demanded.selectExpr("id", "outcome", "at AS partition", "acknowledged AS offset")
        return Numbered(expected, _answers(named, unordered), _keys(demanded, named, lines), of_ledger)

    return number


def of_sink(
    demanded: DataFrame,
    positions: Mapping[int, int],
    lines: int,
    *,
    anywhere: bool = False,
    unordered: str = "",
    identity: str = "",
    as_they_are: bool = False,
) -> Numbering:
    """Make the numbering of the sink from the rows that a model demands; these may be the source itself.

    Args:
        demanded: key, value, and partition and offset of the source record that demands the row, null if no single one does.
        anywhere: whether a record may be in any partition of the sink.
        unordered: why the order of these rows is not known; "" if each has a place of its own.
        identity: SQL over key and value that distinguishes rows of one key; "" for the keys alone.
        as_they_are: whether a surplus row of a demanded key is one that nothing demands; else it is one too many of that key.
    """

    def number(observed: DataFrame) -> Numbered:
        order = "row_number() OVER (PARTITION BY partition ORDER BY offset, key, value)"
        wanted = held(
            keyed(demanded, identity)
            .selectExpr("key", "value", "CAST(coalesce(partition, 0) AS INT) AS partition", "offset AS place")
            .selectExpr("*", "coalesce(place, -1) AS offset")
            .selectExpr("*", f"{f'2L * {order}' if unordered else 'offset'} AS number")  # twice: no two of them are neighbours
            .selectExpr("partition", "number AS offset", "key", "value", f"number * {lines} + partition AS id", "place")
            .selectExpr("*", "false AS removable")
        )
        rows = keyed(observed, identity)
        found = answers.find(
            wanted, rows, lines, positions, anywhere=anywhere, keep=held, as_they_are=as_they_are and not identity
        )
        expected = wanted.selectExpr(
            "id", "partition", "value", "true AS required", f"coalesce(place, {NO_PLACE}L) AS position"
        )
        named = held(found.rows)
        doubtful = None if unordered else found.unordered
        keys = _keys(wanted, named, lines)
        return Numbered(expected, _answers(named, doubtful), keys, anywhere=anywhere, unordered=unordered)

    return number


def of_last_values(demanded: DataFrame, positions: Mapping[int, int], lines: int) -> Numbering:
    """Make the numbering of a state: one value for each key, in any partition. Earlier values answer nothing.

    Args:
        demanded: key and value; partition and offset are ignored.
    """
    nowhere = demanded.selectExpr("key", "value", "CAST(NULL AS BIGINT) AS partition", "CAST(NULL AS BIGINT) AS offset")

    def number(observed: DataFrame) -> Numbered:
        last = of_sink(nowhere, positions, lines, anywhere=True, unordered=OF_STATE)(last_of_each(observed))
        return replace(last, state=True)

    return number


def last_of_each(log: DataFrame) -> DataFrame:
    """Select the rows that give readers the value of a key: the last in each partition, unless it is a tombstone."""
    last = "row_number() OVER (PARTITION BY partition, key ORDER BY offset DESC) AS from_last"
    return log.selectExpr("*", last).where("from_last = 1 AND value IS NOT NULL").drop("from_last")


def unsaid(reason: str) -> Numbering:
    """Make the numbering of a sink whose expected rows are not known."""

    def number(observed: DataFrame) -> Numbered:
        rows = observed.selectExpr("CAST(NULL AS BIGINT) AS id", "partition", "offset", "key", "value").limit(0)
        expected = rows.selectExpr("id", "partition", "value", "true AS required", "offset AS position")
        answers_ = rows.selectExpr("partition", "offset", "id", "true AS ordered")
        return Numbered(expected, answers_, rows.select("id", "key"), unsaid=reason)

    return number


def held(rows: DataFrame) -> DataFrame:
    """Compute rows once; they are freed with the last reference to them, or with the session.

    An executor of a cluster that dies takes its rows with it, so they keep their lineage and are computed again. Local
    executors do not die alone, and rows without lineage have shorter plans.
    """
    master = rows.sparkSession.sparkContext.master or ""
    if master.startswith("local") and not master.startswith(_CLUSTER_HERE):
        return rows.localCheckpoint()
    kept = rows.persist()
    kept.count()  # at once, like a checkpoint: an error is raised here
    return kept


def keyed(rows: DataFrame, identity: str = "") -> DataFrame:
    """Replace a null key by `NO_KEY`, and append the identity to each key.

    Keys of folders may be any text. A key that reads like `NO_KEY` gets a NUL in the middle; a key that reads as if an identity
    followed gets one there.
    """
    nul = "CAST(X'00' AS STRING)"
    like_none = f"key = '{NO_KEY}' OR startswith(key, concat('{NO_KEY}', {nul})) OR startswith(key, '{NO_KEY} [')"
    key = f"CASE WHEN key IS NULL THEN '{NO_KEY}' WHEN {like_none} THEN concat('{NO_KEY}', {nul}, substr(key, 3)) ELSE key END"
    if not identity:
        return rows.withColumn("key", F.expr(key))
    bare = f"replace(replace({key}, {nul}, concat({nul}, {nul})), ' [', concat(' ', {nul}, '['))"
    return rows.withColumn("key", F.expr(f"concat({bare}, ' [', coalesce(CAST({identity} AS STRING), 'null'), ']')"))


def _shown(key: str) -> str:
    """Return a key as people read it, perhaps with an identity behind it."""
    if key == NO_KEY or key.startswith(f"{NO_KEY} ["):
        return f"null{key.removeprefix(NO_KEY)}"
    return key.replace(" \0[", " [").replace("\0\0", "\0").replace(f"{NO_KEY}\0", NO_KEY, 1)


def _sent_ids(wanted: DataFrame, rows: DataFrame, lines: int) -> tuple[DataFrame, DataFrame | None]:
    """Return the records of the source with their ids, and the places of those with unknown order."""
    needed = wanted.where("outcome <> 'fail'").drop("outcome", "at", "acknowledged")
    told = wanted.where("outcome = 'ok'").selectExpr("id", "at AS partition", "acknowledged AS offset", "key", "value")
    same = F.expr(
        "told.partition = row.partition AND told.offset = row.offset AND told.key = row.key AND told.value <=> row.value"
    )
    known = held(told.alias("told").join(rows.alias("row"), same).selectExpr("row.partition", "row.offset", "told.id"))
    free = wanted.where("outcome <> 'fail'").join(known, "id", "left_anti")
    left = rows.join(known, ["partition", "offset"], "left_anti")
    there = left.groupBy(*(F.col(name).alias(f"_{name}") for name in _ALIKE)).agg(F.expr("count(*) AS copies"))
    alike = F.expr(" AND ".join(f"{name} <=> _{name}" for name in _ALIKE))
    turn = "row_number() OVER (PARTITION BY partition, key, value ORDER BY outcome <> 'ok', offset) AS turn"
    taken = free.selectExpr("*", turn).join(there, alike, "left").withColumn("fits", F.expr("turn <= coalesce(copies, 0)"))
    absent = held(taken.where("outcome <> 'ok' AND NOT fits"))
    found = answers.find(
        held(needed.join(absent.select("id"), "id", "left_anti")),
        rows,
        lines,
        dict.fromkeys(range(lines), _WHOLLY),
        anywhere=False,
        keep=held,
        known=known,
    )
    named, unordered = held(found.rows), found.unordered
    if absent.take(1):
        doubtful = named.join(
            absent.select("key", "value").distinct().toDF("_key", "_value"),
            F.expr("key = _key AND value <=> _value"),
            "left_semi",
        )
        more = doubtful.select("partition", "offset")
        unordered = more if unordered is None else unordered.unionByName(more)
    if unordered is not None:
        unordered = unordered.join(known, ["partition", "offset"], "left_anti").distinct()
    refused = wanted.where("outcome = 'fail'").drop("outcome", "at", "acknowledged")
    return (_with_refused(named, refused, lines) if refused.take(1) else named), unordered


def _with_refused(named: DataFrame, refused: DataFrame, lines: int) -> DataFrame:
    """Separate unmatched rows from refused records that are in the log anyway."""
    nobodys = f"id % {lines} = {lines - 1}"
    found = answers.matched(refused, named.where(nobodys).withColumnRenamed("id", "stray"), _ALIKE)
    rest = found.selectExpr("partition", "offset", "timestamp_ms", "key", "value", "coalesce(id, stray) AS id")
    return named.where(f"NOT {nobodys}").unionByName(rest)


def _answers(named: DataFrame, unordered: DataFrame | None) -> DataFrame:
    places = named.select("partition", "offset", "id")
    if unordered is None:
        return places.selectExpr("*", "true AS ordered")
    doubtful = unordered.distinct().selectExpr("partition", "offset", "false AS told")
    return places.join(doubtful, ["partition", "offset"], "left").selectExpr(
        "partition", "offset", "id", "coalesce(told, true) AS ordered"
    )


def _keys(wanted: DataFrame, named: DataFrame, lines: int) -> DataFrame:
    strays = named.where(f"id % {lines} = {lines - 1}").select("id", "key").distinct()
    return reduce(DataFrame.unionByName, (wanted.select("id", "key"), strays))


# judging -----------------------------------------------------------------------------------------------------------------


def numbered(one: Evidence, lines: int) -> Evidence:
    """Replace the keys of the evidence by ids; evidence of integers stays."""
    if one.answers is None:
        return one
    ids = one.answers.select("partition", "offset", "id")
    rows = one.observed.join(ids, ["partition", "offset"], "inner" if one.state else "left")
    observed = rows.selectExpr("partition", "offset", "timestamp_ms", "CAST(id AS STRING) AS key", "value")
    bounds = {number: Bounds(0, 0, 0) for number in range(lines)} | dict(one.bounds)
    return replace(one, observed=observed, bounds=bounds, source_partitions=0)  # its lines are these bounds


def of_certain_order(finding: Finding, one: Evidence) -> Finding:
    """Restrict a finding of `ordering` to rows with a known order; without an inversion, nothing is uncertain.

    Args:
        one: the judged evidence, `numbered`.
    """
    if one.answers is None or finding.verifier != "ordering" or not finding.count:
        return finding
    doubtful = held(one.answers.where("NOT ordered").select("partition", "offset"))
    count = doubtful.count()
    if not count:
        return finding
    kept = one.observed.join(doubtful, ["partition", "offset"], "left_anti").select(*one.observed.columns)
    ordered = Ordering().check(replace(one, observed=kept))
    why = f"the order of {count} rows was not judged: their keys repeat, and some copies are missing, extra or wrong"
    return replace(ordered, note=joined((ordered.note, why)))


def named(finding: Finding, one: Evidence) -> Finding:
    """Replace ids by keys, and add the places of a table, in a finding's examples and the facts of their details.

    Args:
        one: the evidence as it was landed.
    """
    if one.keys is None or not finding.examples:
        return finding
    if one.places is not None:
        finding = replace(finding, examples=_placed(finding.examples, one.places))
    if finding.verifier in AS_THEY_ARE:
        return replace(finding, examples=_with_keys_there(finding.examples, one.observed))
    keys = keys_of(one.keys, ids_in(finding.examples))
    return replace(finding, examples=tuple(with_keys(example, keys) for example in finding.examples))


def _placed(examples: Sequence[Example], places: DataFrame) -> tuple[Example, ...]:
    """Add places in a table, which has no partitions and offsets, to examples and to the rows that they name."""
    others = {place.offset for one in examples for place in _facts(one, Place) if _is_judged(place)}
    asked = sorted(others | {one.offset for one in examples if one.offset is not None})
    rows = places.where(F.col("offset").isin(asked)).collect() if asked else ()
    there = {row["offset"]: row["place"] for row in rows}

    def in_table(place: Place) -> Place:
        return replace(place, name=there.get(place.offset, "")) if _is_judged(place) else place

    def placed(one: Example) -> Example:
        place = there.get(one.offset, "") if one.offset is not None else "not in the table"
        return replace(one, detail=replaced(one.detail, Place, in_table), place=place)

    return tuple(map(placed, examples))


def _is_judged(place: Place) -> bool:
    """Whether a place is in the judged log, not in the source."""
    return place.partition is None or place.partition.side != "source"


def keys_of(keys: DataFrame, ids: frozenset[int]) -> Mapping[int, str]:
    """Id -> key, as people read it."""
    rows = keys.where(F.col("id").isin(sorted(ids))).collect() if ids else ()
    return {row["id"]: _shown(row["key"]) for row in rows}


def with_keys(one: Example, keys: Mapping[int, str]) -> Example:
    """Replace the ids of an example, and of the records that it names, by their keys, if known."""

    def record(found: Record) -> Record:
        return replace(found, keys=tuple(keys.get(id_, str(id_)) for id_ in found.ids))

    def key(found: Key) -> Key:
        return found if found.text is None else Key(keys.get(int(found.text), found.text))

    detail = replaced(replaced(one.detail, Record, record), Key, key)
    return replace(one, id=keys.get(one.id) if isinstance(one.id, int) else None, detail=detail)


def ids_in(examples: Sequence[Example]) -> frozenset[int]:
    """Collect the ids of the examples, and of the records that they name."""
    others = {id_ for one in examples for record in _facts(one, Record) for id_ in record.ids}
    held = {int(key.text) for one in examples for key in _facts(one, Key) if key.text is not None}
    return frozenset(others | held | {one.id for one in examples if isinstance(one.id, int)})


def _facts(one: Example, kind: type[R]) -> Iterator[R]:
    return one.detail.of_kind(kind) if isinstance(one.detail, Detail) else iter(())


def _with_keys_there(examples: Sequence[Example], observed: DataFrame) -> tuple[Example, ...]:
    """Give the examples the keys at their places."""
    places = {(one.partition, one.offset) for one in examples if one.offset is not None}
    rows = observed.where(at(places)).select("partition", "offset", "key").collect() if places else ()
    keys = {(row["partition"], row["offset"]): "null" if row["key"] is None else row["key"] for row in rows}
    return tuple(replace(one, id=keys.get((one.partition, one.offset))) for one in examples)
