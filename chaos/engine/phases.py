"""The phases of a run, one function each. `chaos.engine.run` has their order, and the phases that may fail.

Phase 6, observe, is in `chaos.engine.run_evidence`; the deadlines are in `chaos.engine.run_plan`.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException

from chaos.cluster.kafka import Kafka
from chaos.cluster.system import System
from chaos.common import clock, files, signals
from chaos.common.errors import InconclusiveError
from chaos.common.events import LOADER
from chaos.common.history import History
from chaos.engine import ends, standstill, triggers
from chaos.engine.nemesis import Nemesis
from chaos.engine.pipelines import endpoints
from chaos.engine.processes import ManagedProcess, RunProcesses
from chaos.engine.run_plan import RunPlan
from chaos.engine.triggers import Watch

_OF_DECLARATION = (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_EXCEPTION)


def set_up(plan: RunPlan, system: System) -> None:
    plan.write_down()
    files.write_atomically(plan.folder / "versions.json", json.dumps(system.versions(), indent=1))
    system.wait_until_healthy()
    system.rules.begin()
    if plan.group or plan.transactional_ids:
        system.kafka.cluster.mine([*([plan.group] if plan.group else []), *plan.transactional_ids])
    if plan.group:
        system.kafka.clear_group(plan.group)
    _make_topics(plan, system.kafka)
    if plan.pipeline:
        plan.pipeline.prepare(endpoints(system, plan.client), plan.topics)


def steady(plan: RunPlan, system: System, history: History, processes: RunProcesses, nemesis: Nemesis) -> float:
    """Start services, pipeline and loaders, and return the moment when output flows, in monotonic seconds."""
    for service in system.services:
        if service.run:
            processes.start_service(service)
    if plan.pipeline:
        of_run = (endpoints(system, plan.client), plan.topics, plan.folder)
        instance = partial(plan.pipeline.command, *of_run) if plan.pipeline.declared.has_instances else None
        processes.start_pipeline(plan.pipeline.command(*of_run), instance).wait_until_started()
        nemesis.approach()
    for load in plan.loads:
        processes.start_loader(load.loader.command(endpoints(system, "loader"), load.topics, plan.folder), load.process)

    positions = ends.positions_of(plan, system)

    def flows() -> bool:
        processes.check()
        processes.check_loaders()
        _understood(plan, positions)
        return triggers.committed(history) > 0

    seen = partial(standstill.why, plan, system.kafka, processes, positions)
    clock.wait_until(flows, within_s=plan.flows_within_s, reason="output to flow", seen=seen)
    return clock.monotonic_s()


def inject(
    plan: RunPlan,
    watch: Watch,
    processes: RunProcesses,
    nemesis: Nemesis,
    is_through: Callable[[], bool],
    seen: Callable[[], str] = lambda: "",
) -> None:
    """Carry out the schedule; without faults, wait until the workload has passed.

    Args:
        seen: words the reason why nothing moves.

    Raises:
        StandstillError: the workload has not passed, and the output stands still.
    """

    def check() -> None:
        processes.check()
        processes.check_loaders()

    def passed() -> bool:
        check()
        return triggers.committed(watch.history) >= watch.total or is_through()

    if not plan.schedule.steps:
        longest_s = plan.scenario.workload.loading_s + 10 * plan.gives_up_s
        reason, moved = "the workload to pass through an unbroken pipeline", partial(standstill.moved, watch.history)
        with standstill.reported_once():
            clock.wait_until(passed, within_s=plan.gives_up_s, reason=reason, seen=seen, left=moved, at_most_s=longest_s)
    nemesis.run(watch, check)


def heal(system: System, nemesis: Nemesis) -> None:
    with signals.deferred():
        nemesis.heal_all()
        system.rules.clear()
        system.kafka.wait_until_healthy()


def recover(
    plan: RunPlan,
    history: History,
    processes: RunProcesses,
    is_through: Callable[[], bool],
    seen: Callable[[], str] = lambda: "",
) -> None:
    """Wait until output grows again: the pipeline's own time to come back belongs to the fault, not to the drain.

    Without a fault in force before, there is nothing to wait for.

    Raises:
        StandstillError: it does not grow.
    """
    before = triggers.committed(history)
    if not standstill.was_struck(history):
        return

    def grew() -> bool:
        processes.check()
        now = triggers.committed(history)
        if now > before or now >= plan.demanded:
            return True
        processes.hear_loaders()
        ended = processes.pipeline is None and processes.nothing_is_loaded
        return ended or now >= plan.demanded - triggers.refused(history) or is_through()

    with standstill.reported_once():
        clock.wait_until(grew, within_s=plan.recovers_within_s, reason="output to grow again after the heal", seen=seen)


def drain(plan: RunPlan, kafka: Kafka, history: History, processes: RunProcesses, positions: ends.Positions | None) -> None:
    """Wait until the loaders have ended and no work is left, and end the pipeline.

    Args:
        positions: requests the pipeline's positions; None without a pipeline, or if it has none.
    """
    clock.wait_until(lambda: processes.nothing_is_loaded, within_s=plan.loads_within_s, reason="the loader to end")
    for loader in processes.loaders.values():
        loader.listen()
    rest = ends.rest_in(plan, history, positions)
    seen = partial(standstill.why, plan, kafka, processes, positions)
    last: Mapping[str, int] | None = None

    def drained() -> bool:
        nonlocal last
        processes.check()
        last = ends.left_in(plan, kafka, history, positions, rest)
        return not last

    reason = "the pipeline to reach the end of its source"
    try:
        unanswered = (KafkaException,)  # a broker that does not answer now may answer later
        within_s, left = plan.drains_within_s, lambda: ends.to_do(last)
        with standstill.reported_once():
            clock.wait_until(drained, within_s=within_s, reason=reason, ignore=unanswered, seen=seen, left=left)
    except InconclusiveError:  # the pipeline has ended, which a scenario may expect; a loader must not
        _require_all_loaded(plan, history, processes)
        raise
    processes.stop()
    _require_all_loaded(plan, history, processes)


def _require_all_loaded(plan: RunPlan, history: History, processes: RunProcesses) -> None:
    for load in plan.loads:
        loader, refused = processes.loaders.get(load.process), load.filling.refused
        require_all_loaded(history, loader, load.records, load.process, refused=refused)


def _make_topics(plan: RunPlan, kafka: Kafka) -> None:
    """Make the topics, equal ones at once, so that most runs wait only once for replicas in sync."""
    alike: dict[str, list[str]] = {}
    for name in plan.topics.names:
        alike.setdefault(plan.scenario.topics[name].model_dump_json(), []).append(name)
    for names in alike.values():
        spec = plan.scenario.topics[names[0]]
        try:
            kafka.create([plan.topics.names[name] for name in names], spec.partitions, spec.config)
        except KafkaException as error:
            if error.args[0].code() not in _OF_DECLARATION:
                raise
            what = f"topics, {', '.join(names)}: the brokers refuse this declaration: {error.args[0].str()}"
            raise InconclusiveError(f"{what}; mend it in the scenarios file") from error


def require_all_loaded(
    history: History, loader: ManagedProcess | None, records: int, name: str = LOADER, *, refused: int = 0
) -> None:
    """Refuse a workload other than the declared one: the pipeline had an easier life than the scenario demands.

    Raises:
        InconclusiveError: the loader failed, or was never started; or another number of records was refused.
    """
    if loader is None:
        raise InconclusiveError("the loader was never started, because the pipeline did not start")
    loaded = history.last_report(name, "loaded")
    sent = loaded.content["records"] if loaded else 0
    if sent < records or (loaded and loaded.content.get("failed")):
        raise InconclusiveError(loader.how_it_ended(f"after {sent or 'some'} of {records} records"))
    counted = int(loaded.content.get("refused", 0)) if loaded else 0
    if counted != refused:
        why = loaded.content.get("why", "") if loaded else ""
        raise InconclusiveError(
            f"the {name}: brokers refused {counted} of {records} records for good{f' ({why})' if why else ''}, but the "
            f"workload declares refused: {refused}; see `fail` in its ledger, and declare the number that brokers should refuse"
        )


def _understood(plan: RunPlan, positions: ends.Positions | None) -> None:
    """Refuse a checkpoint of an unknown format at once, since waiting for it is in vain.

    Raises:
        InconclusiveError: its format is unknown.
    """
    if positions is not None and not plan.group:
        with suppress(OSError):  # a fault removes it
            positions()
