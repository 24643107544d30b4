"""`chaos audit follow` of real topics: what it says while they grow, and that it says in the end what an audit says."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from chaos.common import clock
from chaos.common.history import History
from chaos.contract.base import Topic, Topics
from chaos.engine.pipelines import endpoints
from chaos.engine.processes import ManagedProcess
from chaos.faults.broker_processes import start_again
from chaos.loader.declaration import FillSource
from tests.integration.conftest import application

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SOURCE, SINK = "follow-source", "follow-sink"
CHAOS = str(Path(sys.executable).with_name("chaos"))
SECONDS, RATE = int(os.environ.get("FOLLOW_SECONDS", "60")), int(os.environ.get("FOLLOW_RATE", "1000"))
FAULT_EVERY_S = 10
SQUARES = "SELECT key, CAST(CAST(value AS BIGINT) * CAST(value AS BIGINT) AS STRING) AS value, partition, offset FROM `{}`"
SAMPLE = re.compile(r"^(chaos_audit_\w+)((?:\{.*\})?) (\S+)$", re.MULTILINE)


@dataclass
class Follower:
    """A follower that runs, and what it has said."""

    process: subprocess.Popen
    log: Path

    def metrics(self):
        """Samples without labels; empty before there are any."""
        url = re.search(r"metrics: (http://\S+)", self.said())
        if url is None:
            return {}
        with urllib.request.urlopen(url[1], timeout=60) as answer:  # noqa: S310 - it is on loopback
            text = answer.read().decode()
        assert text.endswith("# EOF\n")
        return {name: float(value) for name, labels, value in SAMPLE.findall(text) if not labels}

    def until(self, **wanted):
        """Wait for samples of these values."""

        def there():
            found = self.metrics()
            return all(found.get(f"chaos_audit_{name}") == value for name, value in wanted.items())

        clock.wait_until(there, within_s=300, reason=f"{wanted}", every_s=0.2, seen=lambda: f"{self.metrics()} {self.said()}")

    def said(self):
        return self.log.read_text(encoding="utf-8")

    def end(self, number=signal.SIGTERM):
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(300)


@contextmanager
def following(system, folder, *words, topics=(SOURCE, SINK)):
    """A follower of both topics; killed if it is still there at the end."""
    log, argv = folder / "follow.log", follow_words(system, folder, *words, topics=topics)
    with log.open("w", encoding="utf-8") as out, subprocess.Popen(argv, stdout=out, stderr=out) as process:
        follower = Follower(process, log)
        try:
            clock.wait_until(lambda: "following " in follower.said(), within_s=300, reason="the follower", seen=follower.said)
            yield follower
        finally:
            if process.poll() is None:
                process.kill()


def follow_words(system, folder, *words, topics=(SOURCE, SINK)):
    """The command."""
    argv = [CHAOS, "audit", "follow", "--bootstrap", system.kafka.bootstrap, "--source", topics[0], "--sink", topics[1]]
    return [*argv, "--every", "0.5s", "--metrics", "127.0.0.1:0", "--json", str(folder / "follow.json"), *words]


def report(folder):
    """The findings of a follower."""
    return json.loads((folder / "follow.json").read_text(encoding="utf-8"))["findings"]


def counts(path):
    """By verifier, of those that were asked."""
    found = json.loads(path.read_text(encoding="utf-8"))["findings"]
    return {one["verifier"]: one["count"] for one in found if one["asked"] and one["verifier"] != "ordering"}


def audited(system, folder, *words, topics=(SOURCE, SINK)):
    """Exit code and counts of an audit of the same topics."""
    path = folder / "audit.json"
    both = ("--source", topics[0], "--sink", topics[1])
    argv = [CHAOS, "audit", "topics", "--bootstrap", system.kafka.bootstrap, *both, "--json", str(path)]
    done = subprocess.run(
        [*argv, "--spark-master", "local[2]", *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert path.exists(), done.stdout + done.stderr
    return done.returncode, counts(path)


@pytest.fixture
def topics(system):
    """Both, and how to write to them: a record or row by its id."""
    system.kafka.create([SOURCE, SINK], 3)
    settings = {"bootstrap.servers": system.kafka.bootstrap}
    plain = Producer(settings | {"enable.idempotence": True})
    transactional = Producer(settings | {"transactional.id": "follow"})
    transactional.init_transactions(120)

    def source(ids):
        for id_ in ids:
            plain.produce(SOURCE, key=str(id_), value=str(id_), partition=id_ % 3)
        assert plain.flush(120) == 0

    def sink(ids, *, commits=True, values=None):
        transactional.begin_transaction()
        for id_ in ids:
            transactional.produce(SINK, key=str(id_), value=(values or {}).get(id_, str(id_)), partition=id_ % 3)
        assert transactional.flush(120) == 0
        transactional.commit_transaction(120) if commits else transactional.abort_transaction(120)

    yield source, sink
    system.kafka.delete([SOURCE, SINK])


def test_what_is_said_while_both_topics_grow(system, topics, tmp_path):
    """A gap, which is taken back; a duplicate, a phantom and a wrong value; in the end the counts are those of an audit."""
    source, sink = topics
    words = ("--model", "identity", "--identity", "key")
    with following(system, tmp_path, *words, "--overdue", "3s") as follower:
        source(range(300))
        sink(range(100))
        sink(range(100, 200), commits=False)
        follower.until(answered_total=100, outstanding=200, gaps=200, gaps_overtaken=0, lag_records=200)
        sink([id_ for id_ in range(100, 300) if id_ not in {150, 151}])
        follower.until(answered_total=298, gaps=2, gaps_overtaken=2, lag_records=0, answered_late_total=198)
        sink([151])
        follower.until(answered_total=299, gaps=1, answered_late_total=199)
        sink([3, 6, 9999])
        follower.until(duplicates_total=2, unexpected_total=1)
        source(range(300, 330))
        sink(range(300, 330), values={310: "7"})
        follower.until(answered_total=329, wrong_values_total=1, gaps=1, undecided=0)
        code = follower.end()
        said = follower.said()

    assert (code, counts(tmp_path / "follow.json")) == (1, {"duplicates": 2, "gaps": 1, "values": 2})
    assert audited(system, tmp_path, *words) == (1, counts(tmp_path / "follow.json"))
    assert "duplicate: id 3, partition 0 offset " in said
    assert "answered late: id " in said
    assert said.splitlines()[-1].startswith("INVALID: ")


def test_a_follower_that_is_killed_goes_on(system, topics, tmp_path):
    """With what it kept, nothing is counted twice, whatever it had read since; what it called a gap is taken back."""
    source, sink = topics
    words = ("--model", "identity", "--identity", "key", "--state", str(tmp_path / "state"), "--overdue", "3s")
    with following(system, tmp_path, *words) as follower:
        source(range(300))
        sink(range(200))
        follower.until(answered_total=200, gaps=100)
        assert follower.end() == 1
    with following(system, tmp_path, *words) as follower:
        sink(range(200, 300))
        sink([7])
        follower.until(answered_total=300, duplicates_total=1)
        follower.process.kill()
        follower.process.wait(300)
    with following(system, tmp_path, *words) as follower:
        follower.until(answered_total=300, duplicates_total=1, undecided=0, gaps=0)
        sink([7])
        follower.until(duplicates_total=2)
        assert "going on with" in follower.said()
        assert follower.end(signal.SIGINT) == 1

    assert counts(tmp_path / "follow.json") == {"duplicates": 2, "gaps": 0, "values": 0}


@pytest.mark.nightly
def test_records_that_are_removed_before_they_are_read(system, topics, tmp_path):
    """Rows that match them may be right, so they are reported as UNKNOWN; so are those of a sink that lost its begin."""
    source, sink = topics
    words = ("--model", "identity", "--identity", "key", "--state", str(tmp_path / "state"), "--overdue", "3s")
    with following(system, tmp_path, *words) as follower:
        source(range(90))
        sink(range(90))
        follower.until(answered_total=90, undecided=0)
        assert follower.end() == 0
    source(range(90, 300))
    sink(range(90, 300))
    removed = [TopicPartition(SOURCE, 0, 60), TopicPartition(SINK, 1, 70)]
    for future in system.kafka.admin.delete_records(removed).values():
        future.result(300)
    with following(system, tmp_path, *words) as follower:
        follower.until(unexpected_total=30, gaps=39, undecided=0)
        assert follower.end() == 3
        said = follower.said()

    assert re.search(r"UNKNOWN from now on: 30 offsets of partition 0 of follow-source .* 30\b", said)
    assert re.search(r"UNKNOWN from now on: \d+ offsets of partition 1 of follow-sink ", said)


KINDS = {"at_least_once": "chaos_audit_duplicates_total", "at_most_once": "chaos_audit_gaps"}


@contextmanager
def playing(session, system, folder, delivery):
    """The application at work on a source that is being filled; yields its process, the loader's, and both topics."""
    topics = Topics((Topic(f"{SOURCE}-{delivery}", 3),), f"{SINK}-{delivery}", suffix=f"follow-{delivery}")
    pipeline = application(session, "application", delivery=delivery)
    system.kafka.create([topics.source, topics.sink], 3)
    pipeline.prepare(endpoints(system, "spark"), topics)
    loads = FillSource(5 * SECONDS * RATE, RATE).command(endpoints(system, "loader"), topics, folder)
    with History(folder / "history.jsonl") as history:
        runs = pipeline.command(endpoints(system, "spark"), topics, folder)
        subject = ManagedProcess(system.runtime, history, "pipeline", runs, folder)
        subject.wait_until_started()
        loader = ManagedProcess(system.runtime, history, "loader", loads, folder)
        try:
            yield subject, loader, (topics.source, topics.sink)
        finally:
            for process in (loader, subject):
                process.process.kill_tree()
            system.kafka.delete([topics.source, topics.sink])


