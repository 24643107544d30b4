"""One run of one scenario, from nothing to a verdict.

0. rows     the user's rows are made, if a workload has some (`chaos.engine.workload_rows`)
   twin     a run without faults, if its output is the expectation and none is kept (`chaos.engine.twins`)
1. set_up   the system is healthy; topics made; the plan written down
2. steady   workload and pipeline run; output flows
3. inject   the nemesis: trigger, inject, prove, hold, heal; without faults, the workload passes through
4. heal     every injection undone in any case, last in first out; the cluster is healthy, output grows again
5. drain    the workload ends; the pipeline reaches the end of its source; no transaction is open
6. observe  ends fixed; topics and ledger landed as Parquet
7. judge    verifiers read Parquet only
8. report   made from the history and the findings alone (`chaos.report.model`)

A pipeline that dies, a trigger that never comes or a drain that never ends is a problem that keeps the run from being VALID.
The rest is observed and judged all the same: a duplicate is a duplicate in a crippled run too.

`execute` carries out a schedule; in a run that is `under_way`, the block of a ``with`` is the phase inject.

It imports more than fifteen modules: all parts of a run meet here, and it names each of them once.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import Event as Flag

from pyspark.sql import SparkSession

from chaos.cluster.kafka import Kafka
from chaos.cluster.system import System
from chaos.common import processes, signals
from chaos.common.errors import ChaosError, DeadlineError, InconclusiveError, StandstillError
from chaos.common.events import PhaseBegan, PhaseEnded, PhaseFailed
from chaos.common.history import History
from chaos.contract.base import CHECKPOINT
from chaos.engine import ends, phases, run_evidence, standstill, tables
from chaos.engine.batches import job_of
from chaos.engine.blocked import BlockWatch
from chaos.engine.ends import Positions
from chaos.engine.nemesis import Nemesis
from chaos.engine.observers import Lookout, PipelineSampler, Sampler
from chaos.engine.pipelines import application_of
from chaos.engine.processes import RunProcesses
from chaos.engine.program_statements import Looks
from chaos.engine.record_counts import Counted
from chaos.engine.run_plan import RunPlan
from chaos.engine.triggers import Watch
from chaos.faults.base import FaultContext
from chaos.judging.judge import judge
from chaos.runtime.capabilities import Capability
from chaos.scenario.verifiers import PRECEDENCE


@dataclass(slots=True)
class Stage:
    """A run in its phase inject.

    Attributes:
        plan: its scenario is judged; a block may put another one there, with the same pipeline and workload.
        flows: whether the phase steady has reached its end.
        stands_still: whether a wait for output, or for its end, was in vain; then no later phase waits for it again.
        is_through: checks whether the pipeline is past all of its source, and nothing more will come.
        why: words the work left, and the known reasons.
    """

    plan: RunPlan
    processes: RunProcesses
    nemesis: Nemesis
    watch: Watch
    flows: bool
    stands_still: bool
    is_through: Callable[[], bool]
    why: Callable[[], str]


def execute(plan: RunPlan, system: System, history: History, spark: Callable[[], SparkSession]) -> None:
    """Run phases 1 to 7; arguments, outcome and errors are those of `under_way`."""
    with under_way(plan, system, history, spark) as stage:
        if not stage.stands_still:  # else there is nothing to break, and no trigger would come
            phases.inject(plan, stage.watch, stage.processes, stage.nemesis, stage.is_through, stage.why)


@contextmanager
def under_way(plan: RunPlan, system: System, history: History, spark: Callable[[], SparkSession]) -> Iterator[Stage]:
    """Run phases 1 to 7, with the block as phase 3; the outcome is in the history and the run directory.

    An error that only means that the block proved nothing ends with it; every other error ends the run.

    Args:
        spark: the judge's session.

    Raises:
        ChaosError: the system is not available, or cannot be observed.
        KeyboardInterrupt: the user ended it; faults are healed and processes gone.
    """
    stop = Flag()
    processes = RunProcesses(system.runtime, history, plan.folder)
    positions = ends.positions_of(plan, system)
    nemesis = Nemesis(plan.schedule, _fault_context(plan, system, processes, positions), history, stop)
    phase, tolerated, flowing_since_s = partial(in_phase, history), partial(_tolerated, history), 0.0
    with _cleaned_up(plan, system.kafka, processes):
        with phase("set_up"):
            phases.set_up(plan, system)
        with (
            _sampler(plan, system.kafka, history, positions),
            _pipeline_sampler(plan, system, history, positions),
            BlockWatch(system.kafka, history, plan.output) if plan.table is None else nullcontext(),
            _looking(plan, system.kafka) as looks,
        ):
            try:
                with tolerated("steady") as failed:
                    flowing_since_s = phases.steady(plan, system, history, processes, nemesis)
                with tolerated("inject") as passed:
                    watch = _watch(plan, system.kafka, history, processes, flowing_since_s, stop)
                    flows, stands_still = flowing_since_s > 0, any(isinstance(error, DeadlineError) for error in failed)
                    is_through = partial(ends.is_through, plan, system.kafka, processes, positions)
                    why = partial(standstill.why, plan, system.kafka, processes, positions)
                    yield (stage := Stage(plan, processes, nemesis, watch, flows, stands_still, is_through, why))
            except BaseException:
                with phase("heal"):
                    phases.heal(system, nemesis)
                raise
            _come_to_rest(stage, system, history, positions, passed)
            if stage.stands_still and (
                standstill.is_elsewhere(plan, system.kafka, positions) or not ends.can_be_read(system.kafka, positions)
            ):
                positions = None  # they prove nothing about the sink, or a fault has left them in a transaction for ever
        with phase("observe"):
            run_evidence.observe(
                stage.plan, system.kafka, spark, processes, positions, system.rules, tables.reading(plan, system), looks
            )
    with phase("judge"):
        judge(spark(), stage.plan.scenario, plan.folder)


def _come_to_rest(
    stage: Stage, system: System, history: History, positions: Positions | None, failed_before: list[ChaosError]
) -> None:
    """Run the phases heal and drain; a run that stands still is healed, but not drained."""
    stage.stands_still = stage.stands_still or _stands_still(failed_before)
    with _tolerated(history, "heal") as unmoved:
        phases.heal(system, stage.nemesis)
        if not stage.stands_still:
            phases.recover(stage.plan, history, stage.processes, stage.is_through, stage.why)
    stage.stands_still = stage.stands_still or _stands_still(unmoved)
    if not stage.stands_still:
        with _tolerated(history, "drain") as failed:
            phases.drain(stage.plan, system.kafka, history, stage.processes, positions)
        stage.stands_still = any(isinstance(error, DeadlineError) for error in failed)


def _stands_still(failed: list[ChaosError]) -> bool:
    """Whether a phase ended because nothing moved: the next one would wait for the same."""
    return any(isinstance(error, StandstillError) for error in failed)


def _fault_context(plan: RunPlan, system: System, processes: RunProcesses, positions: Positions | None) -> FaultContext:
    """Make the context of this run's faults; its positions are those in the source alone."""
    context = FaultContext(
        system,
        plan.topics.names,
        plan.transactional_ids,
        client=plan.client,
        group=plan.group,
        pipeline=processes.crashable,
        readable=partial(ends.readable, ends.written(plan, system.kafka, positions)),
        checkpoint=plan.folder / CHECKPOINT if Capability.CHECKPOINT in plan.scenario.pipeline.capabilities else None,
        timeouts=plan.scenario.pipeline.timeouts,
        source=plan.topics.source,
        sink=plan.topics.sink,
        service=processes.service,
    )
    if Capability.SPARK in plan.scenario.pipeline.capabilities:
        context = replace(context, spark_app=application_of(system.spark))
    of_source = ends.positions_of(plan, system, (plan.topics.input,))
    return replace(context, positions=of_source) if of_source else context


