"""What a sink must hold, said by its user: in SQL over what the source holds, or by a function of Python.

A query sees each topic that the pipeline reads as a view of the same name::

    key, value   string, as `chaos.judging.own_rows.text` writes bytes: UTF-8 as it is, anything else as 0x and hex
    partition    int, of the topic
    offset       long
    timestamp    timestamp

and gives the rows of the sink: ``key`` and ``value``, text or bytes, and perhaps ``partition`` and ``offset``: the place of the
source record that demands the row. Where each row has such a place, and no two have the same, their order is known. A function
is given the same views as DataFrames, by their names, and the session, and returns such rows.

Where the sink is a table, the rows have the columns of the table instead. They become text as those of the table did when they
were read (`chaos.subject.read_table`).

A *twin* needs neither: its rows are those that the same pipeline wrote of the same workload while nothing was broken
(`chaos.engine.twins`). They are in the run's folder, as text already.

The rows are a multiset, and `chaos.judging.own_rows` says which row of the sink answers which of them.
"""

import importlib
import importlib.machinery
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.common import own_code
from chaos.common.errors import one_line
from chaos.judging import expressions, own_rows, repeatable
from chaos.judging.own_rows import Numbered, Numbering, text
from chaos.scenario.expected import SOURCE, ExpectedRows
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import NoPipeline
from chaos.subject.read_table import NOT_THEIRS, as_json
from verifiers import arrow, evidence
from verifiers.findings import by_partition

Columns = tuple[tuple[str, str], ...]
"""Names and types, as Spark writes types."""
Views = Mapping[str, DataFrame]
"""Name of a topic -> its records, with the columns of `COLUMNS`."""
COLUMNS = {"key": "string", "value": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}
_OF_ROWS = ("key", "value", "partition", "offset")
_TEXTS = ("string", "binary", "void")
_NUMBERS = ("tinyint", "smallint", "int", "bigint")
TWIN = "twin"
"""The folder of a run, or of the cache, with what a run without faults has written."""
ROWS = "rows"
ABOUT = "about.json"
_LONGEST = 300
_WITHIN_S = 600.0  # a function may count and collect what it is given
_OF_SEVERAL = "they are made of the records of several topics, and it is not said of which"


class ModelError(Exception):
    """What is expected cannot be said; the message says what is wrong, and what to do.

    Attributes:
        of_identity: whether that is what is wrong, and not the model.
    """

    def __init__(self, message: str, *, of_identity: bool = False) -> None:
        super().__init__(message)
        self.of_identity = of_identity


@dataclass(frozen=True, slots=True)
class Model:
    """Who says what is expected: a query, a function, or a twin; a copy of the source where there is none of them.

    Attributes:
        python: ``module:function``.
        folder: where its module is looked for first.
        twin: the folder of the rows that were written without faults.
        identity: SQL over key and value, by which a row with a wrong value is told from one that nothing demands; "" for none.
        said_in: where all this is said: in the declaration of a ``pipeline``, or in the options of ``chaos audit``.
        of_table: whether its rows are those of a table.
        of_state: whether they are the last of each key.
        columns: of that table, once it has been read.
        firsts: topic -> what its partition 0 is called in the positions of the pipeline, where several topics are filled: then
            a partition and an offset do not say which record demands a row. Empty where one topic is.
    """

    sql: str = ""
    python: str = ""
    folder: str = ""
    identity: str = ""
    said_in: Literal["pipeline", "options"] = "pipeline"
    of_table: bool = False
    columns: Columns = ()
    twin: str = ""
    of_state: bool = False
    firsts: Mapping[str, int] = field(default_factory=dict)

    @property
    def of_several(self) -> bool:
        return bool(self.firsts)

    @property
    def is_copy(self) -> bool:
        return not (self.sql or self.python or self.twin)

    def told(self, error: ModelError) -> str:
        """An error with the place of what is wrong."""
        if self.said_in == "options":
            return f"--identity {self.identity}: {error}" if error.of_identity else f"--expected-sql: {error}"
        kind = "sql" if self.sql else "python" if self.python else "same_as" if self.twin else SOURCE
        key = "identity" if error.of_identity else f"expected, {kind}"
        return f"pipeline, {key}: {error}"


