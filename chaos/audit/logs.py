"""The two logs of an audit: topics, which are landed as Parquet first, or Parquet that others have landed.

Landed logs are ``source/`` and ``sink/`` in one folder or at one URL: Parquet with the columns partition int, offset long,
key string and value string, and perhaps timestamp_ms long and isolation string (rows marked ``read_uncommitted`` are the
uncommitted view).

Several topics are landed as one log. Their partitions are numbered consecutively: those of the second topic follow those of the
first, and so on. If the n-th topics of the two sides differ in their number of partitions, numbers are left out, so that
partitions that belong together have the same number.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.cluster.topics import cleanup_policy, log_ends, topic_ids
from chaos.common.errors import ChaosError, InconclusiveError
from chaos.contract.clients import for_spark, known
from chaos.judging import landing
from verifiers import evidence
from verifiers.base import Bounds

_COLUMNS = {"partition": "int", "offset": "bigint", "key": "string", "value": "string"}
_LANDED = ", ".join(f"{name} {kind}" for name, kind in evidence.OBSERVED.items())
OWN = "own"  # the column of the records' keys, where something else identifies them
_OPTIONAL = {"timestamp_ms": "bigint", "isolation": "string"}
ASK_S = 10.0
_END = 2**63 - 1
_LAST_OFFSET = 2**53  # at 10^9 records a second a log comes this far in a hundred days
_MOST_PARTITIONS = 1_000_000
_FORBIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})

Ends = Mapping[int, Bounds]
Numbers = Mapping[str, Mapping[int, int]]  # topic -> its partition -> the number of that in the log


class AuditUsageError(ChaosError):
    """The requested audit is not possible: the message says what is missing or wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of an audit, and how to reach them.

    Attributes:
        group: the consumer group that holds the pipeline's position; empty for none.
        identity: SQL over key, value and headers that identifies a record.
        librdkafka, java: options of the clients of either kind, TLS and SASL for example.
        groups: prefix of the names of Spark's consumer groups; empty for Spark's own choice.
        exact: whether keys and values may be any bytes (`chaos.matching.row_ids.text`).
    """

    bootstrap: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    group: str = ""
    identity: str = "key"
    librdkafka: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)
    groups: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    """Facts about topics, fixed before anything is read.

    Attributes:
        source, sink: how far each partition is read.
        positions: positions of the consumer group, read before the ends; None if no group was named.
        moved: whether the positions had changed after the ends were read: the pipeline is running.
        compacted: ``source`` or ``sink``, if compaction may have removed records -> why, as in "is compacted".
        cleaned_by_key: whether the identity of a record is its key, by which Kafka compacts.
        numbers: ``source`` and ``sink`` -> the numbers of the partitions of its topics; empty if others landed them.
        grown: whether a compacted sink grew while it was read: later rows may have removed rows that were not read yet.
        since: ``source`` and ``sink`` -> the offsets up to which an earlier audit has judged their partitions; empty if none
            has. Then ``low`` in `source` and `sink` is where reading begins.
        ids: topic -> its id, which is another one if it was deleted and made anew.
    """

    source: Ends
    sink: Ends
    positions: Mapping[int, int] | None = None
    moved: bool = False
    compacted: Mapping[str, str] = field(default_factory=dict)
    cleaned_by_key: bool = True
    grown: bool = False
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    since: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """Number of partitions of the log that has more of them, also of empty ones."""
        return 1 + max((*self.source, *self.sink), default=0)

    @property
    def processed(self) -> Mapping[int, int]:
        """The positions of the group; without a group, the ends of the source."""
        return {number: one.hw for number, one in self.source.items()} if self.positions is None else self.positions

    def sink_of(self, partitions: int) -> Ends:
        """The ends of so many partitions of the sink; one that is not there is empty."""
        return {number: self.sink.get(number, Bounds(0, 0, 0)) for number in range(partitions)}

    def expired(self, side: str) -> Mapping[int, int]:
        """Map each partition whose first offsets have expired, and were not judged before, to their number."""
        judged = self.since.get(side, {})
        ends = self.source if side == "source" else self.sink
        begun = {number: one.low - judged.get(number, 0) for number, one in sorted(ends.items())}
        return {number: count for number, count in begun.items() if count > 0}

    def place(self, side: str, number: int) -> tuple[str, int] | None:
        """Return topic and partition for a partition number of the log; None if no side has several topics."""
        topics = self.numbers.get(side, {})
        places = ((topic, partition) for topic, own in topics.items() for partition, there in own.items() if there == number)
        return next(places, None) if any(len(those) > 1 for those in self.numbers.values()) else None

    @property
    def records(self) -> int:
        """Upper bound of the records in both logs: markers and aborted records count too."""
        return sum(ends.lso - ends.low for side in (self.source, self.sink) for ends in side.values())


@dataclass(frozen=True, slots=True)
class Logs:
    """The two logs of an audit, as frames.

    Attributes:
        source: columns partition, offset, key, value; and `OWN`, the record's own key, if ``key`` holds another identity.
        sink: the columns of `source` and timestamp_ms (null if unknown); committed rows.
        uncommitted: the uncommitted view of the sink, with the columns of `sink`; None if there is none.
        fixed: how far they were read; landed folders count as read to their ends. A topic without a hole is not in `compacted`:
            nothing was removed from within it.
        records: number of records in both.
    """

    source: DataFrame
    sink: DataFrame
    uncommitted: DataFrame | None
    fixed: Fixed
    records: int


# topics --------------------------------------------------------------------------------------------------------------------


def fix(topics: Topics) -> Fixed:
    """Read the group's positions, low, LSO and HW of every partition, and what compaction may remove.

    The pipeline may be running meanwhile, hence the order. Rows of records before the positions are written before the sink's
    ends are read, and records whose rows are in the sink are there before the source's ends are read.

    Raises:
        AuditUsageError: there is no such topic, or the group never committed.
        InconclusiveError: no broker answers in time, or the group's coordinator cannot give a position.
    """
    settings: Mapping[str, str | int] = {
        "bootstrap.servers": topics.bootstrap,
        "log_level": 0,
        "socket.timeout.ms": int(ASK_S * 1000),
    }
    admin = AdminClient({**topics.librdkafka, **settings})
    try:
        numbers = _numbered(admin, topics)
        positions = _committed(topics, numbers["source"])
        sink, source = (_ends(admin, numbers[side]) for side in ("sink", "source"))
        moved = positions != _committed(topics, numbers["source"])
        compacted = {side: why for side, those in numbers.items() if (why := compacted_why(admin, those))}
        ids = topic_ids(admin, (topic for those in numbers.values() for topic in those), ASK_S)
    except KafkaException as error:
        reason = error.args[0].str()
        raise InconclusiveError(
            f"{topics.bootstrap} does not answer within {ASK_S:g} s ({reason}): is it up, and reachable?"
        ) from error
    return Fixed(source, sink, positions, moved, compacted, topics.identity == "key", numbers=numbers, ids=ids)


def there_are(admin: AdminClient, topics: Topics) -> Mapping[str, Any]:
    """Return the metadata of all topics.

    Raises:
        AuditUsageError: a requested topic does not exist.
        KafkaException: no broker answers.
    """
    known: Mapping[str, Any] = admin.list_topics(timeout=ASK_S).topics
    for topic in (*topics.sources, *topics.sinks):
        if topic not in known:
            there = ", ".join(sorted(name for name in known if not name.startswith("__"))) or "none"
            raise AuditUsageError(f"there is no topic {topic!r} at {topics.bootstrap}; there are: {there}")
    return known


def _numbered(admin: AdminClient, topics: Topics) -> Mapping[str, Numbers]:
    known = there_are(admin, topics)
    begin, source, sink = 0, dict[str, Mapping[int, int]](), dict[str, Mapping[int, int]]()
    for pair in zip_longest(topics.sources, topics.sinks):
        for side, topic in zip((source, sink), pair, strict=True):
            if topic is not None:
                side[topic] = {partition: begin + partition for partition in known[topic].partitions}
        begin += max(len(known[topic].partitions) for topic in pair if topic is not None)
    return {"source": source, "sink": sink}


def _ends(admin: AdminClient, numbers: Numbers) -> Ends:
    ends = {topic: log_ends(admin, topic, own, ASK_S) for topic, own in numbers.items()}
    return {number: ends[topic][partition] for topic, own in numbers.items() for partition, number in own.items()}


def compacted_why(admin: AdminClient, topics: Iterable[str]) -> str:
    """Return why compaction may have removed records of one of the topics; empty if it cannot have."""
    try:
        return "is compacted" if any("compact" in cleanup_policy(admin, topic, ASK_S) for topic in topics) else ""
    except KafkaException as error:
        if error.args[0].code() not in _FORBIDDEN:
            raise
        return f"may be compacted (its cleanup.policy cannot be read: {error.args[0].str()})"


def _committed(topics: Topics, numbers: Numbers) -> Mapping[int, int] | None:
    """Return the positions of the group; None if no group is named."""
    if not topics.group:
        return None
    settings = {"bootstrap.servers": topics.bootstrap, "group.id": topics.group, "isolation.level": "read_committed"}
    with closing(Consumer({**topics.librdkafka, **settings, "enable.auto.commit": False, "log_level": 0})) as asker:
        asked = {topic: [TopicPartition(topic, partition) for partition in own] for topic, own in numbers.items()}
        found = {topic: known(asker.committed(those, timeout=ASK_S)) for topic, those in asked.items()}
    if not any(found.values()):
        names = " or ".join(map(repr, numbers))
        raise AuditUsageError(f"the group {topics.group!r} never committed a position in {names}: is that its name?")
    return {numbers[topic][partition]: at for topic, those in found.items() for partition, at in those.items()}


def land(spark: SparkSession, topics: Topics, fixed: Fixed, folder: str) -> Fixed:
    """Write both logs up to the fixed offsets: both, or neither unless Spark is killed meanwhile.

    Returns:
        `fixed`, with `Fixed.grown` set if a compacted sink grew meanwhile.

    Raises:
        AuditUsageError: something is in the folder already, or Spark cannot write to it.
        InconclusiveError: records were removed meanwhile, or a leader does not answer.
    """
    places = [f"{folder.rstrip('/')}/{name}" for name in ("source", "sink")]
    for place in places:
        try:
            there = landing.exists(spark, place)
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise AuditUsageError(f"--landing {folder}: {reason}: is it a folder or URL that Spark can write to?") from error
        if there:
            raise AuditUsageError(f"{place} is there already: name another --landing, or audit it with --landed")

    def write(side: str, ends: Ends, place: str) -> None:
        try:
            _log(spark, topics, fixed.numbers[side], ends).write.parquet(place)
        except (PySparkException, Py4JJavaError) as error:
            raise InconclusiveError(why_unreadable(str(error), topics, side, fixed)) from error

    both = zip(places, ("source", "sink"), (fixed.source, fixed.sink), strict=True)
    landing.land_together(spark, {place: partial(write, side, ends) for place, side, ends in both})
    return since_landed(topics, fixed)


def since_landed(topics: Topics, fixed: Fixed) -> Fixed:
    """Return `fixed`, with `Fixed.grown` set if a compacted sink grew while it was landed."""
    if "sink" not in fixed.compacted:
        return fixed
    return replace(fixed, grown=any(ends.hw > fixed.sink[number].hw for number, ends in fix(topics).sink.items()))


def _log(spark: SparkSession, topics: Topics, numbers: Numbers, ends: Ends) -> DataFrame:
    """Read the committed rows of several topics."""

    def rows(topic: str, own: Mapping[int, int]) -> DataFrame:
        found = read(spark, topics, topic, {partition: ends[number] for partition, number in own.items()})
        return found.withColumn("partition", F.col("partition") + F.lit(own[0]))

    return reduce(DataFrame.unionByName, (rows(topic, own) for topic, own in numbers.items()))


def read(spark: SparkSession, topics: Topics, name: str, ends: Ends) -> DataFrame:
    """Read the committed rows of one of the topics."""
    own = {"groupIdPrefix": topics.groups} if topics.groups else {}
    options = {**for_spark(topics.java), **landing.LARGE_FETCHES, **own}
    topic = landing.Topic(topics.bootstrap, name, options, identity=topics.identity, exact=topics.exact)
    return landing.read(spark, topic, ends)


def why_unreadable(said: str, topics: Topics, side: str, fixed: Fixed) -> str:
    """Say why a log could not be read: retention has removed records meanwhile, or else the reader's own error."""
    now = fix(topics)
    before, after = (fixed.source, now.source) if side == "source" else (fixed.sink, now.sink)
    moved = [
        f"partition {partition} of {topic} began at {before[number].low} and begins at {after[number].low} now"
        for topic, own in fixed.numbers[side].items()
        for partition, number in own.items()
        if number in after and after[number].low > before[number].low
    ]
    names = ", ".join(fixed.numbers[side])
    if moved:
        return f"records of {names} were removed while it was read ({'; '.join(moved)}): raise retention.ms and audit again"
    return f"{names} could not be read: {said.splitlines()[0]}"


