"""The rows that a scenario declares become a file of the run's folder, before anything is sent (`chaos.loader.rows`).

SQL is computed by the judge's Spark, files are read here, and a function or a generator is run by
a process of its own. What is wrong with any
of them is told in a line, and the run is UNKNOWN.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chaos.common.errors import InconclusiveError, one_line
from chaos.engine.run_plan import Load, Loader, RunPlan
from chaos.loader import rows, sources
from chaos.loader.declaration import FillSource, marked
from chaos.loader.rows import RowsError
from chaos.loader.sources import Function
from chaos.scenario.checks import too_long
from chaos.scenario.model import Filling
from chaos.scenario.plan import scenario_seed

_MADE_WITHIN_S = 600.0


def made_beforehand(plan: RunPlan) -> bool:
    """Whether the run has rows that are known before they are sent: not those of a loader of the user's own."""
    return any(one.filling.rows is not None and isinstance(one.loader, FillSource) for one in plan.loads)


def with_rows(plan: RunPlan, spark: Callable[[], SparkSession]) -> RunPlan:
    """The plan of a run whose rows are in its folder; the same plan where integers are sent.

    Raises:
        InconclusiveError: the rows cannot be had.
    """
    if not made_beforehand(plan):
        return plan
    plan.write_down()
    loaders = tuple(_with_rows(plan, load, spark) for load in plan.loads)
    workload = plan.scenario.workload.sending(one.records for one in loaders)
    return replace(plan, scenario=plan.scenario.model_copy(update={"workload": workload}), loaders=loaders)


def _with_rows(plan: RunPlan, load: Load, spark: Callable[[], SparkSession]) -> Loader:
    """The loader of a topic, with its rows in their file."""
    filling, loader = load.filling, load.loader
    if filling.rows is None or not isinstance(loader, FillSource):
        return loader
    path = plan.folder / marked(rows.FILE, load.mark)
    place = f"workload, {f'also, {load.name}, ' if load.mark else ''}rows, {filling.rows.kind}"
    try:
        count = _written(filling, plan, load.topics.partitions, path, spark)
    except RowsError as error:
        raise InconclusiveError(f"{place}: {error}") from error
    problem = too_long(filling.model_copy(update={"records": count}))
    if problem:
        raise InconclusiveError(f"{place}: {problem}")
    return replace(loader, records=count, rows=path)


def _written(filling: Filling, plan: RunPlan, partitions: int, path: Path, spark: Callable[[], SparkSession]) -> int:
    declared, wanted = filling.rows, filling.wanted
    assert declared is not None  # noqa: S101 - see `_with_rows`
    if declared.sql is not None:
        scratch = plan.folder / "rows-of-sql"
        try:
            compute(spark(), declared.sql, filling.records, scratch)
            return rows.write(path, _of_spark(scratch), partitions, wanted, name=lambda number: f"row {number}")
        finally:
            rmtree(scratch, ignore_errors=True)
    if declared.file is not None:
        return _of_file(Path(declared.file), path, partitions, wanted)
    seed = scenario_seed(plan.schedule.seed, plan.scenario.name)
    function = Function(declared.python or declared.generator or "", declared.folder or "", declared.arguments)
    _run(sources.command(function, seed, wanted, partitions, path), plan.folder, f"{path.stem}.log")
    try:
        return int(parquet.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        raise RowsError(f"{function.name} ended its process before all rows were written; let it return instead") from None


def compute(spark: SparkSession, sql: str, records: int, folder: Path) -> None:
    """Write what the query makes of ``ids``.

    Raises:
        RowsError: Spark cannot read it, or not compute it, or its columns are no rows.
    """
    session = spark.newSession()  # so that no other query sees the view
    session.range(0, records, 1, 1).createOrReplaceTempView("ids")
    try:
        found = session.sql(sql)
        wrong = sources.wrong_columns(_schema(found.dtypes))
        if wrong:
            raise RowsError(f"the query {wrong}")
        found.write.parquet(str(folder))
    except PySparkException as error:
        raise RowsError(one_line(str(error).strip().splitlines()[0], 300)) from error
    except Py4JJavaError as error:
        raise RowsError(one_line(str(error.java_exception.getMessage()), 300)) from error


def _schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Of Spark's columns, as far as `sources.wrong_columns` looks at it; any other type is shown as Spark calls it."""
    known = {"string": pa.string(), "binary": pa.binary(), "void": pa.null()}
    fields = [(name, known.get(kind)) for name, kind in columns]
    for (name, kind), (_, found) in zip(columns, fields, strict=True):
        if found is None and name in {"key", "value"}:
            raise RowsError(f"the query has a {name} of type {kind}; CAST({name} AS STRING), or make it a binary")
    return pa.schema([(name, found or pa.null()) for name, found in fields])


def _of_spark(folder: Path) -> Iterator[Any]:
    for part in sorted(folder.glob("*.parquet")):
        yield from sources.of_file(part)


def _of_file(file: Path, path: Path, partitions: int, wanted: int | None) -> int:
    wrong = sources.problem(file)
    if wrong:
        raise RowsError(f"{file} {wrong}")
    return rows.write(path, sources.of_file(file), partitions, wanted, name=lambda number: f"row {number} of {file}")


def _run(command: tuple[str, ...], folder: Path, name: str) -> None:
    """Run the process that makes the rows; its log is beside those of the others.

    Raises:
        RowsError: it failed, and its last line says why; or it took too long.
    """
    log = folder / "logs" / name
    log.parent.mkdir(exist_ok=True)
    try:
        with log.open("wb") as said:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder, timeout=_MADE_WITHIN_S, check=False
            )
    except subprocess.TimeoutExpired:
        raise RowsError(f"it has not yielded them within {_MADE_WITHIN_S:g} s; see {log}, or declare records") from None
    if ended.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"its process ended with {ended.returncode}"
        raise RowsError(one_line(reason, 300))
