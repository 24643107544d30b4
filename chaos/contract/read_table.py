"""A program for the Spark of a job: it reads the table that the job wrote, and writes its rows as Parquet for any Spark.

spark-submit … read_table.py FOLDER

FOLDER/spec.json   the table: ``format``, ``place``, ``options``, ``password_in``, ``arguments``, ``identity``,
                   ``places``
FOLDER/rows/       key string, value string, place string, timestamp_ms long
FOLDER/about.json  ``columns`` (name and type of each), ``version`` (of the table, in words) and ``rows``; or ``problem``

``value`` is the row as JSON, with all columns in the order of the table, and ``key`` its identity, or the JSON again if there
is none. ``place`` is the place of the row in the table. `chaos.expectation.forms` writes equal JSON for an expected row: times
to the microsecond and in UTC, and null as null.

It must run on every Spark that can be under test, and imports nothing of ours.
"""

import importlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

AS_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
SPEC, ABOUT, ROWS = "spec.json", "about.json", "rows"
_LONGEST = 400
NOT_THEIRS = re.compile(r"^<|[/\\](pyspark|py4j|importlib)([/\\]|\.zip)")  # frames outside the user's code
_LACKING = (
    "DATA_SOURCE_NOT_FOUND",
    "ClassNotFoundException",
    "NoClassDefFoundError",
    "No suitable driver",
    "CATALOG_NOT_FOUND",
)
_ABSENT = (
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "NoSuchTableException",
    "UNABLE_TO_INFER_SCHEMA",
    "DELTA_READ_TABLE_WITHOUT_COLUMNS",
)
_OTHER_SPARK = ("NoSuchMethodError", "IncompatibleClassChangeError")


class NoTableError(Exception):
    """The table does not exist."""


class UnreadableError(Exception):
    """The declaration leads to no table: the user's function fails, or a password is missing."""


Found = tuple[DataFrame, list[str], str, Any, Any]
"""The rows, the names of the table's own columns, its version; the columns of a row's place and its time."""


def main() -> None:
    """Read the table, and write problems to about.json."""
    folder = Path(sys.argv[1])
    sys.path.pop(0)  # the folder of this file: its modules are ours
    spec = json.loads((folder / SPEC).read_text(encoding="utf-8"))
    spark = SparkSession.builder.appName("table").getOrCreate()
    try:
        about = _landed(spark, spec, folder / ROWS)
    except NoTableError as error:
        about = {"problem": str(error), "kind": "absent"}
    except UnreadableError as error:
        about = {"problem": str(error), "kind": "failed"}
    except (Py4JJavaError, PySparkException) as error:
        about = problem(error)
    draft = folder / "about.draft"
    draft.write_text(json.dumps(about), encoding="utf-8")
    draft.replace(folder / ABOUT)


def _landed(spark: SparkSession, spec: Mapping[str, Any], rows: Path) -> dict[str, Any]:
    found, names, version, place, time_ms = _READERS[spec["format"]](spark, spec)
    columns = [(name, kind) for name, kind in found.dtypes if name in names]
    value = as_json(columns)
    key = F.coalesce(F.expr(f"CAST(({spec['identity']}) AS STRING)"), F.lit("null")) if spec["identity"] else value
    landed = found.select(key.alias("key"), value.alias("value"), place.alias("place"), time_ms.alias("timestamp_ms"))
    landed.write.mode("overwrite").parquet(str(rows))
    count = spark.read.schema("value string").parquet(str(rows)).count()
    return {"columns": columns, "version": version, "rows": count}


def as_json(columns: Sequence[tuple[str, str]]) -> Column:
    """Return the column that is a row of these columns (name, type) as JSON; different rows have different JSON.

    JSON has U+FFFD for all bytes that are not UTF-8, so a hash of the bytes follows such a text.
    """
    found = F.to_json(F.struct(*(F.col(_quoted(name)) for name, _ in columns)), AS_JSON)
    texts = [F.col(_quoted(name)) for name, kind in columns if "string" in kind or "char" in kind]
    if not texts:
        return found
    hashed = F.md5(F.struct(*texts).cast("string").cast("binary"))
    return F.when(F.instr(found, "\ufffd") > 0, F.concat(found, F.lit(" bytes "), hashed)).otherwise(found)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# formats -------------------------------------------------------------------------------------------------------------------


def _parquet(spark: SparkSession, spec: Mapping[str, Any]) -> Found:
    """Read files; Spark heeds the log of a file sink, ``_spark_metadata``, so files of killed tasks are not in the table.

    Schemas are merged: otherwise one file would decide about the columns of all.
    """
    log = _exists(spark, f"{spec['place']}/_spark_metadata")
    if not _exists(spark, spec["place"]):
        raise NoTableError(f"there is nothing at {spec['place']}")
    found = spark.read.option("mergeSchema", "true").options(**spec["options"]).parquet(spec["place"])
    return _of_files(found, "the files that its _spark_metadata lists" if log else "all files in the folder")


def _of_files(found: DataFrame, version: str) -> Found:
    place = F.concat(F.lit("file "), F.col("_metadata.file_name"))
    changed = F.expr("unix_millis(_metadata.file_modification_time)")
    return found, found.columns, version, place, changed


