"""Which executors and workers a fault means, what its proof demands, and what its heal leaves behind."""

import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace

import psutil
import pytest
import requests

from chaos.cluster.spark import Executor, ExecutorState, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.common.processes import lives
from chaos.faults import spark_daemons, spark_executors
from chaos.faults.base import FaultContext
from chaos.faults.registry import FAULTS
from chaos.faults.spark_daemons import CrashMaster, CrashWorker
from chaos.faults.spark_executors import CrashedExecutors, ExecutorFault, PausedExecutors, resolve_executors, wait_until_back
from chaos.faults.spark_python_workers import CrashedPythonDaemons
from chaos.grammar.targets import executor_target, worker_target
from tests.unit.wording import keep

# A JVM that waits for its daemon as Java's process reaper does, the daemon in a process group of its own, two workers.
FAMILY = """\
import os, time
if os.fork():
    os.wait()
else:
    os.setpgid(0, 0)
    for _ in range(2):
        if os.fork() == 0:
            break
time.sleep(600)
"""


@dataclass
class FakeApp:
    """A driver's knowledge of its executors."""

    id: str = "app-1"
    tasks: list = field(default_factory=list)
    states: dict = field(default_factory=dict)

    def executors(self):
        tasks = self.tasks.pop(0) if len(self.tasks) > 1 else (self.tasks or [{}])[0]
        return self.states or {id_: ExecutorState(id_, active=True, active_tasks=number) for id_, number in tasks.items()}


class Alive:
    """A process that is there."""

    pid = 4711

    def __init__(self):
        self.signals = []

    def is_running(self):
        return True

    def status(self):
        return psutil.STATUS_STOPPED if self.signals[-1:] == ["suspend"] else psutil.STATUS_SLEEPING

    def suspend(self):
        self.signals.append("suspend")

    def resume(self):
        self.signals.append("resume")

    def kill(self):
        self.signals.append("kill")


@dataclass
class Daemon:
    """A master or a worker."""

    name: str
    ended: bool = False

    @property
    def spec(self):
        return SimpleNamespace(name=self.name)

    def alive(self):
        return not self.ended


def context_of(app, *found):
    """A context whose cluster runs these executors; of several lists each is seen once, the last for ever."""
    seen = list(found)

    def executors():
        return seen.pop(0) if len(seen) > 1 else seen[0]

    daemons = {"master_process": Daemon("master"), "workers": {number: Daemon(f"worker-{number}") for number in (1, 2, 3)}}
    spark = SimpleNamespace(executors=executors, worker_ids=(1, 2, 3), **daemons)
    return FaultContext(SimpleNamespace(spark=spark), {}, spark_app=lambda: app)


def executor(number, worker=1, app="app-1"):
    """One that runs, on a worker."""
    return Executor(str(number), app, Alive(), worker)


@pytest.mark.parametrize(
    ("target", "ids"),
    [("executor(all)", "01"), ("executor(busiest)", "1"), ("executor(2)", "1"), ("executor(1)", "0")],
)
def test_an_executor_target_means_executors_of_this_application(target, ids):
    """The executor of another application, left over from a driver that died, is never meant."""
    found = [executor(0, 1), executor(1, 2), executor(7, 2, app="app-0")]
    app = FakeApp(tasks=[{"0": 1, "1": 2, "7": 3}])

    chosen, words = resolve_executors(executor_target(target), context_of(app, found), Random(1))

    assert "".join(one.id for one in chosen) == ids
    assert words.endswith(f"({target})")


@pytest.mark.parametrize(("target", "ids"), [("executor(busiest)", "1"), ("executor(all)", "01"), ("executor(2)", "1")])
def test_a_task_is_awaited_between_two_batches(target, ids):
    """The driver reports for a moment that no executor has a task: to strike then would prove nothing."""
    idle, busy = {"0": 0, "1": 0}, {"0": 0, "1": 1}
    app = FakeApp(tasks=[idle, idle, busy])
    context = context_of(app, [executor(0), executor(1, 2)])

    (chosen, _) = resolve_executors(executor_target(target), context, Random(1))

    assert ("".join(one.id for one in chosen), app.tasks) == (ids, [busy])


