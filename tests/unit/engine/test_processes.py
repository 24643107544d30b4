"""The processes of a run: what is read of their logs, and what is done to both of them."""

from dataclasses import dataclass, field

import pytest

from chaos.cluster.system import Service
from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.events import PhaseFailed, ProcessReport
from chaos.contract.base import Command
from chaos.engine import processes as processes_of_a_run
from chaos.engine.processes import ManagedProcess, RunProcesses
from chaos.engine.run import in_phase
from chaos.judging.statements import STARTED_AGAIN
from chaos.judging.verdict import decide
from chaos.runtime.base import ProcessSpec
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.wording import keep, raised
from verifiers.base import Finding, Verdict


@dataclass
class FakeProcess:
    """A process that only writes its log."""

    spec: ProcessSpec
    lives: bool = True
    done: list = field(default_factory=list)
    pid: int = 0

    def alive(self):
        return self.lives

    def exit_code(self):
        return None if self.lives else 1

    def write(self, text):
        self.spec.log.parent.mkdir(exist_ok=True)
        with self.spec.log.open("ab") as log:
            log.write(text)

    def stop(self, within_s):
        assert within_s > 0
        self.done.append("stop")

    def resume_tree(self):
        self.done.append("resume")

    def kill_tree(self):
        self.done.append("kill")
        self.lives = False
        return {self.spec.name: self.pid}

    def pause_tree(self):
        self.done.append("pause")
        return {self.spec.name: self.pid}

    def start(self):
        self.done.append("start")
        self.lives = True
        self.write(STARTED)


STARTED = b'{"event": "started"}\n'


@dataclass
class FakeRuntime:
    """Starts fakes."""

    started: dict = field(default_factory=dict)
    says: bytes = b""

    def start(self, spec):
        process = FakeProcess(spec)
        process.write(self.says)
        self.started[spec.name] = process
        return process


@pytest.fixture
def pipeline(history, tmp_path):
    """A pipeline that was started."""
    return ManagedProcess(FakeRuntime(), history, "pipeline", Command(("true",)), tmp_path)


def test_messages_are_copied_to_the_history(pipeline, history):
    """Each once, and not before its line is complete; every other line only stays in the log."""
    pipeline.process.write(b'a line of its own\n{"event": "batch", "records": 7}\n{"event": "bat')
    assert pipeline.listen() == [{"event": "batch", "records": 7}]
    pipeline.process.write(b'ch", "records": 8}\n')
    assert pipeline.listen() == [{"event": "batch", "records": 8}]

    assert [event.value for event in history.events()] == [
        ProcessReport(who="pipeline", event="batch", content={"records": 7}),
        ProcessReport(who="pipeline", event="batch", content={"records": 8}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'{"event"',
        b'{"event": "batch", records: 7}',
        b'{"event": "batch"} and more',
        b'{"event": "\xff"}',
        b'{"event": ' + b"9" * 5000 + b"}",
        b'{"event": ' + b"[" * 100_000,
        b'{"event": 7}',
        b'{"event": null, "records": 7}',
    ],
)
def test_a_line_that_only_begins_as_a_message_does_is_left_in_the_log(pipeline, history, line):
    """A user's own program writes what it likes; what comes after that line is read."""
    pipeline.process.write(line + b'\n{"event": "batch"}\n')

    assert pipeline.listen() == [{"event": "batch"}]
    assert len(history.events()) == 1


def test_the_events_of_a_stranger_are_its_own_log(history, tmp_path):
    """Its supervisor says what is to be said of it; structlog begins each line with `event`."""
    stranger = ManagedProcess(FakeRuntime(), history, "pipeline", Command(("true",), has_events=False), tmp_path)
    stranger.process.write(b'{"event": "started"}\n{"event": "stopped"}\n{"event": 7}\n{"event": "fen')
    assert (stranger.listen(), len(history.events())) == ([], 0)

    stranger.process.write(b'ced"}\n{"supervisor": "started", "copies": 1}\n')

    assert stranger.listen() == [{"event": "started", "copies": 1}]
    assert history.last_report("pipeline", "started").content == {"copies": 1}