@dataclass(frozen=True, slots=True)
class Demanded:
    """The rows that a sink must hold.

    Attributes:
        rows: key string, value string, partition int, offset long; the last two are of the source, and may be null.
        count: how many.
        unordered: why their order is not known; "" where each has a place of its own in the source.
        placed: whether each has a place.
        left: how many records of the source the pipeline is not past.
    """

    rows: DataFrame
    count: int
    unordered: str
    placed: bool
    left: int = 0


def of_scenario(scenario: Scenario, folder: Path = Path()) -> Model | None:
    """The model of a scenario's pipeline; None where integers are judged by their keys, and where there is no sink.

    Args:
        folder: of the run, where the rows of a twin are.
    """
    pipeline = scenario.pipeline
    if isinstance(pipeline, NoPipeline):
        return None
    if scenario.by_transactions:
        return None
    identity, firsts = pipeline.identity or "", _firsts(scenario)
    if isinstance(pipeline.expected, ExpectedRows):
        said = pipeline.expected
        of: Mapping[str, Any] = {
            "of_table": scenario.table is not None,
            "of_state": scenario.as_state,
            "firsts": firsts,
        }
        twin = str(folder / TWIN / ROWS) if said.same_as else ""
        return Model(said.sql or "", said.python or "", said.folder or "", identity, twin=twin, **of)
    by_rows = identity or firsts or scenario.workload.rows is not None
    return Model(identity=identity, firsts=firsts) if by_rows else None


def _firsts(scenario: Scenario) -> Mapping[str, int]:
    """By which partitions of several topics are numbered through; empty where one is filled."""
    if not scenario.workload.also:
        return {}
    sizes = [scenario.topics[topic].partitions for topic in scenario.filled]
    return {topic: sum(sizes[:number]) for number, topic in enumerate(scenario.filled)}


def compares_headers(scenario: Scenario) -> bool:
    """Whether headers count as a part of the value; a query and an identity see values as they are, without them.

    A twin has the headers that the pipeline writes, whatever those of the source are.
    """
    model = of_scenario(scenario)
    return scenario.pipeline.keeps_headers and (model is None or (not model.sql and not model.python and not model.identity))


def numbering(
    spark: SparkSession,
    model: Model,
    sources: Views,
    positions: Mapping[int, int],
    lines: int,
    *,
    anywhere: bool,
) -> Numbering:
    """Which rows of the sink are expected, by the model; or, where that cannot be said, why.

    Args:
        sources: of several with records, no two have the same number of a partition, unless the model is of several topics.
        positions: of the pipeline in them.
        lines, anywhere: as in `chaos.judging.own_rows`.
    """
    if model.is_copy and not model.of_several:
        return _guarded(model, own_rows.of_sink(_all(sources), positions, lines, anywhere=anywhere, identity=model.identity))
    try:
        found = due(spark, model, sources, positions)
    except ModelError as error:
        return own_rows.unsaid(model.told(error))
    return answering(model, found, positions, lines, anywhere=anywhere)


def due(
    spark: SparkSession,
    model: Model,
    sources: Views,
    positions: Mapping[int, int],
    hold: Callable[[DataFrame], DataFrame] = own_rows.held,
    is_apart: Callable[[DataFrame], bool] | None = None,
) -> Demanded:
    """The rows that the sink must hold once the pipeline has come to these positions.

    Args:
        hold, is_apart: as in `demanded`.

    Raises:
        ModelError: it cannot be said which they are.
    """
    if model.twin:
        _require_same_source(model, sources)
    found = demanded(spark, model, sources, hold, is_apart)
    left = _left(sources, positions, model.firsts)
    if left:
        _require_by_record(spark, model, sources, positions, found, left)
    return replace(found, left=left)


def answering(model: Model, found: Demanded, positions: Mapping[int, int], lines: int, *, anywhere: bool) -> Numbering:
    """Which rows of the sink answer these; arguments as in `numbering`."""
    if model.of_table:  # its identity has become the key
        unordered, as_they_are = "the rows of a table have no order", not model.identity
        return own_rows.of_sink(found.rows, positions, lines, anywhere=True, unordered=unordered, as_they_are=as_they_are)
    if model.of_state:
        return own_rows.of_state(found.rows, positions, lines)
    of_model = own_rows.of_sink(
        found.rows,
        positions,
        lines,
        anywhere=anywhere or not found.placed,
        unordered=found.unordered,
        identity=model.identity,
        as_they_are=not model.is_copy,
    )
    return _guarded(model, of_model)