def _watch(plan: RunPlan, kafka: Kafka, history: History, processes: RunProcesses, flowing_since_s: float, stop: Flag) -> Watch:
    job = job_of(plan, kafka, processes)
    return Watch(history, flowing_since_s, plan.demanded, plan.trigger_within_s, stop, job, plan.records)


def _sampler(plan: RunPlan, kafka: Kafka, history: History, positions: Positions | None) -> Sampler:
    output, by_positions = ends.written(plan, kafka, positions), plan.expectation.counts_records
    counted = None if by_positions or plan.table is not None else Counted(kafka.cluster, plan.output)
    return Sampler(
        kafka,
        history,
        plan.topics.filled,
        output,
        records=plan.records,
        total=plan.demanded,
        by_positions=by_positions,
        counted=counted,
    )


def _pipeline_sampler(
    plan: RunPlan, system: System, history: History, positions: Positions | None
) -> AbstractContextManager[object]:
    if positions is None:
        return nullcontext()
    executors = system.spark.executors if Capability.SPARK in plan.scenario.pipeline.capabilities else tuple
    return PipelineSampler(system.kafka, history, plan.topics.filled, positions=positions, executors=executors)


@contextmanager
def _looking(plan: RunPlan, kafka: Kafka) -> Iterator[Looks | None]:
    """Watch the block with a `Lookout`, if a verifier needs it; give its looks."""
    if PRECEDENCE not in plan.scenario.verify:
        yield None
        return
    with Lookout(kafka, plan.output) as lookout:
        yield lookout.looks


@contextmanager
def in_phase(history: History, name: str) -> Iterator[None]:
    """Run the block as a phase; record its begin, and its end or its error."""
    try:
        with signals.never_lost():
            began = PhaseBegan(phase=name, load=round(processes.load(), 1))
            history.record(began)  # an interrupt may come as soon as it is on disk
            yield
    except BaseException as error:
        history.record(PhaseFailed.by(name, error))
        raise
    history.record(PhaseEnded(phase=name))


@contextmanager
def _tolerated(history: History, name: str) -> Iterator[list[ChaosError]]:
    """Run the block as a phase whose failure leaves evidence to observe; the list gets its error."""
    failed: list[ChaosError] = []
    try:
        with in_phase(history, name):
            yield failed
    except (DeadlineError, InconclusiveError) as error:
        failed.append(error)


@contextmanager
def _cleaned_up(plan: RunPlan, kafka: Kafka, processes: RunProcesses) -> Iterator[None]:
    try:
        yield
    finally:
        with signals.deferred():
            processes.stop_services()
            processes.kill()
            kafka.delete(plan.topics.names.values())
            kafka.delete_internal(plan.group)
            if kafka.cluster.prefix and plan.group:
                kafka.delete_group(plan.group)
            shutil.rmtree(plan.folder / "tmp", ignore_errors=True)