@pytest.mark.parametrize("target", ["executor(busiest)", "executor(all)"])
def test_executors_that_have_no_task_in_time_are_struck_as_they_are(monkeypatch, target):
    """The proof will say that nothing was lost."""
    monkeypatch.setattr(spark_executors, "_BUSY_WITHIN_S", 0.01)
    context = context_of(FakeApp(tasks=[{"0": 0}]), [executor(0)])

    (chosen, _) = resolve_executors(executor_target(target), context, Random(1))

    assert [one.id for one in chosen] == ["0"]


@pytest.mark.parametrize(
    ("tasks", "settles_s", "signals"),
    [
        ([1], 0.01, ["suspend", "kill"]),
        ([1, 0, 0, 1], 1.0, ["suspend", "resume", "suspend", "kill"]),
    ],
    ids=["that stays", "the next"],
)
def test_executors_die_with_a_task(monkeypatch, tasks, settles_s, signals):
    """One that had ended when they were frozen is not lost."""
    monkeypatch.setattr(spark_executors, "_BUSY_WITHIN_S", 60.0)
    monkeypatch.setattr(spark_executors, "_SETTLES_WITHIN_S", settles_s)
    app = FakeApp(tasks=[{"0": number} for number in tasks])

    CrashedExecutors("executor-0", 0.0, context_of(app, []), app, [one := executor(0)], 1).inject()

    assert one.process.signals == signals


def test_executors_die_without_a_task_where_there_is_none(monkeypatch):
    """They are killed in any case, once the time for a task is over, whatever the machine does meanwhile."""
    now_s = iter([0.0, 0.0, 5.0])
    monkeypatch.setattr(spark_executors.clock, "monotonic_s", lambda: next(now_s))
    monkeypatch.setattr(spark_executors, "_BUSY_WITHIN_S", 0.01)
    app = FakeApp(tasks=[{"0": 0}])

    CrashedExecutors("executor-0", 0.0, context_of(app, []), app, [one := executor(0)], 1).inject()

    assert one.process.signals == ["suspend", "resume", "suspend", "kill"]


def test_executors_are_awaited_that_a_new_driver_does_not_have_yet(monkeypatch):
    """A fault that follows the death of a driver must find the executors of the next."""
    monkeypatch.setattr(spark_executors, "_BUSY_WITHIN_S", 0.01)
    context = context_of(FakeApp(), [executor(3, app="app-0")], [], [executor(0)])

    (chosen, _) = resolve_executors(executor_target("executor(all)"), context, Random(1))

    assert [one.id for one in chosen] == ["0"]


def test_an_executor_that_never_comes_is_an_error_that_names_it(monkeypatch):
    """Nothing is broken then."""
    monkeypatch.setattr(spark_executors, "_THERE_WITHIN_S", 0.01)

    with pytest.raises(InjectionError, match=r"app-1 has no executor\(2\) now"):
        resolve_executors(executor_target("executor(2)"), context_of(FakeApp(), [executor(0, 1)]), Random(1))


def test_the_driver_is_asked_before_the_moment_for_every_fault_that_asks_it():
    """Its first answer takes seconds."""
    executors = [fault for fault in FAULTS.values() if issubclass(fault, ExecutorFault)]

    assert len(executors) == 6
    assert all(fault.approach is ExecutorFault.approach for fault in executors)


@pytest.mark.parametrize(
    ("tasks", "active", "given_up_after_s", "effective"),
    [
        (1, True, 10.0, True),
        (0, False, 10.0, True),
        (1, False, 10.0, True),
        (0, True, 10.0, False),
        (1, True, 0.05, False),
        (1, False, 0.05, True),
    ],
    ids=["in a task", "missed", "both", "idle and not missed", "in a task but never missed", "missed in time"],
)
def test_a_paused_executor_was_busy_or_is_missed(tasks, active, given_up_after_s, effective):
    """One that was idle and runs on before its heartbeat is overdue was never missed; one paused for longer must be."""
    victim = executor(0)
    app = FakeApp(states={"0": ExecutorState("0", active=active, active_tasks=tasks)})
    paused = PausedExecutors("executor-0", 0.1, context_of(app, [victim]), app, [victim], 1, given_up_after_s)
    paused.inject()

    proof = paused.proof()
    app.states = {"0": ExecutorState("0", active=True, active_tasks=0)}
    paused.heal()

    assert proof.effective is effective
    assert ("problem" in proof.facts) is not effective
    if not effective:
        assert "the driver to miss" in keep(proof.facts["problem"])
    assert victim.process.signals == ["suspend", "resume"]


