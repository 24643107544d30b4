"""The twin: a run without faults, whose output the pipeline must write under faults, too.

`expected: {same_as: fault_free}` needs no model, so it works for any pipeline whose output is a function of its input. The twin
runs before the run that needs it, on the same system, and is kept in the cache for all later runs of the same version of
pipeline and workload. At its first use it runs twice: if the two differ, the output depends on more than the input, and cannot
be expected again.

    <cache>/twins/<key>/rows/        key string, value string: the rows, as Parquet
    <cache>/twins/<key>/about.json   its time, the run that made it, the number of rows, and their source
    <run>/twin/                      a copy, by which this run is judged
    <run>/twin/<name>-without-faults-1   a run that made it

A twin shows the pipeline's behaviour, not whether that is right: an error without faults is in both.

It imports more than fifteen modules: a twin is a whole run within a run, from its plan to its judged evidence.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from pyspark.sql import DataFrame, SparkSession

from chaos.cluster.system import System
from chaos.common import files
from chaos.common.errors import DeadlineError, InconclusiveError, one_line
from chaos.common.events import FORMAT, PhaseFailed, RunBegan, TwinUsed
from chaos.common.history import History, of_type
from chaos.engine.pipelines import topics_of
from chaos.engine.run import execute
from chaos.engine.run_plan import RunPlan, table_of
from chaos.expectation import forms
from chaos.expectation.definitions import ABOUT, ROWS, TWIN
from chaos.expectation.sources import fingerprint, fingerprint_of
from chaos.expectation.ways import TheTwin
from chaos.install import cache
from chaos.judging import landing
from chaos.judging.judge import WITHOUT_EXPECTED, load_findings
from chaos.loader.declaration import FillSource
from chaos.scenario.plan import plan as schedule_of
from chaos.scenario.verifiers import PROGRESS, TRANSACTIONS
from verifiers.base import Verdict

_FORMAT = "1"  # of the kept files, and of the key
_TWINS = "twins"
_KEPT_AT_MOST = 50
_TWICE = (1, 2)
_ASKED = WITHOUT_EXPECTED | {"ledger", PROGRESS, TRANSACTIONS}
_NOT_ASKED = "this run is the twin: its output is the expectation"
_BETWEEN = re.compile(r"[,:;=\s]")


def folder() -> Path:
    """The folder of twins."""
    return cache.folder() / _TWINS


def with_twin(plan: RunPlan, system: System, history: History, spark: Callable[[], SparkSession], kept_in: Path) -> None:
    """Put the twin into the folder of the run: a kept one, or a new one.

    Raises:
        InconclusiveError: there is none: a run without faults failed, or two of them wrote different rows.
        RuntimeUnavailableError: the system is not available.
    """
    key = key_of(plan, system)
    kept, ran = kept_in / key, 0
    if not (kept / ABOUT).is_file():
        ran = len(_TWICE)
        made = [_made(plan, system, spark, number) for number in _TWICE]
        _require_same(plan, *(one for one, _ in made))
        (rows, source) = made[0]
        _keep(kept, rows, {"key": key, "run": plan.folder.name, "made": files.stamp(), "source": source})
    kept.touch()  # used twins are not removed
    about = json.loads((kept / ABOUT).read_text(encoding="utf-8"))
    shutil.copytree(kept, plan.folder / TWIN, dirs_exist_ok=True)
    history.record(TwinUsed(key=key, rows=about["rows"], made=about["made"], runs=ran))


# the key of a twin ---------------------------------------------------------------------------------------------------------


def key_of(plan: RunPlan, system: System) -> str:
    """Return a key that differs for different versions of pipeline, workload and system.

    Raises:
        InconclusiveError: a file that the pipeline needs cannot be read.
    """
    scenario = plan.scenario
    rows = [one.rows for one in plan.loaders if isinstance(one, FillSource) and one.rows is not None]
    without_rows: Any = {"rows": True, "also": {"__all__": {"rows"}}}
    workload = scenario.workload.model_dump(mode="json", by_alias=True, exclude=without_rows)
    told = {
        "format": _FORMAT,
        "pipeline": scenario.pipeline.model_dump(mode="json", by_alias=True),
        "topics": {name: scenario.topics[name].model_dump(mode="json") for name in scenario.used},
        "into": scenario.source,
        "isolation": scenario.isolation,
        "workload": workload,
        "system": plan.spec.model_dump(mode="json"),
        "versions": {name: version for name, version in system.versions().items() if name != "os"},
    }
    try:
        parts = {str(path): _digest(path) for path in sorted(set(_files(plan)))}
        sent = [_digest(one) for one in rows]
    except OSError as error:
        raise _refused(f"{error.filename}, a part of the pipeline, cannot be read ({error.strerror})") from error
    return cache.digest(json.dumps(told | {"files": parts, "rows": sent}, sort_keys=True))


def _files(plan: RunPlan) -> Iterator[Path]:
    """Yield the pipeline's files: those that its declaration or a service's names, modules beside a script, and `files`."""
    pipeline = plan.scenario.pipeline
    declared: Any = pipeline.expected  # a twin
    runs_in = pipeline.runs_in
    of_services = (word for one in plan.spec.services.values() for word in (*one.run, *one.environment.values()))
    texts = (*(text.text for text in pipeline.texts.values()), *pipeline.paths)
    for word in chain.from_iterable(map(_BETWEEN.split, (*texts, *of_services))):
        path = os.path.join(runs_in, word)  # noqa: PTH118 - these three take any text
        if os.path.isabs(path) and os.path.isfile(path):  # noqa: PTH113, PTH117
            yield Path(path)
            yield from _modules(Path(path).parent) if path.endswith(".py") else ()
        elif word and os.path.isabs(path) and os.path.isdir(path):  # noqa: PTH112, PTH117
            yield from _modules(Path(path))
    for named in map(Path, declared.files):
        yield from (path for path in named.rglob("*") if path.is_file()) if named.is_dir() else (named,)


def _modules(beside: Path) -> Iterator[Path]:
    """Yield the Python modules that a script of this folder can import from there."""
    yield from beside.glob("*.py")
    for package in beside.glob("*/__init__.py"):
        yield from package.parent.rglob("*.py")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# a new twin ----------------------------------------------------------------------------------------------------------------


def _made(plan: RunPlan, system: System, spark: Callable[[], SparkSession], number: int) -> tuple[DataFrame, Mapping[str, int]]:
    """Make a run without faults, and return its rows, and the fingerprint of its source.

    Raises:
        InconclusiveError: it failed.
    """
    twin = _without_faults(plan, system, number)
    with History(twin.folder / "history.jsonl") as history:
        history.record(RunBegan(run=twin.folder.name, format=FORMAT))
        try:
            execute(twin, system, history, spark)
        except (DeadlineError, InconclusiveError, KafkaException) as error:
            raise _refused(f"the run without faults failed: {error}; see {twin.folder}") from error
        history.end()
        failed = [value.error for _, value in of_type(history.events(), PhaseFailed)]
    wrong = [
        f"{one.verifier} of the {one.subject}: {one.verdict.name}{f', {one.note}' if one.note else ''}"
        for one in load_findings(twin.folder)
        if one.verdict is not Verdict.VALID
    ]
    if failed or wrong:
        raise _refused(f"the run without faults failed: {next(iter((*failed, *wrong)))}; see {twin.folder}")
    session, evidence = spark(), twin.folder / "evidence"
    sent = {load.name: landing.landed(session, evidence, load.subject) for load in twin.loads}
    source = fingerprint_of(sent) if len(sent) > 1 else fingerprint(sent[twin.scenario.source])
    written = landing.landed(session, evidence, "sink")
    return forms.of_scenario(twin.scenario).counted(written).select("key", "value"), source


def _without_faults(plan: RunPlan, system: System, number: int) -> RunPlan:
    """Return the plan of this workload and pipeline without faults, with its own topics and folder."""
    place = plan.folder / TWIN / f"{plan.folder.name}-without-faults-{number}"
    place.mkdir(parents=True)
    unbroken = {"faults": (), "random": None, "expect": "valid", "ends": None}
    of_rows = (name for name in plan.scenario.verify if name not in _ASKED)
    scenario = plan.scenario.model_copy(update=unbroken).without(of_rows, _NOT_ASKED)
    topics = topics_of(scenario, system.kafka.cluster.prefix, place.name)
    table = table_of(plan.pipeline, system, plan.client, topics, place)
    return replace(
        plan,
        scenario=scenario,
        schedule=schedule_of(scenario, plan.schedule.seed),
        folder=place,
        topics=topics,
        table=table,
        way=TheTwin(),
    )


def _require_same(plan: RunPlan, one: DataFrame, other: DataFrame) -> None:
    """Raise InconclusiveError unless both runs have written equal rows."""
    both = one.selectExpr("key", "value", "1L AS n").unionByName(other.selectExpr("key", "value", "-1L AS n"))
    differ = both.groupBy("key", "value").agg({"n": "sum"}).toDF("key", "value", "n").where("n <> 0").localCheckpoint()
    first = differ.orderBy("key", "value").first()
    if first is None:
        return
    more, fewer = differ.selectExpr("sum(IF(n > 0, n, 0))", "sum(IF(n < 0, -n, 0))").collect()[0]
    which = "the first" if first["n"] > 0 else "the second"
    example = one_line(f"{which} wrote key {first['key']!r}, value {first['value']!r}", 300)
    why = "so the output depends on more than the source: a time, a random number, or how records meet"
    raise _refused(
        f"two runs without faults wrote different rows ({more} rows only the first, {fewer} only the second; {example}), "
        f"{why}; write sql, or leave the differing columns out of the rows. Both runs are in {plan.folder / TWIN}"
    )


def _keep(kept: Path, rows: DataFrame, about: Mapping[str, Any]) -> None:
    """Put it into the cache, complete or not at all; another session may have made this twin meanwhile."""
    half = files.new_folder(kept.parent, f"{kept.name}.half")
    rows.coalesce(1).write.parquet(str(half / ROWS))
    told = {**about, "rows": rows.count()}
    files.write_atomically(half / ABOUT, json.dumps(told, indent=1))
    try:
        half.rename(kept)
    except OSError:
        shutil.rmtree(half, ignore_errors=True)
    with suppress(FileNotFoundError):  # another session removes the oldest, too
        there = sorted(kept.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in there[:-_KEPT_AT_MOST]:
            shutil.rmtree(old, ignore_errors=True)


def _refused(why: str) -> InconclusiveError:
    return InconclusiveError(f"pipeline, expected, same_as: {why}")