def _delta(spark: SparkSession, spec: Mapping[str, Any]) -> Found:
    place = spec["place"]
    log = f"{place}/_delta_log"
    if not _exists(spark, log):
        raise NoTableError(f"there is no Delta table at {place}")
    commits = spark.read.json(f"{log}/*.json").selectExpr(
        "CAST(regexp_extract(_metadata.file_name, '^([0-9]+)', 1) AS BIGINT) AS _version", "add.path AS _path"
    )
    last = commits.selectExpr("max(_version)").collect()[0][0]
    rows = spark.read.format("delta").options(**spec["options"]).option("versionAsOf", last).load(place)
    found, names, _, _, changed = _of_files(rows, "")
    added = commits.where("_path IS NOT NULL").selectExpr("element_at(split(_path, '/'), -1) AS _file", "_version")
    first = F.broadcast(added.groupBy("_file").agg(F.min("_version").alias("_version")))
    told = found.select("*", F.col("_metadata.file_name").alias("_name"), changed.alias("_changed"))
    joined = told.join(first, F.expr("_name = _file"), "left")
    where = F.expr("concat('version ', coalesce(CAST(_version AS STRING), 'unknown'), ', file ', _name)")
    return joined, names, f"version {last}", where, F.col("_changed")


def _iceberg(spark: SparkSession, spec: Mapping[str, Any]) -> Found:
    place = spec["place"]
    inner = "#" if "/" in place else "."
    if inner == "#" and not _exists(spark, f"{place}/metadata"):
        raise NoTableError(f"there is no Iceberg table at {place}")
    current = spark.read.format("iceberg").load(f"{place}{inner}refs").where("name = 'main'").select("snapshot_id").collect()
    if not current:
        raise NoTableError(f"the Iceberg table {place} has no snapshot: nothing was written to it")
    snapshot = current[0]["snapshot_id"]  # not always the newest one: a table may be rolled back
    # versions from 1.12 on refuse the option `snapshot-id`
    rows = spark.read.format("iceberg").options(**spec["options"]).option("versionAsOf", snapshot).load(place)
    snapshots = spark.read.format("iceberg").load(f"{place}{inner}snapshots").select("committed_at", "snapshot_id")
    names = rows.columns
    entries = spark.read.format("iceberg").load(f"{place}{inner}entries")
    files = entries.selectExpr("data_file.file_path AS _path", "snapshot_id AS _snapshot").dropDuplicates(["_path"])
    times = snapshots.selectExpr("snapshot_id AS _snapshot", "unix_millis(committed_at) AS _committed")
    added = F.broadcast(files.join(times, "_snapshot", "left"))
    joined = rows.select("*", F.col("_file").alias("_in")).join(added, F.expr("_in = _path"), "left")
    version = "coalesce(CAST(_snapshot AS STRING), 'unknown')"
    where = F.expr(f"concat('snapshot ', {version}, ', file ', element_at(split(_in, '/'), -1))")
    return joined, names, f"snapshot {snapshot}", where, F.col("_committed")


def _jdbc(spark: SparkSession, spec: Mapping[str, Any]) -> Found:
    """Read the table with one query, and so in one snapshot of the database."""
    options = {**spec["options"], "numPartitions": "1"}
    if spec["password_in"] and spec["password_in"] not in os.environ:
        raise UnreadableError(f"password_in: the environment has no variable {spec['password_in']}; set it")
    if spec["password_in"]:
        options["password"] = os.environ[spec["password_in"]]
    rows = spark.read.format("jdbc").options(**options).option("dbtable", spec["place"]).load()
    nowhere = F.lit(f"table {spec['place']}")
    return rows, rows.columns, "one query", nowhere, F.lit(None).cast("bigint")


def _python(spark: SparkSession, spec: Mapping[str, Any]) -> Found:
    found = _called(spark, spec)
    if not isinstance(found, DataFrame):
        raise UnreadableError(f"{spec['place']} returned a value of type {type(found).__name__}, not a DataFrame")
    try:
        found.select("_metadata.file_name", "_metadata.file_modification_time")
    except PySparkException:  # its rows are of no files
        return found, found.columns, "as the function gives it", F.lit("as the function gives it"), F.lit(None).cast("bigint")
    return _of_files(found, "as the function gives it")


def _called(spark: SparkSession, spec: Mapping[str, Any]) -> Any:
    """Call the user's function and return its result; any exception of it becomes an UnreadableError."""
    module, _, function = spec["place"].partition(":")
    sys.path.insert(0, spec["options"]["folder"])
    try:
        return getattr(importlib.import_module(module), function)(spark, dict(spec["places"]), **spec["arguments"])
    except Exception as error:
        traceback.print_exc()
        frames = traceback.extract_tb(error.__traceback__)
        last = next((one for one in reversed(frames) if not NOT_THEIRS.search(one.filename)), frames[-1])
        said = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
        raise UnreadableError(f"{spec['place']} raised {said} ({last.filename}:{last.lineno})") from error


_READERS: Mapping[str, Callable[[SparkSession, Mapping[str, Any]], Found]] = {
    "parquet": _parquet,
    "delta": _delta,
    "iceberg": _iceberg,
    "jdbc": _jdbc,
    "python": _python,
}


def _exists(spark: SparkSession, place: str) -> bool:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    path = jvm.org.apache.hadoop.fs.Path(place)
    return bool(path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(path))  # noqa: SLF001


# problems ------------------------------------------------------------------------------------------------------------------


def problem(error: Py4JJavaError | PySparkException) -> dict[str, str]:
    """Return what Spark says of a table that it cannot read, in one line, and its kind.

    The kind is ``lacking`` (a reader or a driver), ``absent`` (the table), ``other`` (a package for another Spark), or
    ``failed``.
    """
    said = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    whole = f"{said} {error}"
    kinds = {"lacking": _LACKING, "absent": _ABSENT, "other": _OTHER_SPARK}
    kind = next((kind for kind, signs in kinds.items() if any(sign in whole for sign in signs)), "failed")
    line = " ".join((said.strip().splitlines() or ["Spark failed"])[0].split())
    return {"problem": line[:_LONGEST], "kind": kind}


if __name__ == "__main__":
    main()