@pytest.mark.nightly
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_pipeline_with_faults(chaos_session, system, tmp_path, delivery):
    """It is killed again and again, as is a broker, and the follower itself: in the end the counts are those of an audit.

    FOLLOW_SECONDS and FOLLOW_RATE make a longer play of it; what was said is left in the folder of the test.
    """
    words = ("--identity", "key", "--overdue", "20s", "--state", str(tmp_path / "state"))
    memory = []
    with playing(chaos_session, system, tmp_path, delivery) as (subject, loader, topics):
        with following(system, tmp_path, *words, topics=topics) as follower:
            break_again_and_again(system, topics[1], subject, follower, 1, memory)
            follower.process.kill()
            (tmp_path / "follow-1.log").write_text(follower.said(), encoding="utf-8")
        with following(system, tmp_path, *words, topics=topics) as follower:
            break_again_and_again(system, topics[1], subject, follower, 2, memory, until=KINDS[delivery])
            drain(loader, subject, system, topics[1])
            clock.wait_until(lambda: is_over(follower), within_s=300, reason="the last gap", seen=follower.metrics)
            memory.append(psutil.Process(follower.process.pid).memory_info().rss)
            code, said = follower.end(), follower.said()
        whole = audited(system, tmp_path, *words[:2], "--expected-sql", SQUARES.format(topics[0]), topics=topics)

    (tmp_path / "memory.json").write_text(json.dumps(memory), encoding="utf-8")
    found = counts(tmp_path / "follow.json")
    assert (code, found) == whole, said
    assert found[KINDS[delivery].removeprefix("chaos_audit_").removesuffix("_total")] > 0, said
    assert "going on with" in said
    assert max(memory) < memory[0] + 100e6, memory


