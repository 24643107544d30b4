"""The square pipeline where its checkpoint, its positions and its topics do not fit together: it stops, and says why."""

from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.common import clock
from chaos.common.history import History
from chaos.contract.base import CHECKPOINT, Topic, Topics
from chaos.contract.checkpoint import checkpointed
from chaos.engine.pipelines import endpoints
from chaos.engine.processes import ManagedProcess
from chaos.loader.declaration import FillSource
from pipelines.kafka import topic_id
from pipelines.spark_square.sink import Sink, new_consumer, wake_coordinator
from tests.integration.conftest import declared_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPICS = Topics((Topic("datasource-bounds", 3),), "datasink-bounds", suffix="bounds")


class Stage:
    """The pipeline, started and stopped again with one checkpoint, and what is done to it meanwhile."""

    def __init__(self, system, history, folder, square):
        self.system, self.history, self.folder, self.square = system, history, folder, square
        self.started = 0

    def create(self):
        """Both topics, and position 0."""
        self.system.kafka.create([TOPICS.source, TOPICS.sink], 3)
        self.square.prepare(endpoints(self.system, "spark"), TOPICS)

    def start(self):
        """Another driver."""
        self.started += 1
        command = self.square.command(endpoints(self.system, "spark"), TOPICS, self.folder)
        pipeline = ManagedProcess(self.system.runtime, self.history, f"pipeline-{self.started}", command, self.folder)
        pipeline.wait_until_started()
        return pipeline

    def fill(self, records):
        """Records 0 to so many, as one loader hands them in."""
        command = FillSource(records, 1000.0).command(endpoints(self.system, "loader"), TOPICS, self.folder)
        loader = ManagedProcess(self.system.runtime, self.history, "loader", command, self.folder)
        clock.wait_until(lambda: not loader.process.alive(), within_s=300, reason="the loader to end")
        assert loader.process.exit_code() == 0

    def work(self, records):
        """Run until the checkpoint says that so many records of the source are done; then stop."""
        pipeline = self.start()

        def done():
            return checkpointed(self.folder / CHECKPOINT, TOPICS.source)

        clock.wait_until(lambda: sum(done().values()) == records, within_s=300, reason="the records", seen=done)
        pipeline.stop()

    def commit(self, position, metadata=""):
        """Set the position of every partition, as an operator does."""
        settings = {"bootstrap.servers": self.system.kafka.bootstrap, "group.id": self.square.consumer_group(TOPICS)}
        with closing(Consumer(settings)) as group:
            places = [TopicPartition(TOPICS.source, number, position, metadata) for number in range(3)]
            group.commit(offsets=places, asynchronous=False)

    def positions(self):
        """The positions of the group."""
        return self.square.positions(endpoints(self.system, "spark"), TOPICS, self.folder)

    def refused(self):
        """Start it again; the last line of its log, once it has ended with 1."""
        pipeline = self.start()
        clock.wait_until(lambda: not pipeline.process.alive(), within_s=300, reason="the pipeline to refuse its batch")
        assert pipeline.process.exit_code() == 1
        return pipeline.how_it_ended("").partition(": ")[2]


@pytest.fixture
def stage(chaos_session, system, tmp_path):
    """Fresh topics; afterwards they are gone, and so is every process."""
    with History(tmp_path / "history.jsonl") as history:
        stage = Stage(system, history, tmp_path, declared_pipeline(chaos_session, "square", batch_records=3000))
        stage.create()
        yield stage
    system.kafka.delete([TOPICS.source, TOPICS.sink])


@pytest.mark.nightly
def test_positions_that_were_set_back_stop_it(stage):
    """The sink was made anew and the group set to 0, as an operator would; the checkpoint was kept."""
    stage.fill(600)
    stage.work(600)
    stage.commit(0)
    stage.fill(30)

    said = stage.refused()

    names = ("RefusedError: ", " at 200 in datasource-bounds-", " position 0: ", " record at 0 ", " the checkpoint")
    assert all(name in said for name in names), said
    assert set(stage.positions().values()) == {0}


@pytest.mark.nightly
def test_a_source_that_was_made_anew_stops_it(stage):
    """Its records below the old positions were never read. Kafka removes a topic's positions with it; these were restored."""
    stage.fill(300)
    stage.work(300)
    old = topic_id(stage.system.kafka.bootstrap, TOPICS.source, {})
    stage.system.kafka.delete([TOPICS.source])
    clock.wait_until(lambda: not stage.positions(), within_s=300, reason="Kafka to remove the positions", seen=stage.positions)
    stage.system.kafka.create([TOPICS.source], 3)
    stage.fill(600)
    stage.commit(100, old)

    said = stage.refused()

    new = topic_id(stage.system.kafka.bootstrap, TOPICS.source, {})
    names = (f"RefusedError: {TOPICS.source} ", f" position 100 in {TOPICS.source}-", f" id {old}", f" id {new}")
    assert all(name in said for name in names), said
    assert set(stage.positions().values()) == {100}


def test_what_wakes_a_coordinator_changes_nothing(stage):
    """It writes a position and a marker into the log of the positions, and the group's position stays what it was."""
    kafka, group = stage.system.kafka, stage.square.consumer_group(TOPICS)
    stage.commit(100)
    before = kept(kafka, group)
    settings = {"bootstrap.servers": kafka.bootstrap}
    with closing(new_consumer(Sink(kafka.bootstrap, group, TOPICS.sink))) as consumer:
        producer = Producer({**settings, "transactional.id": f"{group}-wakes", "transaction.timeout.ms": 25_000})
        producer.init_transactions(120)

        wake_coordinator(producer, consumer, TOPICS.source, 1)

    # The abort is answered before its marker is in the log (KIP-98). Other groups write there too, at any time.
    clock.wait_until(lambda: kept(kafka, group) >= before + 2, within_s=120, reason="the position and its marker in the log")
    assert set(stage.positions().values()) == {100}


def kept(kafka, group):
    """How far the log goes that keeps a group's positions, up to its first open transaction."""
    with closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "looks"})) as looks:
        return looks.get_watermark_offsets(TopicPartition(*kafka.group_partition(group)), timeout=60)[1]
