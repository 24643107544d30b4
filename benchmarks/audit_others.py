"""What other tools find in a pair of logs, for `audit.py`, each as its documentation suggests, in one process.

    except      Spark: `exceptAll` both ways
    datacompy   datacompy's SparkSQLCompare, joined by the key
    duckdb      EXCEPT ALL both ways
    pandas      both logs in memory, grouped by key and value, and merged
    library     `verifiers.audit`, which takes two frames

They tell rows that are missing from rows that are extra, so a wrong value is one of each; datacompy also tells rows of one key
with other values. Only `library` and the ways of `audit_ways.py` tell duplicates from phantoms, and see rows that are out of
order; only `chaos audit` knows of offsets and timestamps, and so of causes.

Needs datacompy and duckdb in the environment: pip install datacompy==1.1.0 duckdb==2.0.1
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from pyspark.sql import Column, DataFrame

import verifiers

Counts = Mapping[str, int]
Model = Callable[[Column], Column]


def except_all(source: DataFrame, sink: DataFrame, model: Model) -> Counts:
    wanted, there = _wanted(source, model), sink.select("key", "value")
    return {"missing": wanted.exceptAll(there).count(), "extra": there.exceptAll(wanted).count()}


def datacompy(source: DataFrame, sink: DataFrame, model: Model) -> Counts:
    compare = import_module("datacompy.spark").SparkSQLCompare
    sides = (_wanted(source, model), sink.select("key", "value"))
    found = compare(sink.sparkSession, *sides, join_columns=["key"])
    differing = found.intersect_rows.where("NOT value_match").count()
    return {"missing": found.df1_unq_rows.count(), "extra": found.df2_unq_rows.count(), "unlike": differing}


def library(source: DataFrame, sink: DataFrame, model: Model) -> Counts:
    report = verifiers.audit(
        source,
        sink,
        key="key",
        order=("partition", "offset"),
        expected=lambda rows: rows.withColumn("value", model(rows["value"])),
        columns="value",
    )
    return {finding.verifier: finding.count for finding in report.findings}


def duckdb(folder: Path, _bootstrap: str) -> Callable[[], Counts]:
    database = import_module("duckdb").connect()
    database.execute("SET threads = 2")
    number = "CAST(value AS BIGINT)"
    wanted = f"SELECT key, CAST({number} * {number} AS VARCHAR) AS value FROM '{folder}/source/*.parquet'"  # noqa: S608 - no input is in it
    there = f"SELECT key, value FROM '{folder}/sink/*.parquet'"  # noqa: S608

    def count(ours: str, theirs: str) -> int:
        return int(database.execute(f"SELECT count(*) FROM (({ours}) EXCEPT ALL ({theirs}))").fetchone()[0])  # noqa: S608

    return lambda: {"missing": count(wanted, there), "extra": count(there, wanted)}


def pandas(folder: Path, _bootstrap: str) -> Callable[[], Counts]:
    frames = import_module("pandas")

    def job() -> Counts:
        wanted, there = (frames.read_parquet(folder / side, columns=["key", "value"]) for side in ("source", "sink"))
        wanted["value"] = (wanted["value"].astype("int64") ** 2).astype(str)
        times = [rows.groupby(["key", "value"]).size().rename(name) for rows, name in ((wanted, "ours"), (there, "theirs"))]
        both = frames.concat(times, axis=1).fillna(0)
        more = both["theirs"] - both["ours"]
        return {"missing": int(-more[more < 0].sum()), "extra": int(more[more > 0].sum())}

    return job


def _wanted(source: DataFrame, model: Model) -> DataFrame:
    return source.select("key", model(source["value"]).alias("value"))


OF_FRAMES = {"except": except_all, "datacompy": datacompy, "library": library}
OF_FILES = {"duckdb": duckdb, "pandas": pandas}
