"""The twin: a run without faults, whose output the pipeline must write under faults, too.

`expected: {same_as: fault_free}` needs no model, so it works for any pipeline whose output is a function of its input. The twin
runs before the run that needs it, on the same system, and is kept in the cache for all later runs of the same version of
pipeline and workload. At its first use it runs twice: if the two differ, the output depends on more than the input, and cannot
be expected again.

    <cache>/twins/<key>/             the kept twin (`chaos.engine.kept_twins`)
    <run>/twin/                      a copy, by which this run is judged
    <run>/twin/<name>-without-faults-1   a run that made it

A twin shows the pipeline's behaviour, not whether that is right: an error without faults is in both.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from pyspark.sql import DataFrame, SparkSession

from chaos.cluster.system import System
from chaos.common.errors import DeadlineError, InconclusiveError, one_line
from chaos.common.events import FORMAT, PhaseFailed, RunBegan, TwinUsed
from chaos.common.history import History, of_type
from chaos.engine import kept_twins
from chaos.engine.run import execute
from chaos.engine.run_plan import RunPlan
from chaos.engine.twin_key import key_of
from chaos.engine.twin_plan import refused, without_faults
from chaos.expectation import forms
from chaos.expectation.definitions import TWIN
from chaos.expectation.sources import fingerprint, fingerprint_of
from chaos.judging import landing
from chaos.judging.findings_file import load_findings
from verifiers.base import Verdict

_TWICE = (1, 2)


def with_twin(plan: RunPlan, system: System, history: History, spark: Callable[[], SparkSession], kept_in: Path) -> None:
    """Put the twin into the folder of the run: a kept one, or a new one.

    Raises:
        InconclusiveError: there is none: a run without faults failed, or two of them wrote different rows.
        RuntimeUnavailableError: the system is not available.
    """
    key = key_of(plan, system)
    kept, ran = kept_in / key, 0
    if not kept_twins.is_kept(kept):
        ran = len(_TWICE)
        made = [_made(plan, system, spark, number) for number in _TWICE]
        _require_same(plan, *(one for one, _ in made))
        (rows, source) = made[0]
        kept_twins.keep(kept, rows, {"key": key, "run": plan.folder.name, "source": source})
    about = kept_twins.copied(kept, plan.folder / TWIN)
    history.record(TwinUsed(key=key, rows=about["rows"], made=about["made"], runs=ran))


def _made(plan: RunPlan, system: System, spark: Callable[[], SparkSession], number: int) -> tuple[DataFrame, Mapping[str, int]]:
    """Make a run without faults, and return its rows, and the fingerprint of its source.

    Raises:
        InconclusiveError: it failed.
    """
    twin = without_faults(plan, system, number)
    with History(twin.folder / "history.jsonl") as history:
        history.record(RunBegan(run=twin.folder.name, format=FORMAT))
        try:
            execute(twin, system, history, spark)
        except (DeadlineError, InconclusiveError, KafkaException) as error:
            raise refused(f"the run without faults failed: {error}; see {twin.folder}") from error
        history.end()
        failed = [value.error for _, value in of_type(history.events(), PhaseFailed)]
    wrong = [
        f"{one.verifier} of the {one.subject}: {one.verdict.name}{f', {one.note}' if one.note else ''}"
        for one in load_findings(twin.folder)
        if one.verdict is not Verdict.VALID
    ]
    if failed or wrong:
        raise refused(f"the run without faults failed: {next(iter((*failed, *wrong)))}; see {twin.folder}")
    session, evidence = spark(), twin.folder / "evidence"
    sent = {load.name: landing.landed(session, evidence, load.subject) for load in twin.loads}
    source = fingerprint_of(sent) if len(sent) > 1 else fingerprint(sent[twin.scenario.source])
    written = landing.landed(session, evidence, "sink")
    return forms.of_scenario(twin.scenario).counted(written).select("key", "value"), source


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
    raise refused(
        f"two runs without faults wrote different rows ({more} rows only the first, {fewer} only the second; {example}), "
        f"{why}; write sql, or leave the differing columns out of the rows. Both runs are in {plan.folder / TWIN}"
    )