@pytest.mark.parametrize(
    ("settings", "after_s"),
    [
        ({}, 180.0),
        ({"spark.network.timeout": "8s", "spark.network.timeoutInterval": "2s"}, 10.0),
        ({"spark.network.timeout": "100", "spark.network.timeoutInterval": "500"}, 100.5),
        ({"spark.network.timeout": "8s", "spark.storage.blockManagerHeartbeatTimeoutMs": "3000"}, 63.0),
        ({"spark.network.timeout": "2min"}, 180.0),
    ],
)
def test_how_long_a_driver_waits_for_a_heartbeat_is_asked_of_it(monkeypatch, settings, after_s):
    """The timeout, and the interval at which the driver looks."""
    answer = SimpleNamespace(raise_for_status=lambda: None, json=lambda: {"sparkProperties": list(map(list, settings.items()))})
    monkeypatch.setattr(requests, "get", lambda *_args, **_options: answer)

    assert SparkApp("app-1", "http://driver").gives_up_after_s() == after_s


def test_executors_are_back_once_the_driver_knows_them(monkeypatch):
    """A JVM that starts is there long before it can be given a task: a fault that follows would find it half made."""
    monkeypatch.setattr(spark_executors, "_BACK_WITHIN_S", 0.01)
    starting = executor(1)

    with pytest.raises(DeadlineError, match="replace the executors"):
        wait_until_back(context_of(None, [starting]), FakeApp(tasks=[{"0": 0}]), 1)
    wait_until_back(context_of(None, [starting]), FakeApp(tasks=[{"0": 0, "1": 0}]), 1)


@pytest.mark.parametrize(("target", "worker_ids"), [("worker-2", [2]), ("worker(all)", [1, 2, 3])])
def test_a_worker_target_means_workers(target, worker_ids):
    """By number, or all that there are; and the executors that die with them are those of this application."""
    fault = CrashWorker(kind="crash_worker", target=target, when={"after": "0s"})
    found = [executor(0, 1), executor(1, 2)]
    injection = fault.prepare(context_of(FakeApp(), found), Random(1))

    assert injection.worker_ids == worker_ids
    assert [one.worker for one in injection.lost] == [worker for worker in worker_ids if worker < 3]


def test_any_worker_is_drawn_by_the_seed():
    """A seed always draws the same worker, and some other seed draws another."""
    target, all_of_them = worker_target("worker(any)"), [1, 2, 3]
    drawn = [spark_daemons._worker_ids(target, all_of_them, all_of_them, Random(seed)) for seed in range(20)]

    assert {number for (number,) in drawn} == {1, 2, 3}
    assert drawn[3] == spark_daemons._worker_ids(target, all_of_them, all_of_them, Random(3))


def test_any_worker_is_one_that_runs():
    """Another fault has ended two of them."""
    context = context_of(FakeApp(), [])
    for number in (1, 3):
        context.system.spark.workers[number].ended = True
    fault = CrashWorker(kind="crash_worker", target="worker(any)", when={"after": "0s"})

    assert {tuple(fault.prepare(context, Random(seed)).worker_ids) for seed in range(20)} == {(2,)}


def test_a_daemon_that_is_down_is_not_crashed_again():
    """Its exit code is that of SIGKILL already."""
    context = context_of(FakeApp(), [])
    context.system.spark.workers[2].ended = context.system.spark.master_process.ended = True

    with pytest.raises(InjectionError, match=r"^worker-2 is down already"):
        CrashWorker(kind="crash_worker", target="worker-2", when={"after": "0s"}).prepare(context, Random(1))
    with pytest.raises(InjectionError, match=r"^master is down already"):
        CrashMaster(kind="crash_master", when={"after": "0s"}).prepare(context, Random(1))