def _left(sources: Views, positions: Mapping[int, int], firsts: Mapping[str, int]) -> int:
    """How many records the pipeline is not past."""

    def in_topic(topic: str) -> DataFrame:
        first = firsts.get(topic, 0)
        own = {number - first: reached for number, reached in positions.items() if number >= first}
        return sources[topic].where(f"offset >= {by_partition(own)}")

    return reduce(DataFrame.unionByName, map(in_topic, sources)).count()


def _guarded(model: Model, number: Numbering) -> Numbering:
    """The same, where rows of the sink may be such that their identity cannot be computed."""

    def guarded(observed: DataFrame) -> Numbered:
        try:
            with _told("identity"):
                return number(observed)
        except ModelError as error:
            return own_rows.unsaid(model.told(error))(observed)

    return guarded if model.identity else number


def _require_by_record(
    spark: SparkSession,
    model: Model,
    sources: Views,
    positions: Mapping[int, int],
    found: Demanded,
    left: int,
) -> None:
    """Raise ModelError unless what was processed demands the same rows whatever else is in the source.

    A total of all records is not the total of those that the pipeline has read so far.
    """
    processed = f"offset < {by_partition(positions)}"
    whose = "all of its topics" if model.of_several else "its source"
    reason = f"the pipeline is not at the end of {whose} ({left} records are left), and {_called_so(model)}"
    if model.of_table:
        raise ModelError(f"{reason} does not say which record demands a row of a table, so it is not known which rows are due")
    if model.of_state:
        raise ModelError(f"{reason} says what the state must be at the end, so it is not known what it must be now")
    if model.of_several:
        raise ModelError(
            f"{reason} does not say of which records in which topic a row is made, so it is not known which are due"
        )
    if not found.placed:
        raise ModelError(f"{reason} gives no partition and offset of the source, so it is not known which rows are due")
    now = demanded(spark, model, {topic: records.where(processed) for topic, records in sources.items()}).rows
    then = found.rows.where(processed)
    if now.exceptAll(then).take(1) or then.exceptAll(now).take(1):
        raise ModelError(f"{reason} demands other rows of what it has read than of all, so it is not known which are due")


def _require_same_source(model: Model, sources: Views) -> None:
    """Raise ModelError where the source has other records than it had for the twin: a loader may be refused some."""
    then = json.loads((Path(model.twin).parent / ABOUT).read_text(encoding="utf-8"))["source"]
    now = fingerprint_of(sources) if model.of_several else fingerprint(_all(sources))
    if now != then:
        counts = f"{now['records']} records, and {then['records']} then"
        raise ModelError(f"the source has other records than in the run without faults ({counts}), so other rows may be due")


def fingerprint(records: DataFrame, topic: str = "") -> Mapping[str, int]:
    """Which records these are, whatever their order: how many, and the sum of their hashes.

    Args:
        topic: where the same records in another topic are others, the name of theirs.
    """
    of_topic = f"'{topic}', " if topic else ""
    hashed = f"coalesce(sum(CAST(xxhash64({of_topic}partition, key, value) AS DECIMAL(38, 0))), 0)"
    count, total = records.selectExpr("count(*)", hashed).collect()[0]
    return {"records": count, "hash": int(total)}


def fingerprint_of(topics: Views) -> Mapping[str, int]:
    """The same of the records of several topics."""
    each = [fingerprint(records, topic) for topic, records in topics.items()]
    return {name: sum(one[name] for one in each) for name in ("records", "hash")}


def view(records: DataFrame) -> DataFrame:
    """A topic as it was landed (`verifiers.evidence.OBSERVED`), as a query sees it."""
    return records.selectExpr("key", "value", "partition", "offset", "timestamp_millis(timestamp_ms) AS timestamp")


def nothing(spark: SparkSession) -> DataFrame:
    """A topic without a record."""
    return view(arrow.made(spark, [], evidence.OBSERVED))


def require_known(spark: SparkSession, model: Model, topics: Sequence[str]) -> None:
    """Check what can be checked without records: the query and the identity are read by Spark, the function is imported.

    Raises:
        ModelError: there is an error.
    """
    if model.sql:
        query = _queried(spark, model, {topic: nothing(spark) for topic in topics})
        _contracted(query, model)
        _require_repeatable(query)
    if model.python:
        _function(model)
    if model.identity and not model.of_table:
        wrong = expressions.why_no_sql(nothing(spark).select("key", "value"), model.identity)
        if wrong:
            raise ModelError(f"{one_line(wrong, _LONGEST)} The columns are key, value.", of_identity=True)


