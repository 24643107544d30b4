"""The pipelines that are not Spark, on real brokers: what they write, what they keep to themselves, and when they give way."""

import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from chaos.cluster.addresses import joined
from chaos.cluster.rules import Rule
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.events import ProcessReport
from chaos.common.history import History, of_type
from chaos.contract.base import Endpoints, Topic, Topics
from chaos.engine.processes import ManagedProcess
from chaos.judging import landing, statements
from chaos.loader.declaration import LEDGER, FillSource
from chaos.loader.plain import Producing
from chaos.scenario.pipelines.base import Tools
from tests import deployed
from tests.integration.conftest import application
from verifiers import VERIFIERS, evidence
from verifiers.base import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

COPIER = (
    *("{java}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "{kafka_tools}"),
    *("org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", "{bootstrap}", "--transaction-size", "50"),
    *("--input-topic", "{source}", "--input-partition", "{partition}", "--output-topic", "{sink}"),
    *("--consumer-group", "copier-{suffix}", "--transactional-id", "copier-{suffix}-{partition}"),
)
FAILING = {"workers": 2, "batch_records": 50, "transaction_failure_probability": 0.3, "seed": 7}


@dataclass
class Play:
    """Two topics, and the processes between them."""

    system: System
    folder: Path
    history: History
    topics: Topics
    filled: int = 0
    subjects: list[ManagedProcess] = field(default_factory=list)

    @property
    def endpoints(self):
        """Through the links of the group ``spark``."""
        links = [self.system.addresses.client("spark", number) for number in self.system.kafka.broker_ids]
        return Endpoints(kafka=joined(links), audit=self.system.kafka.bootstrap)

    def fill(self, records):
        """So many more ids, id i in partition i mod 3."""
        producer = Producer({"bootstrap.servers": self.system.kafka.bootstrap, "linger.ms": 5})
        for number in range(self.filled, self.filled + records):
            producer.produce(self.topics.source, key=str(number), value=str(number), partition=number % 3)
        assert producer.flush(20) == 0
        self.filled += records

    def start(self, pipeline, name="pipeline"):
        """Start one and wait until it says that it has."""
        command = pipeline.command(self.endpoints, self.topics, self.folder)
        subject = ManagedProcess(self.system.runtime, self.history, name, command, self.folder)
        self.subjects.append(subject)
        subject.wait_until_started()
        return subject

    def wait_for_end(self, pipeline):
        """Until the committed positions are the end of the source."""
        end = {number: len(range(number, self.filled, 3)) for number in range(3)}
        clock.wait_until(
            lambda: self.positions(pipeline) == end,
            within_s=300,
            reason="the end of the source",
            seen=lambda: self.positions(pipeline),
        )

    def positions(self, pipeline):
        """As the runner asks for them."""
        return pipeline.positions(self.endpoints, self.topics, self.folder)

    def said(self, event, name="pipeline"):
        """The lines that a process has printed so far."""
        for subject in self.subjects:
            subject.listen()
        return [
            said.content for _, said in of_type(self.history.events(), ProcessReport) if (said.who, said.event) == (name, event)
        ]

    def open(self):
        """Offsets in open transactions."""
        return sum(ends.hw - ends.lso for ends in self.system.kafka.offsets(self.topics.sink, 3).values())

    def settle(self, subject):
        """End a process, and wait until nothing is open in the sink."""
        subject.stop()
        clock.wait_until(lambda: not self.open(), within_s=300, reason="the last marker", seen=self.open)

    def owners(self):
        """Who has which partitions now."""
        return {one["worker"]: one["partitions"] for one in self.said("assigned")}

    def sink(self, level="read_committed"):
        """Rows by partition, in order: (id, value)."""
        rows = {number: [] for number in range(3)}
        for message in read(self.system.kafka.bootstrap, self.topics.sink, level):
            rows[message.partition()].append((int(message.key()), int(message.value())))
        return rows


@pytest.fixture
def play(system, tmp_path, request):
    """A fresh pair of topics; afterwards all processes are gone, and the topics too."""
    suffix = "".join(letter for letter in request.node.name if letter.isalnum())[-40:]
    topics = Topics((Topic(f"datasource-{suffix}", 3),), f"datasink-{suffix}", suffix=suffix)
    system.kafka.create([topics.source, topics.sink], 3)
    with History(tmp_path / "history.jsonl") as history:
        played = Play(system, tmp_path, history, topics)
        yield played
        for subject in played.subjects:
            subject.process.kill()
    system.kafka.delete([topics.source, topics.sink])


def read(bootstrap, topic, level):
    """Everything up to the end that a reader of this level sees."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": level, "enable.partition.eof": True}
    with closing(Consumer(settings | {"enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
        ended = 0
        while ended < 3:
            for message in consumer.consume(1000, 0.1):
                if message.error() is None:
                    yield message
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended += 1


def squares(records):
    """The squares that the sink must hold."""
    return {number: [(one, one * one) for one in range(number, records, 3)] for number in range(3)}


def written(rows):
    """All ids, however often."""
    return [one for partition in rows.values() for one, _ in partition]


def test_a_transaction_that_fails_is_done_again_and_seen_by_no_committed_reader(play, chaos_session):
    """Nearly a third of all transactions are aborted when they are complete, by two workers."""
    pipeline = application(
        chaos_session, "application", workers=2, batch_records=50, transaction_failure_probability=0.3, seed=7
    )
    pipeline.prepare(play.endpoints, play.topics)
    play.start(pipeline)
    owners = {0: [0, 1], 1: [2]}  # by the range assignor
    clock.wait_until(lambda: play.owners() == owners, within_s=300, reason="both to have theirs", seen=play.owners)
    play.fill(1500)
    play.wait_for_end(pipeline)

    assert play.sink() == squares(1500)
    aborted = sum(one["records"] for one in play.said("aborted"))
    assert aborted > 100
    assert len(written(play.sink("read_uncommitted"))) == 1500 + aborted


def test_positions_are_committed_with_the_rows_and_not_beside_them(play, chaos_session):
    """Answers take 1.5 s, so what is committed in two steps is open for so long after the first."""
    pipeline = application(chaos_session, producer_per="process")
    pipeline.prepare(play.endpoints, play.topics)
    play.start(pipeline)

    with slow(play, latency_ms=1500):
        play.fill(30)
        play.wait_for_end(pipeline)
        clock.wait_until(lambda: not play.open(), within_s=1.2, reason="the last marker", seen=play.open)

    assert play.sink() == squares(30)


@pytest.mark.parametrize(("delivery", "second_step"), [("at_least_once", "OffsetCommit"), ("at_most_once", "Produce")])
def test_a_crash_shows_which_of_the_two_comes_first(play, delivery, second_step, chaos_session):
    """Killed while the request of the second step is held: one writes twice, the other never."""
    pipeline = application(chaos_session, delivery=delivery, batch_records=100)
    pipeline.prepare(play.endpoints, play.topics)
    first = play.start(pipeline)
    with held(play, second_step) as stopped:
        play.fill(900)
        clock.wait_until(stopped, within_s=300, reason=f"a {second_step}")
        first.process.kill()
    play.start(pipeline, "heir")
    play.wait_for_end(pipeline)

    rows = written(play.sink())
    if delivery == "at_least_once":
        assert set(rows) == set(range(900))
        assert len(rows) > 900
    else:
        assert len(rows) == len(set(rows)) < 900


def test_the_younger_of_two_with_the_same_transactional_id_wins(play, chaos_session):
    """The elder is refused at its next transaction, says so and ends; nothing of it is seen."""
    pipeline = application(chaos_session, batch_records=50)
    pipeline.prepare(play.endpoints, play.topics)
    elder = play.start(pipeline, "elder")
    play.fill(300)
    play.wait_for_end(pipeline)
    play.start(pipeline, "younger")
    clock.wait_until(
        lambda: sorted(play.said("assigned", "elder")[-1]["partitions"]) != [0, 1, 2], within_s=300, reason="a share"
    )
    play.fill(600)

    clock.wait_until(lambda: not elder.process.alive(), within_s=300, reason="the elder to end")
    play.wait_for_end(pipeline)

    assert [one["worker"] for one in play.said("fenced", "elder")] == [0]
    assert (elder.process.exit_code(), play.said("fenced", "younger")) == (1, [])
    assert play.sink() == squares(900)


@pytest.mark.parametrize(("producer_per", "renewals"), [("unanswered", True), ("process", False)])
def test_a_commit_that_is_not_answered_at_once_costs_the_producer_its_epoch(play, producer_per, renewals, chaos_session):
    """It takes longer than the client waits before it sends a request again, so a second one may be on its way."""
    pipeline = application(chaos_session, producer_per=producer_per, retry_backoff="250ms")
    pipeline.prepare(play.endpoints, play.topics)
    play.start(pipeline)
    play.fill(60)
    play.wait_for_end(pipeline)
    before = play.said("renewed")

    with slow(play, latency_ms=250):
        play.fill(60)
        play.wait_for_end(pipeline)
    play.fill(60)
    play.wait_for_end(pipeline)

    assert before == []
    assert bool(play.said("renewed")) == renewals
    assert play.sink() == squares(180)


def test_kafkas_own_copier_is_a_pipeline_as_it_is(play):
    """Three copies, one for each partition, unchanged: every row arrives once, and the supervisor outlives their end."""
    tools, ids = Tools.of(play.system.parts), ("copier-{suffix}-{partition}",)
    pipeline = deployed.command(COPIER, "copier-{suffix}", tools, transactional_ids=ids)
    pipeline.prepare(play.endpoints, play.topics)
    play.fill(600)

    supervisor = play.start(pipeline)
    play.wait_for_end(pipeline)
    clock.wait_until(lambda: len(play.said("ended")) == 3, within_s=300, reason="all three to end")

    assert play.sink() == {number: [(one, one) for one in range(number, 600, 3)] for number in range(3)}
    assert [one["code"] for one in play.said("ended")] == [0, 0, 0]
    supervisor.must_live()
    supervisor.stop()
    assert supervisor.process.exit_code() == 0


def test_what_the_application_was_told_is_true_of_the_logs(play, chaos_session):
    """Nearly a third of its transactions are aborted, and it is killed in the middle of one."""
    pipeline = application(
        chaos_session, "application", workers=2, batch_records=50, transaction_failure_probability=0.3, seed=7
    )
    pipeline.prepare(play.endpoints, play.topics)
    running = play.start(pipeline)
    with held(play, "AddOffsetsToTxn") as stopped:
        play.fill(1500)
        clock.wait_until(stopped, within_s=300, reason="an AddOffsetsToTxn")
        running.crash()
    running.restart()
    play.wait_for_end(pipeline)
    play.settle(running)

    outcomes, deliveries = judged(play, chaos_session.spark(), "pipeline")

    assert (outcomes.verdict, outcomes.note, set(outcomes.counts.values())) == (Verdict.VALID, "", {0})
    assert (deliveries.verdict, deliveries.note, set(deliveries.counts.values())) == (Verdict.VALID, "", {0})
    told = [row.told for row in statements.told(statements.logs(play.folder, "pipeline"))]
    assert {"committed", "aborted", "unknown"} <= set(told)
    assert told.count("committed") <= 1500 <= told.count("committed") + told.count("unknown")
    assert deliveries.checked >= 1500 + told.count("aborted")


LIAR = """
import json, sys
from confluent_kafka import Consumer, Producer, TopicPartition
bootstrap, source, sink, group = sys.argv[1:]
def say(**line):
    sys.stdout.write(json.dumps(line) + "\\n")
    sys.stdout.flush()
options = {"bootstrap.servers": bootstrap}
consumer = Consumer({**options, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"})
producer = Producer({**options, "transactional.id": group + "-liar"})
producer.init_transactions(60)
consumer.assign([TopicPartition(source, number, 0) for number in range(3)])
say(start=[[source, number, 0] for number in range(3)])
transaction = 0
while True:
    records = [one for one in consumer.consume(20, 1.0) if not one.error()]
    if not records:
        continue
    transaction += 1
    ends = [TopicPartition(source, one.partition(), one.offset() + 1) for one in records]
    records = [one for one in records if (one.partition(), one.offset()) != (1, 50)]
    say(got=[[source, one.partition(), one.offset()] for one in records])
    keys = [one.key().decode() for one in records]
    say(begin=transaction, ids=keys)
    producer.begin_transaction()
    for one in records:
        producer.produce(sink, key=one.key(), value=one.value(), partition=one.partition())
    lies = transaction == 3
    if lies:
        producer.flush(60)
        producer.abort_transaction(60)
    else:
        producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)
    say(told="committed", transaction=transaction)
"""


def test_a_client_that_does_not_tell_the_truth_is_found_out(play, chaos_session):
    """It tells that a transaction is committed which it has aborted, and keeps one record to itself."""
    program = play.folder / "liar.py"
    program.write_text(LIAR, encoding="utf-8")
    pipeline = deployed.command(
        (sys.executable, str(program), "{bootstrap}", "{source}", "{sink}", "liar-{suffix}"), "liar-{suffix}"
    )
    pipeline.prepare(play.endpoints, play.topics)
    play.fill(600)
    supervisor = play.start(pipeline)
    play.wait_for_end(pipeline)
    play.settle(supervisor)

    outcomes, deliveries = judged(play, chaos_session.spark(), "pipeline")

    assert (outcomes.verdict, outcomes.counts) == (Verdict.INVALID, {"not readable": 1, "in part": 0, "aborted readable": 0})
    assert "transaction 'pipeline 3' (its writer saw it commit)" in outcomes.examples[0].words
    assert deliveries.counts == {"skipped": 1, "repeated": 0, "backwards": 0, "not in the log": 0}
    assert (deliveries.verdict, deliveries.examples[0].partition, deliveries.examples[0].offset) == (Verdict.INVALID, 1, 50)


@pytest.mark.parametrize("lost", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_the_loader_writes_in_transactions(play, chaos_session, lost):
    """Also when an answer to the request that ends one is lost: what it was told, and its ledger, are true of the log."""
    loader = FillSource(1000, 500.0, Producing(transaction_records=50))
    command = loader.command(play.endpoints, play.topics, play.folder)
    rules, links = play.system.rules, [link.name for link in play.system.links if link.source == "spark"]
    name = rules.arm("lost", Rule("EndTxn", "response", links, nth=3)) if lost else ""
    process = ManagedProcess(play.system.runtime, play.history, "loader", command, play.folder)
    play.subjects.append(process)
    if lost:
        clock.wait_until(lambda: rules.interceptions(name), within_s=300, reason="the third answer")
        rules.release(name, "close")
        rules.disarm(name)
    clock.wait_until(lambda: not process.process.alive(), within_s=300, reason="the loader to end")

    spark, topic = chaos_session.spark(), play.topics.source
    verify = ("duplicates", "gaps", "ordering", "values", "ledger", "outcomes")
    told = partial(statements.told, statements.logs(play.folder, "loader"))
    ends = play.system.kafka.settled_offsets(topic, 3)
    expected, ledger = loader.expected(spark, play.folder, 3), play.folder / LEDGER
    folder = play.folder / "evidence"
    log = landing.RunLog("source", ends, expected, verify, ledger, {"told": told})
    landing.land(spark, landing.topic_of_run(play.system.kafka.bootstrap, topic), log, folder)
    found = {one: VERIFIERS[one].check(evidence.load(spark, folder, "source")) for one in verify}

    assert {one: (finding.verdict, finding.note) for one, finding in found.items()} == dict.fromkeys(
        verify, (Verdict.VALID, "")
    )
    assert found["ledger"].checked == 1000
    assert (found["outcomes"].checked, process.process.exit_code(), play.said("loaded", "loader")) == (
        20,
        0,
        [{"records": 1000}],
    )


def judged(play, spark, name):
    """The findings of `outcomes` for the sink, and of `deliveries` for the source."""
    expected = spark.createDataFrame([], landing._schema(evidence.EXPECTED))
    logs, folder = statements.logs(play.folder, name), play.folder / "evidence"
    read = partial(statements.deliveries, logs, play.topics.source)
    of_programs = {"source": {"deliveries": read}, "sink": {"told": partial(statements.told, logs)}}
    for subject, topic in (("source", play.topics.source), ("sink", play.topics.sink)):
        ends = play.system.kafka.settled_offsets(topic, 3)
        log = landing.RunLog(subject, ends, expected, ("outcomes", "deliveries"), of_programs=of_programs[subject])
        landing.land(spark, landing.topic_of_run(play.system.kafka.bootstrap, topic), log, folder)
    outcomes = VERIFIERS["outcomes"].check(evidence.load(spark, folder, "sink"))
    return outcomes, VERIFIERS["deliveries"].check(evidence.load(spark, folder, "source"))


@contextmanager
def slow(play, latency_ms):
    """Every broker's answers to the pipeline come late."""
    links = [link for link in play.system.links if link.source == "spark"]
    for link in links:
        link.add("slow", "latency", "down", {"latency": latency_ms})
    try:
        yield
    finally:
        for link in links:
            link.remove("slow", "down")


@contextmanager
def held(play, api):
    """No such request of the pipeline reaches a broker; yields what tells whether there was one."""
    rules = play.system.rules
    links = [link.name for link in play.system.links if link.source == "spark"]
    name = rules.arm("held", Rule(api, "request", links, times=0))
    try:
        yield lambda: rules.interceptions(name)
    finally:
        rules.release(name, "drop")
        rules.disarm(name)