@dataclass
class FakeMaster:
    """A master; once it was killed it knows its applications again, or not."""

    known: list
    done: list = field(default_factory=list)
    runs: bool = True
    pid: int = 4711

    def kill(self):
        self.runs = False

    def alive(self):
        return self.runs

    def start(self):
        self.runs = True
        self.done.append("start")

    def crash(self):
        self.done.append("crash the driver")

    def restart(self):
        self.done.append("restart the driver")


@pytest.mark.parametrize(
    ("state", "known", "done"),
    [
        ("kept", ["app-1"], ["start"]),
        ("lost", [], ["forget", "start", "crash the driver", "restart the driver"]),
    ],
)
def test_a_driver_that_the_new_master_does_not_know_is_started_again_once(state, known, done):
    """It would wait for executors for ever; a second heal must not end the one that works."""
    master = FakeMaster(known)
    spark = SimpleNamespace(
        master_process=master,
        forget=lambda: master.done.append("forget"),
        unhealthy=list,
        applications=lambda: known,
    )
    context = FaultContext(SimpleNamespace(spark=spark), {}, spark_app=FakeApp, pipeline=lambda: master)
    injection = CrashMaster(kind="crash_master", state=state, when={"after": "0s"}).prepare(context, Random(1))

    injection.inject()

    injection.heal()
    injection.heal()

    assert master.done == done


def test_the_python_of_an_executor_is_found_below_its_jvm():
    """The daemon is the child, the workers are its children; a dead one that was not waited for does not count."""
    with family() as jvm:
        found = Executor("0", "app-1", jvm)
        (daemon,) = found.daemons()
        workers = found.python_workers()

        assert {worker.ppid() for worker in workers} == {daemon.pid}
        assert len(workers) == 2
        workers[0].kill()
        clock.wait_until(lambda: not lives(workers[0]), within_s=120, reason="the worker to be gone")
        assert found.python_workers() == [workers[1]]


@pytest.mark.parametrize("idle", [False, True], ids=["in a task", "idle"])
def test_a_daemon_without_workers_was_killed_for_nothing(idle):
    """The JVM starts another one, and no task has noticed."""
    with family() as jvm:
        found = Executor("0", "app-1", jvm)
        for worker in found.python_workers() if idle else ():
            worker.kill()
            clock.wait_until(lambda worker=worker: not lives(worker), within_s=120, reason="a worker to be gone")
        workers = [worker.pid for worker in found.python_workers()]
        crashed = CrashedPythonDaemons("pyspark.daemon", 0.0, [found])

        crashed.inject()
        proof = crashed.proof()

    assert (len(workers), proof.effective) == ((0, False) if idle else (2, True))
    assert proof.facts["orphans"] == workers
    assert ("problem" in proof.facts) is idle
    if idle:
        assert "daemon" in keep(proof.facts["problem"])


def test_workers_that_lost_their_daemon_first_stay_frozen_when_their_jvm_dies():
    """A group of stopped processes that loses its last outer parent gets SIGHUP and SIGCONT: a zombie needs this order."""
    with family() as jvm:
        found = Executor("0", "app-1", jvm)
        workers, (daemon,) = found.python_workers(), found.daemons()
        daemon.kill()
        clock.wait_until(lambda: not daemon.is_running(), within_s=120, reason="the daemon to be waited for")
        for worker in workers:
            worker.suspend()
        clock.wait_until(lambda: stopped(workers) == 2, within_s=120, reason="the workers to stand still")
        jvm.kill()
        jvm.wait(120)

        assert stopped(workers) == 2


def stopped(processes):
    """How many of them stand still."""
    return sum(process.status() == psutil.STATUS_STOPPED for process in processes)


@contextmanager
def family():
    """A process with a child and two grandchildren, gone afterwards."""
    jvm = psutil.Popen([sys.executable, "-c", FAMILY], start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        clock.wait_until(lambda: len(jvm.children(recursive=True)) == 3, within_s=120, reason="a family of four")
        members = jvm.children(recursive=True)
        yield jvm
    finally:
        for process in (*members, jvm):
            if lives(process):
                process.send_signal(signal.SIGKILL)
        jvm.wait(120)