def _require_repeatable(query: DataFrame) -> None:
    """Raise ModelError where it would give other rows when it is asked again: no sink could hold them all."""
    varies = repeatable.why_not(query)
    if varies:
        raise ModelError(f"it does not give the same rows each time: {varies}; leave that out")


def demanded(
    spark: SparkSession,
    model: Model,
    sources: Views,
    hold: Callable[[DataFrame], DataFrame] = own_rows.held,
    is_apart: Callable[[DataFrame], bool] | None = None,
) -> Demanded:
    """The rows that a query or a function gives, computed, or those of a twin; of several topics, those of a copy, too.

    Args:
        hold: computes them once and for all.
        is_apart: whether it is certain of such rows that no two share a place; they are counted by place where it is not.

    Raises:
        ModelError: they cannot be had.
    """
    if model.twin:
        return _of_twin(spark, model.twin)
    if model.is_copy:
        return _of_copy(sources)
    rows = _contracted(_queried(spark, model, sources) if model.sql else _called(spark, model, sources), model)
    with _told():
        held = hold(rows)
    if model.of_state:
        return _of_state(model, held)
    count, placed, lowest, highest, before = (
        held.selectExpr("partition", "offset", "partition IS NOT NULL AND offset IS NOT NULL AS placed")
        .selectExpr(
            "count(*)",
            "count_if(placed)",
            "coalesce(min(IF(placed, partition, NULL)), 0)",
            "coalesce(max(IF(placed, partition, NULL)), 0)",
            "coalesce(min(IF(placed, offset, NULL)), 0)",
        )
        .collect()[0]
    )
    partitions = 1 + (_all(sources).selectExpr("coalesce(max(partition), 0)").collect()[0][0] if placed else 0)
    if lowest < 0 or before < 0 or highest >= partitions:
        place = f"offset {before}" if before < 0 else f"partition {lowest if lowest < 0 else highest}"
        raise ModelError(
            f"{_called_so(model)} has a row with {place}, and the source has none such; give the place of a record"
        )
    if model.of_several:
        return Demanded(held, count, _OF_SEVERAL, placed=False)
    if placed < count:
        return Demanded(held, count, f"{count - placed} of its rows have no partition and offset of the source", placed=False)
    shared = 0 if is_apart is not None and is_apart(held) else _sharing(held)
    return Demanded(held, count, f"{shared} of its rows share a record of the source" if shared else "", placed=True)


def _sharing(rows: DataFrame) -> int:
    """How many rows share a place with another."""
    alike = rows.groupBy("partition", "offset").count().where("count > 1")
    shared: int = alike.selectExpr("coalesce(sum(count), 0)").collect()[0][0]
    return shared


def _of_twin(spark: SparkSession, place: str) -> Demanded:
    """What a run without faults has written: nobody knows which record of the source demands which row of it."""
    with _told():
        written = spark.read.schema("key string, value string").parquet(place)
        rows = written.selectExpr("*", "CAST(NULL AS BIGINT) AS partition", "CAST(NULL AS BIGINT) AS offset").localCheckpoint()
    count = rows.count()
    return Demanded(rows, count, "a run without faults does not say which record of the source demands a row", placed=False)


def _of_copy(sources: Views) -> Demanded:
    """All records of several topics."""
    rows = _all(sources).selectExpr("key", "value", "CAST(NULL AS BIGINT) AS partition", "CAST(NULL AS BIGINT) AS offset")
    held = rows.localCheckpoint()
    return Demanded(held, held.count(), _OF_SEVERAL, placed=False)


def _of_state(model: Model, rows: DataFrame) -> Demanded:
    """One row for each key; one without a value is none, as a tombstone is."""
    twice = rows.groupBy("key").count().where("count > 1").orderBy("key").first()
    if twice is not None:
        key = "null" if twice["key"] is None else repr(twice["key"])
        raise ModelError(f"{_called_so(model)} gives {twice['count']} rows of key {key}, and a state has one; GROUP BY the key")
    there = rows.where("value IS NOT NULL")
    return Demanded(there, there.count(), own_rows.OF_STATE, placed=False)