@pytest.mark.parametrize("has_events", [True, False])
def test_only_a_program_that_we_know_can_say_that_it_was_fenced(history, tmp_path, has_events):
    """The log of any other is searched for the errors of Kafka's clients, which say more than a word."""
    runtime = FakeRuntime(says=b'{"supervisor": "started"}\n')
    managed = ManagedProcess(runtime, history, "pipeline", Command(("true",), has_events=has_events), tmp_path)
    first = managed.process
    managed.take_over()
    managed.resume()

    first.write(b'{"event": "fenced", "why": "the garden"}\n')

    assert managed.fenced() == ({"pipeline": "the garden"} if has_events else {})
    first.write(b'{"event": "refused by ProducerFencedException"}\n')
    assert "pipeline" in managed.fenced()


@pytest.mark.parametrize(
    "stack", [b"", b"\tat org.Spark.start(Spark.scala:591)\n\tat java.base/a.b(C.java:8)\n\t... 8 more\n\n"]
)
def test_what_a_program_said_at_its_end_is_told_and_not_that_its_supervisor_ended_too(history, tmp_path, stack):
    """Nor where in its code it was."""
    runtime = FakeRuntime(says=b'{"supervisor": "started"}\n')
    managed = ManagedProcess(runtime, history, "pipeline", Command(("true",)), tmp_path)
    managed.process.write(b"no worker is left: why\n" + stack + b'\n{"supervisor": "ended", "code": 1}\n')
    managed.process.write(b'\n{"supervisor": "stopped"}\n')
    managed.process.lives = False

    assert managed.how_it_ended("early").endswith("the last line of logs/pipeline.log: no worker is left: why")


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (b"pyspark.errors.RefusedError: set back", "pyspark.errors.RefusedError: set back"),
        (b"26/11/26 17:50:10 ERROR Utils: Aborting task", "26/11/26 17:50:11 WARN Scheduler: is stopping"),
        (b"25/11/26 17:50:10 WARN TaskSetManager: Lost task (an Error)", "26/11/26 17:50:11 WARN Scheduler: is stopping"),
        (b"", "26/11/26 17:50:11 WARN Scheduler: is stopping"),
    ],
)
def test_what_spark_logs_while_it_stops_does_not_hide_the_error(history, tmp_path, before, told):
    """It is told where nothing before it is an error, though."""
    runtime = FakeRuntime(says=b'{"supervisor": "started"}\n')
    managed = ManagedProcess(runtime, history, "pipeline", Command(("true",)), tmp_path)
    managed.process.write(before + b"\n26/11/26 17:50:11 INFO Hook: x\n26/11/26 17:50:11 WARN Scheduler: is stopping\n")
    managed.process.write(b'\n{"supervisor": "ended", "code": 1}\n')
    managed.process.lives = False

    assert managed.how_it_ended("early").endswith(f"the last line of logs/pipeline.log: {told}")


def test_the_end_that_a_scenario_expects_is_found_in_these_words(history, tmp_path):
    """The verdict knows of it what the phase says that failed."""
    managed = ManagedProcess(
        FakeRuntime(says=b'{"supervisor": "started"}\n'), history, "pipeline", Command(("true",)), tmp_path
    )
    managed.process.write(b"RefusedError: made anew\n")
    managed.process.lives = False
    pipeline = {"kind": "command", "run": ["app"], "group": "g", "reads": ["numbers"], "sink": {"topic": "squares"}}
    scenario = Scenario(name="ends", title="Ends", pipeline=pipeline, ends="made anew")

    with pytest.raises(InconclusiveError), in_phase(history, "drain"):
        managed.must_live()

    found = [Finding("gaps", subject, Verdict.VALID, 0, 100) for subject in ("source", "sink")]
    assert decide(scenario, plan(scenario, 1), history.events(), found).problems == ()


def test_it_has_started_when_what_it_runs_works(history, tmp_path):
    """The process of a driver runs long before its query reads; until then nothing is loaded."""
    asked = iter([False, False, True])
    command = Command(("true",), has_begun=lambda: next(asked))
    managed = ManagedProcess(FakeRuntime(says=b'{"supervisor": "started"}\n'), history, "pipeline", command, tmp_path)

    managed.wait_until_started()

    assert next(asked, None) is None


def test_a_query_whose_checkpoint_is_elsewhere(history, tmp_path, monkeypatch):
    """Its driver runs, and nothing begins where it is looked for: the place is told."""
    monkeypatch.setattr(processes_of_a_run, "_STARTED_WITHIN_S", 0.2)
    command = Command(("true",), has_begun=lambda: False, begins_by="a sign in /run/checkpoint")
    managed = ManagedProcess(FakeRuntime(says=b'{"supervisor": "started"}\n'), history, "pipeline", command, tmp_path)

    with raised(DeadlineError, "a sign in /run/checkpoint"):
        managed.wait_until_started()