# Parquet -------------------------------------------------------------------------------------------------------------------


def landed(spark: SparkSession, folder: str, fixed: Fixed | None = None, identity: str = "key") -> Logs:
    """Read the logs in a folder, or at a URL.

    Args:
        identity: SQL over key and value that replaces the key in logs that others landed.
        fixed: how far `land` has read the topics; None for logs that others landed, which count as read to their ends.

    Raises:
        AuditUsageError: the logs do not exist, or have other columns.
    """
    places = [f"{folder.rstrip('/')}/{name}" for name in ("source", "sink")]
    if fixed is not None:
        return _read_back(spark, places, fixed)
    source, sink = (_identified(_parquet(spark, place), identity) for place in places)
    (demanded, _), (committed, uncommitted) = _views(source), _views(sink)
    source = demanded if "timestamp_ms" in source.columns else demanded.drop("timestamp_ms")
    (source_records, source_ends), (sink_records, sink_ends) = _extent(source, places[0]), _extent(committed, places[1])
    if uncommitted is not None:
        _extent(uncommitted, places[1])
    return Logs(source, committed, uncommitted, Fixed(source_ends, sink_ends), source_records + sink_records)


def _identified(rows: DataFrame, identity: str) -> DataFrame:
    """Replace the key by the identity; the record's own key moves to the column `OWN`."""
    kept = rows if identity == "key" else rows.withColumn(OWN, F.col("key"))
    return kept.withColumn("key", F.expr(f"CAST({identity} AS STRING)"))