def _all(sources: Views) -> DataFrame:
    """The records of all topics."""
    return reduce(DataFrame.unionByName, sources.values())


# queries -------------------------------------------------------------------------------------------------------------------


def _queried(spark: SparkSession, model: Model, sources: Views) -> DataFrame:
    """What the query gives; nothing is computed yet."""
    with _told("sql", sources), _views(spark, sources):
        parser: Any = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark has no other way to it
        sql = model.sql.strip().rstrip(";")
        parser.parseQuery(sql)  # it refuses commands, which `sql` would carry out
        return spark.sql(sql)


@contextmanager
def _views(spark: SparkSession, sources: Views) -> Iterator[None]:
    """The topics as views of these names, as long as the query is read."""
    names = {topic: "`" + topic.replace("`", "``") + "`" for topic in sources}
    for topic, name in names.items():
        sources[topic].createOrReplaceTempView(name)
    try:
        yield
    finally:
        for topic in names:
            spark.catalog.dropTempView(topic)  # this one takes the name as it is, and knows none in backquotes


@contextmanager
def _told(key: str = "", sources: Views | None = None, columns: Sequence[str] = ()) -> Iterator[None]:
    """What Spark says is wrong, in a line, with what there is where a name is not known."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
        lines = said.strip().splitlines() or ["Spark failed"]
        place = re.search(r"\(line \d+, pos \d+\)", said)
        reason = one_line(lines[0] + (f" {place[0]}" if place and place[0] not in lines[0] else ""), _LONGEST)
        names = columns or (("key", "value") if key == "identity" else tuple(COLUMNS))
        views = f" The views are {', '.join(sources)}," if sources else ""
        there = f"{views}{' with the' if views else ' The'} columns {', '.join(names)}." if key else ""
        raise ModelError(f"{reason}{there}", of_identity=key == "identity") from error


# functions -----------------------------------------------------------------------------------------------------------------


def _called(spark: SparkSession, model: Model, sources: Views) -> DataFrame:
    function = _function(model)
    spark.sparkContext.pythonExec = sys.executable  # of Spark's Python workers, should it need them
    with _raised(model, "raised"):
        found = function(dict(sources), spark)
    if not isinstance(found, DataFrame):
        raise ModelError(f"{model.python} returned a value of type {type(found).__name__}, and not a DataFrame of Spark")
    return found


def _function(model: Model) -> Callable[..., Any]:
    module, _, name = model.python.partition(":")
    with _raised(model, "cannot be imported:"), _importable(module, model.folder):
        found = importlib.import_module(module)
        cloudpickle.register_pickle_by_value(found)  # type: ignore[no-untyped-call] # Spark's Python workers may not find it
    function: Callable[..., Any] | None = getattr(found, name, None)
    if not callable(function):
        raise ModelError(f"there is no function {name} in {module} ({getattr(found, '__file__', None) or 'built in'})")
    return function


@contextmanager
def _importable(module: str, folder: str) -> Iterator[None]:
    """The folder is looked in first; one of this name that was imported from elsewhere is put aside for good."""
    top = module.partition(".")[0]
    there = importlib.machinery.PathFinder.find_spec(top, [folder]) if folder else None
    loaded = sys.modules.get(top)
    if there is not None and loaded is not None and getattr(loaded, "__file__", None) != there.origin:
        for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            del sys.modules[name]
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module may have changed it
            sys.path.remove(folder)


@contextmanager
def _raised(model: Model, what: str) -> Iterator[None]:
    """Whatever the user's code raises, in a line. The third place with a broad ``except``: that code may be anything.

    A warning is not an error there, whatever pytest makes of warnings in this repository.
    """
    try:
        with warnings.catch_warnings(), own_code.confined(_WITHIN_S):
            warnings.simplefilter("default")
            yield
    except (Exception, SystemExit) as error:
        frames = (one for one in reversed(extract_tb(error.__traceback__)) if not NOT_THEIRS.search(one.filename))
        place = next(
            (f" ({one.filename}:{one.lineno})" for one in frames if one.filename not in (__file__, own_code.__file__)), ""
        )
        said = f"{model.python} {what} {type(error).__name__}: {error}".splitlines()[0]
        raise ModelError(f"{one_line(said, _LONGEST)}{place}") from error


# what they give ------------------------------------------------------------------------------------------------------------


def _contracted(found: DataFrame, model: Model) -> DataFrame:
    """The columns of rows, as text and numbers.

    Raises:
        ModelError: one is missing, of another type, or no column of a record.
    """
    if model.of_table:
        return _of_table(found, model)
    kinds = [(name.lower(), kind) for name, kind in found.dtypes]
    if wrong := _wrong_columns([name for name, _ in kinds], of_several=model.of_several) or next(
        filter(None, (_wrong_type(*one) for one in kinds)), ""
    ):
        raise ModelError(f"{_called_so(model)} {wrong}")
    of_kind = dict(kinds)
    texts = [f"{text(name) if of_kind[name] == 'binary' else f'CAST({name} AS STRING)'} AS {name}" for name in ("key", "value")]
    place = [f"CAST({name if name in of_kind else 'NULL'} AS BIGINT) AS {name}" for name in ("partition", "offset")]
    return found.selectExpr(*texts, *place)


def _of_table(found: DataFrame, model: Model) -> DataFrame:
    """The rows of a table as text; before it has been read, its columns are taken to be those that are given."""
    columns = model.columns or tuple(found.dtypes)
    if wrong := _unlike(found.dtypes, columns):
        raise ModelError(f"{_called_so(model)} {wrong}")
    quoted = [(f"`{name.replace('`', '``')}`", kind) for name, kind in columns]
    with _told("identity", columns=[name for name, _ in columns]):
        as_there = found.select(*(F.expr(f"CAST({name} AS {kind}) AS {name}") for name, kind in quoted))
        value = as_json(columns)
        own = F.coalesce(F.expr(f"CAST(({model.identity}) AS STRING)"), F.lit("null")) if model.identity else value
        nowhere = [F.lit(None).cast("bigint").alias(name) for name in ("partition", "offset")]
        return as_there.select(own.alias("key"), value.alias("value"), *nowhere)


def _unlike(found: Sequence[tuple[str, str]], columns: Columns) -> str:
    """Why these are not the columns of the table; "" if they are. Whole numbers may be of different sizes."""
    there, given = ({name.lower(): kind for name, kind in ones} for ones in (columns, found))
    listed = ", ".join(f"{name} {kind}" for name, kind in columns)
    if len(given) < len(found):
        return "has two columns of one name; keep one"
    missing = next((name for name in there if name not in given), None)
    if missing is not None:
        return f"has no column {missing}, and the table has; the columns of the table are {listed}"
    unknown = next((name for name in given if name not in there), None)
    if unknown is not None:
        return f"has a column {unknown}, and the table has none; the columns of the table are {listed}"
    for name, kind in there.items():
        one = given[name]
        if one not in {kind, "void"} and not {one, kind} <= set(_NUMBERS):
            return f"has a column {name} of type {one}, and that of the table is {kind}; write CAST({name} AS {kind})"
    return ""


def _wrong_columns(names: Sequence[str], *, of_several: bool) -> str:
    """Why columns of these names are no rows; "" if they are."""
    for name in ("key", "value"):
        if name not in names:
            return f"has no column {name}; its columns are {', '.join(names)}. For records without one, write NULL AS {name}"
    unknown = next((name for name in names if name not in _OF_ROWS), None)
    if unknown is not None:
        return f"has a column {unknown}, which no row of a sink has; the columns are {', '.join(_OF_ROWS)}"
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"has two columns {twice}; keep one"
    if of_several and (place := next((name for name in names if name in {"partition", "offset"}), None)):
        why = "and several topics are filled, so it does not say which record that is"
        return f"has a column {place}, the place of a record of the source, {why}; leave partition and offset out"
    if ("partition" in names) != ("offset" in names):
        one, other = ("partition", "offset") if "partition" in names else ("offset", "partition")
        return f"has {one} and no {other}; both together are the place of a record of the source"
    return ""


def _wrong_type(name: str, kind: str) -> str:
    """Why a column may not have this type; "" if it may."""
    if name in {"key", "value"}:
        return "" if kind in _TEXTS else f"has a {name} of type {kind}; CAST({name} AS STRING), or make it a binary"
    return "" if kind in _NUMBERS else f"has a column {name} of type {kind}; give a whole number"


def _called_so(model: Model) -> str:
    if model.is_copy:
        return "a copy"
    return "the query" if model.sql else model.python or "the run without faults"