def break_again_and_again(system, sink, subject, follower, broker, memory, until=""):
    """For half of the time: the pipeline is killed every few seconds, and a broker once, which is down for five.

    The pipeline is killed when it has written since its start: before that, a busy machine would lose nothing by it.

    Args:
        until: go on until the follower has counted this; a kill between two batches does no harm.
    """
    ends_s, with_broker = clock.monotonic_s() + SECONDS / 2, True
    latest_s = ends_s + 2 * SECONDS
    while clock.monotonic_s() < ends_s or (until and clock.monotonic_s() < latest_s and not follower.metrics().get(until)):
        before = written(system, sink)
        clock.pause(FAULT_EVERY_S)
        clock.wait_until(lambda before=before: written(system, sink) > before, within_s=120, reason="the pipeline to write")
        memory.append(psutil.Process(follower.process.pid).memory_info().rss)
        if with_broker and clock.monotonic_s() > ends_s - SECONDS / 4:
            with_broker = False
            system.kafka.brokers.processes[broker].kill()
            clock.pause(5)
            start_again(system, [broker])
        else:
            subject.process.kill_tree()
            subject.process.start()


def written(system, sink):
    """Number of rows in the sink."""
    asked = partial(system.kafka.offsets, sink, 3)
    ends = clock.wait_until(asked, within_s=120, reason="the ends of the sink", ignore=(KafkaException,))
    return sum(one.hw for one in ends.values())