def test_a_process_that_ends_before_it_works(history, tmp_path):
    """It is told how, and not waited for."""
    command = Command(("true",), has_begun=lambda: False)
    managed = ManagedProcess(FakeRuntime(says=b'{"supervisor": "started"}\n'), history, "pipeline", command, tmp_path)
    managed.process.lives = False

    with pytest.raises(InconclusiveError, match="the pipeline ended with 1 in the middle of the run"):
        managed.wait_until_started()


def test_both_processes_are_ended(history, tmp_path):
    """Each that was started, in the order of their start."""
    runtime = FakeRuntime()
    processes = RunProcesses(runtime, history, tmp_path)
    processes.start_pipeline(Command(("true",)))
    processes.start_loader(Command(("true",)), "loader")

    processes.stop()
    processes.kill()

    assert {name: process.done for name, process in runtime.started.items()} == {
        "pipeline": ["stop", "kill"],
        "loader": ["stop", "kill"],
    }


def test_the_pipeline_must_live_and_the_loader_may_end(history, tmp_path):
    """A loader that has handed in all of its records ends by itself."""
    runtime = FakeRuntime()
    processes = RunProcesses(runtime, history, tmp_path)
    processes.check()
    processes.start_pipeline(Command(("true",)))
    processes.start_loader(Command(("true",)), "loader")
    runtime.started["loader"].lives = False
    processes.check()

    runtime.started["pipeline"].lives = False
    with raised(InconclusiveError, "the pipeline ended with 1 ", "logs/pipeline.log"):
        processes.check()

    (tmp_path / "logs" / "pipeline.log").write_text("{}\nstarted\nKafkaError: FATAL\n \n")
    with raised(InconclusiveError, "logs/pipeline.log: KafkaError: FATAL"):
        processes.check()


def test_a_run_without_a_pipeline_has_none_to_crash(history, tmp_path):
    with raised(LookupError):
        RunProcesses(FakeRuntime(), history, tmp_path).crashable()


@pytest.fixture
def zombie(history, tmp_path):
    """The process of a pipeline that another instance has taken over; its log speaks of an older fencing."""
    runtime = FakeRuntime(says=b'KafkaError{code=_FENCED}\n{"event": "started"}\n')
    managed = ManagedProcess(runtime, history, "pipeline", Command(("true",)), tmp_path)
    first = managed.process
    managed.listen()
    managed.take_over()
    managed.resume()
    return managed, first


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        (b'{"event": "fenced", "worker": 0, "why": "KafkaError{code=_FENCED}"}\n', "KafkaError{code=_FENCED}"),
        (b"org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer\n", "ProducerFencedException"),
        (b"  KafkaException: KafkaError{code=INVALID_PRODUCER_EPOCH,val=47}\n", "INVALID_PRODUCER_EPOCH"),
        (b"Fetch: FENCED_LEADER_EPOCH\n", ""),
        (b"java.lang.OutOfMemoryError: Java heap space\n", ""),
        (b"", ""),
    ],
)
def test_a_zombie_is_fenced_when_it_says_so_and_not_when_it_is_dead(zombie, writes, said):
    """Its lines from before it woke up do not count; the report names its end, too."""
    managed, process = zombie
    assert (managed.fenced(), managed.zombie_ended()) == ({}, "")

    process.write(writes)
    process.lives = False

    fenced = managed.fenced()
    assert list(fenced) == (["pipeline"] if said else [])
    assert said in fenced.get("pipeline", "")
    last = writes.decode().strip() or '{"event": "started"}'
    assert managed.zombie_ended() == f"it ended with 1 after it woke up; the last line of logs/pipeline.log: {last}"


def test_a_pipeline_that_nothing_has_taken_over_is_no_zombie(pipeline):
    """Its death is not that of a zombie."""
    pipeline.process.write(b"ProducerFencedException\n")
    pipeline.process.lives = False

    assert (pipeline.fenced(), pipeline.zombie_ended()) == ({}, "")