def _read_back(spark: SparkSession, places: Sequence[str], fixed: Fixed) -> Logs:
    """Read what `land` has written: its columns are known, and local files are counted without Spark."""
    columns = _LANDED if fixed.cleaned_by_key else f"{_LANDED}, {OWN} string"
    source, sink = (spark.read.schema(columns).parquet(place) for place in places)
    sides = {"source": (fixed.source, _records(source, places[0])), "sink": (fixed.sink, _records(sink, places[1]))}
    holed = {side for side, (ends, records) in sides.items() if records < sum(one.lso - one.low for one in ends.values())}
    fixed = replace(fixed, compacted={side: why for side, why in fixed.compacted.items() if side in holed})
    return Logs(source, sink, None, fixed, sum(records for _, records in sides.values()))


def _records(rows: DataFrame, place: str) -> int:
    found = counted_in(place) if landing.is_local(rows.sparkSession, place) else None
    return rows.count() if found is None else found


def counted(folder: str) -> int | None:
    """Count the rows of both landed logs by the footers of their files, without Spark.

    Return None at a URL, and if a file is not Parquet; Spark reports such a file later.
    """
    sides = [counted_in(f"{folder}/{side}") for side in ("source", "sink")]
    return None if None in sides else sum(filter(None, sides))


def counted_in(place: str | Path) -> int | None:
    """Count the rows of the Parquet files in a folder by their footers; None if that is not possible."""
    files = [file for file in Path(place).rglob("*") if file.is_file() and not file.name.startswith(("_", "."))]
    try:
        return sum(parquet.read_metadata(file).num_rows for file in files) if Path(place).is_dir() else None
    except (OSError, pa.ArrowException):
        return None