def drain(loader, subject, system, sink):
    """End the loader, wait until the sink has grown for the last time, and end the pipeline."""
    assert loader.process.alive(), "the source was filled to the end"
    loader.process.kill_tree()
    before = -1

    def stands():
        nonlocal before
        last, before = before, written(system, sink)
        return last == before

    clock.wait_until(stands, within_s=300, reason="the sink to stand still", every_s=15)
    subject.stop()


def is_over(follower):
    """Whether all that is outstanding is a gap by now, and nothing is to be judged."""
    found = follower.metrics()
    return bool(found) and found["chaos_audit_undecided"] == 0 and found["chaos_audit_outstanding"] == found["chaos_audit_gaps"]


def test_a_pipeline_that_is_dead(system, topics, tmp_path):
    """Records that nobody answers are not overdue yet: UNKNOWN, not VALID; `checked` is what was compared."""
    source, sink = topics
    source(range(300))
    sink([0])
    with following(system, tmp_path, "--model", "identity", "--identity", "key", "--for", "2s", "--settle", "2s") as follower:
        assert follower.process.wait(300) == 3, follower.said()

    (gaps,) = (one for one in report(tmp_path) if one["verifier"] == "gaps")
    assert (gaps["verdict"], gaps["count"], gaps["checked"], gaps["counts"]["pending"]) == ("UNKNOWN", 0, 1, 299)


def test_a_live_pipeline_that_is_a_little_behind(system, topics, tmp_path):
    """Its rows are waited for when the follower is ended, so it is VALID; a second signal ends the wait."""
    source, sink = topics
    words = ("--model", "identity", "--identity", "key", "--settle", "120s", "--state", str(tmp_path / "state"))
    with following(system, tmp_path, *words) as follower:
        source(range(300))
        sink(range(200))
        follower.until(answered_total=200, outstanding=100)
        follower.process.send_signal(signal.SIGTERM)
        clock.wait_until(
            lambda: "ending: waiting up to 120s" in follower.said(), within_s=300, reason="its end", seen=follower.said
        )
        source(range(300, 330))  # after the end
        sink(range(200, 310))
        assert follower.process.wait(300) == 0, follower.said()
    assert counts(tmp_path / "follow.json") == {"duplicates": 0, "gaps": 0, "values": 0}
    with following(system, tmp_path, *words) as follower:
        follower.until(answered_total=310, outstanding=20)
        follower.process.send_signal(signal.SIGTERM)
        clock.wait_until(
            lambda: "ending: waiting up to 120s" in follower.said(), within_s=300, reason="its end", seen=follower.said
        )
        assert follower.end() == 3, follower.said()


def test_topics_that_are_created_anew(system, topics, tmp_path):
    """Their ids tell, while they are followed and by what was kept: UNKNOWN, and nothing is read on as if nothing had been."""
    source, sink = topics
    words = ("--model", "identity", "--identity", "key", "--state", str(tmp_path / "state"))

    def anew(*names):
        system.kafka.delete(names)
        clock.wait_until(
            lambda: not {*names} & system.kafka.admin.list_topics(timeout=10).topics.keys(), within_s=60, reason="it"
        )
        system.kafka.create(names, 3)

    with following(system, tmp_path, *words) as follower:
        source(range(90))
        sink(range(90))
        follower.until(answered_total=90, undecided=0)
        assert follower.end() == 0, follower.said()
    state = (tmp_path / "state").read_bytes()
    with following(system, tmp_path, *words) as follower:
        follower.until(answered_total=90, undecided=0)
        anew(SINK)
        sink(range(200, 300))
        assert follower.process.wait(300) == 3, follower.said()
        assert f"UNKNOWN, following ends: {SINK} was deleted and created again" in follower.said()
    (tmp_path / "state").write_bytes(state)
    again = subprocess.run(follow_words(system, tmp_path, *words), capture_output=True, text=True, timeout=300, check=False)
    assert (again.returncode, f"{SINK} was deleted and created again" in again.stdout) == (3, True), again