def test_a_zombie_that_fenced_its_successor_is_the_pipeline_again(zombie):
    """It made a new producer after its long pause; what it says from now on is said by the pipeline."""
    managed, first = zombie
    second = managed.process
    second.write(b"KafkaError{code=_FENCED}: no worker is left\n")
    assert managed.fenced() == {}  # it may still have other workers
    second.lives = False

    managed.must_live()

    assert managed.fenced() == {"pipeline-2": "KafkaError{code=_FENCED}: no worker is left"}
    assert managed.process is first
    first.write(b'{"event": "committed"}\n')
    assert managed.listen() == [{"event": "committed"}]


def test_a_zombie_that_is_the_pipeline_again_is_restarted_into_its_own_log(zombie):
    """That of its successor has ended with it."""
    managed, first = zombie
    second = managed.process
    second.write(b"KafkaError{code=_FENCED}\n")
    second.lives = False
    managed.must_live()
    managed._down = True
    first.lives = False

    def start():
        first.lives = True
        first.write(b'{"event": "started"}\n')

    first.start = start
    managed.restart()

    assert (STARTED_AGAIN in first.spec.log.read_bytes(), STARTED_AGAIN in second.spec.log.read_bytes()) == (True, False)


@pytest.mark.parametrize("line", [b"java.lang.OutOfMemoryError: Java heap space\n", b""])
def test_a_successor_that_died_of_something_else_is_not_replaced_by_the_zombie(zombie, line):
    """Its words about fencing before the zombie woke up belong to its own start."""
    managed, _ = zombie
    managed.process.write(line)
    managed.process.lives = False

    assert managed.fenced() == {}
    with pytest.raises(InconclusiveError, match="the pipeline ended with 1 in the middle of the run"):
        managed.must_live()


def test_two_instances_that_fenced_each_other_leave_no_pipeline(zombie):
    """The zombie said so first, and is about to end."""
    managed, first = zombie
    for process in (first, managed.process):
        process.write(b"KafkaError{code=_FENCED}\n")
    managed.process.lives = False

    assert list(managed.fenced()) == ["pipeline"]
    with pytest.raises(InconclusiveError, match="the pipeline ended with 1 in the middle of the run"):
        managed.must_live()


def test_a_log_says_where_a_process_was_started_again(pipeline):
    """Half a line of the one that was killed does not run into the first line of its successor."""
    pipeline.process.write(b'{"event": "started"}\n{"begin": 7, "ids": ["a')
    pipeline.listen()
    pipeline.process.lives = False

    def start():
        pipeline.process.lives = True
        pipeline.process.write(b'{"event": "started"}\n')

    pipeline.process.start = start
    pipeline.restart()

    assert pipeline.process.spec.log.read_bytes().splitlines() == [
        b'{"event": "started"}',
        b'{"begin": 7, "ids": ["a',
        b"--- started again ---",
        b'{"event": "started"}',
    ]


def test_a_service_is_started_when_it_listens(history, tmp_path, monkeypatch):
    """Its words have the address of this system; and it must outlive the faults."""
    runtime, listens = FakeRuntime(), iter([True, True, False])
    monkeypatch.setattr(processes_of_a_run.protocol, "refused", lambda _address: next(listens))
    of_run = RunProcesses(runtime, history, tmp_path)

    of_run.start_service(Service("files", ("127.77.3.1", 19200), ("serve", "--listen={address}"), {"AT": "{address}"}))

    process = runtime.started["service-files"]
    assert process.spec.argv == ("serve", "--listen=127.77.3.1:19200")
    assert process.spec.env["AT"] == "127.77.3.1:19200"
    of_run.check()
    process.lives = False
    with pytest.raises(InconclusiveError, match="the service-files ended with 1 in the middle of the run") as caught:
        of_run.check()
    failed = PhaseFailed.by("drain", caught.value)
    assert (failed.cause, failed.says("")) == ("service-files ended", False)  # the pipeline lives


def test_a_service_is_killed_and_started_again(history, tmp_path, monkeypatch):
    """It may be dead until then, and must live again when it listens; one that nobody started is not there."""
    runtime, listens = FakeRuntime(), iter([False, True, True, False])
    monkeypatch.setattr(processes_of_a_run.protocol, "refused", lambda _address: next(listens))
    of_run = RunProcesses(runtime, history, tmp_path)
    of_run.start_service(Service("files", ("127.77.3.1", 19200), ("serve",)))
    service, process = of_run.service("files"), runtime.started["service-files"]

    assert set(service.crash()) == {"service-files"}
    process.lives = False
    of_run.check()
    service.restart()

    assert process.lives
    assert process.done == ["kill", "start"]
    of_run.check()
    assert next(listens, None) is None
    with raised(LookupError, "postgres"):
        of_run.service("postgres")