def _parquet(spark: SparkSession, place: str) -> DataFrame:
    try:
        rows = spark.read.option("mergeSchema", "true").parquet(place)  # else one file says which columns all have
    except (PySparkException, Py4JJavaError) as error:
        condition = re.search(r"\[([A-Z_.]+)\]", str(error))
        if condition is None and not isinstance(error, PySparkException):
            raise
        reason = condition[1] if condition else type(error).__name__
        if reason.startswith("CANNOT_MERGE_SCHEMA"):
            raise AuditUsageError(
                f"{place}: its files have columns of different types ({reason}): cast them alike, and land it anew"
            ) from None
        raise AuditUsageError(
            f"{place} is not a Parquet folder ({reason}): --landed must name the folder that holds source/ and sink/"
        ) from None
    types = dict(rows.dtypes)
    wanted = _COLUMNS | {name: kind for name, kind in _OPTIONAL.items() if name in types}
    wrong = [f"{name} {kind} (found: {types.get(name, 'none')})" for name, kind in wanted.items() if types.get(name) != kind]
    if wrong:
        raise AuditUsageError(f"{place} needs the columns {', '.join(wrong)}; select and cast them before landing")
    return rows


def _views(rows: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Split the rows into the committed ones, and the uncommitted view if there is one."""
    timed = rows if "timestamp_ms" in rows.columns else rows.selectExpr("*", "CAST(NULL AS BIGINT) AS timestamp_ms")
    columns = ("partition", "offset", "timestamp_ms", "key", "value", *(name for name in (OWN,) if name in rows.columns))
    if "isolation" not in rows.columns:
        return timed.select(*columns), None
    uncommitted = timed.where("isolation <=> 'read_uncommitted'").select(*columns)
    return timed.where("NOT isolation <=> 'read_uncommitted'").select(*columns), uncommitted


def _extent(rows: DataFrame, place: str) -> tuple[int, Ends]:
    """Count the records, and give their partitions ends that hide nothing, whatever their offsets are.

    One scan: 64 offsets of a partition become one row with a bit for each, so few rows are shuffled, and a record that is there
    twice is found wherever it is.

    Args:
        place: the folder of the log, for messages.

    Raises:
        AuditUsageError: a place is impossible in a Kafka log, or two records share one.
    """
    near = rows.groupBy("partition", F.expr("shiftright(offset, 6) AS near")).agg(
        F.count("*").alias("records"),
        F.count("offset").alias("placed"),
        F.expr("bit_count(bit_or(shiftleft(1L, CAST(offset & 63 AS INT)))) AS offsets"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )
    sums = (F.sum(column).alias(column) for column in ("records", "placed", "offsets"))
    found = near.groupBy("partition").agg(*sums, F.min("first").alias("first"), F.max("last").alias("last")).collect()
    if any(one["partition"] is None or one["placed"] < one["records"] for one in found):
        raise AuditUsageError(_without_place(rows, place))
    here = sorted(found, key=lambda one: one["partition"])
    for partition, records, _, offsets, first, last in here:
        if not 0 <= partition < _MOST_PARTITIONS:
            raise AuditUsageError(f"{place}: a row has partition {partition}, which no Kafka topic can have; land it unchanged")
        if first < 0 or last > _LAST_OFFSET:
            strange = first if first < 0 else last
            raise AuditUsageError(
                f"{place}: a row of partition {partition} has offset {strange}, which no Kafka log can have; land it unchanged"
            )
        if records > offsets:
            what = f"{place.rpartition('/')[2]}: partition {partition} has {records} records at {offsets} offsets"
            raise AuditUsageError(f"{what}: it was landed more than once; land each topic once, into an empty folder")
    last = here[-1]["partition"] if here else -1
    return sum(one["records"] for one in here), {number: Bounds(0, _END, _END) for number in range(last + 1)}


def _without_place(rows: DataFrame, place: str) -> str:
    """Describe a row without partition or offset."""
    ((key, *numbers),) = rows.where("partition IS NULL OR offset IS NULL").select("key", "partition", "offset").take(1)
    partition, offset = ("null" if number is None else number for number in numbers)
    return (
        f"{place}: a row with key {key!r} has partition {partition} and offset {offset}: each row needs both; "
        "leave it out, or land it with its place"
    )