def test_a_service_outlives_the_pipeline(history, tmp_path, monkeypatch):
    """The pipeline's output may be in it, and is read after the pipeline has ended."""
    runtime = FakeRuntime()
    monkeypatch.setattr(processes_of_a_run.protocol, "refused", lambda _address: False)
    of_run = RunProcesses(runtime, history, tmp_path)
    of_run.start_service(Service("files", ("127.77.3.1", 19200), ("serve",)))
    of_run.start_pipeline(Command(("true",)))

    of_run.stop()
    done = {name: list(process.done) for name, process in runtime.started.items()}
    of_run.stop_services()
    of_run.kill()

    assert done == {"service-files": [], "pipeline": ["stop"]}
    assert runtime.started["service-files"].done == ["stop", "kill"]


def test_a_service_that_ends_before_it_listens(history, tmp_path, monkeypatch):
    """The error has its last line at once, not after a minute."""
    runtime = FakeRuntime(says=b"address already in use\n")
    monkeypatch.setattr(processes_of_a_run.protocol, "refused", lambda _address: True)
    monkeypatch.setattr(FakeProcess, "alive", lambda _process: False)

    with pytest.raises(InconclusiveError, match=r"the service-files ended with .*address already in use"):
        RunProcesses(runtime, history, tmp_path).start_service(Service("files", ("h", 1), ("serve",)))


@pytest.fixture
def scaled(history, tmp_path):
    """A pipeline of three instances, and the processes by their names."""
    runtime = FakeRuntime(says=STARTED)
    words = lambda number: Command(("copy", f"--id={number}"))  # noqa: E731
    pipeline = ManagedProcess(runtime, history, "pipeline", words(1), tmp_path, words)
    assert set(pipeline.scale(3)) == {"pipeline-instance-2", "pipeline-instance-3"}
    pipeline.wait_until_scaled()
    return pipeline, runtime.started


def test_instances_have_commands_and_logs_of_their_own(scaled, tmp_path):
    """And what they say is told as theirs."""
    pipeline, started = scaled

    assert pipeline.instances == 3
    assert [process.spec.argv[-1] for process in started.values()] == ["--id=1", "--id=2", "--id=3"]
    assert started["pipeline-instance-3"].spec.log == tmp_path / "logs" / "pipeline-instance-3.log"
    assert pipeline._history.last_report("pipeline-instance-2", "started")


def test_all_instances_are_crashed_and_started_again(scaled):
    """They are one pipeline."""
    pipeline, started = scaled

    assert set(pipeline.crash()) == set(started)
    pipeline.must_live()
    pipeline.restart()

    assert [process.done for process in started.values()] == [["kill", "start"]] * 3
    assert all(process.spec.log.read_bytes().endswith(b"\n" + STARTED_AGAIN + STARTED) for process in started.values())


def test_all_instances_are_paused_resumed_and_stopped(scaled):
    """None is left when the run ends."""
    pipeline, started = scaled

    assert set(pipeline.pause()) == set(started)
    pipeline.resume()
    pipeline.stop()

    assert [process.done for process in started.values()] == [["pause", "resume", "stop"]] * 3


def test_the_newest_instances_are_told_to_end(scaled):
    """Until then they are heard, and they are waited for."""
    pipeline, started = scaled
    started["pipeline-instance-3"].lives = False
    with pytest.raises(InconclusiveError, match=r"pipeline-instance-3 ended with 1"):
        pipeline.must_live()

    assert pipeline.scale(2) == {}  # it has ended already

    pipeline.wait_until_scaled()
    pipeline.must_live()
    assert pipeline.instances == 2
    assert started["pipeline"].alive()


def test_a_pipeline_that_can_have_no_other_instance(pipeline):
    """Its words know no instances: a query of Spark's has one checkpoint."""
    with raised(LookupError):
        pipeline.scale(2)


def test_an_instance_that_does_not_end_when_it_is_told_to_has_resisted(scaled):
    """Not only the first one counts."""
    pipeline, started = scaled
    for process in started.values():
        process.lives = False  # so that nothing is sent to a pid of a fake
    pipeline.terminate()
    assert pipeline.resisted() == ""

    started["pipeline-instance-3"].write(b'{"event": "killed", "copies": [0]}\n')

    assert keep(pipeline.resisted()).endswith(" copy 0")
