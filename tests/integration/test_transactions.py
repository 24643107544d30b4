"""Transactions of real clients on real brokers, audited by Kafka's own logs alone."""

import json
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.system import SystemSpec
from tests.integration.conftest import ROOT
from verifiers.base import Verdict
from verifiers.transactions.verifier import ANOMALIES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

SOURCE, SINK, GROUP = "txn-source", "txn-sink", "txn-group"
RECORDS, BATCH = 300, 20
CHAOS = str(Path(sys.executable).with_name("chaos"))
ONE_EACH = ("--rows-per-record", "1")


@dataclass
class Copier:
    """Copies partitions of the source, a batch in each transaction, and can be told to do it wrongly."""

    kafka: object
    group: str = GROUP

    def __post_init__(self):
        """Its position is asked for once; what it committed since, it knows."""
        settings = {"bootstrap.servers": self.kafka.bootstrap}
        self.consumer = Consumer(settings | {"group.id": self.group, "enable.auto.commit": False})
        own = {"transactional.id": f"{self.group}-copier", "transaction.timeout.ms": 600_000}
        self.producer = Producer(settings | own)
        self.producer.init_transactions(120)
        self.at = dict.fromkeys(range(3), 0)

    def copy(self, partition, rows=BATCH, moved=BATCH, *, sends=True, commits=True):
        """One transaction with so many rows, that moves the position so far; the position before it."""
        before = self.at[partition]
        self.producer.begin_transaction()
        for number in range(rows):
            self.producer.produce(SINK, key=str(number), value=str(number), partition=partition)
        assert self.producer.flush(120) == 0
        if sends:
            position = [TopicPartition(SOURCE, partition, before + moved)]
            self.producer.send_offsets_to_transaction(position, self.consumer.consumer_group_metadata(), 120)
        if commits:
            self.producer.commit_transaction(120)
            self.at[partition] += moved if sends else 0
        else:
            self.producer.abort_transaction(120)
        return before

    def begin(self):
        """Nine transactions, of which three are aborted."""
        for partition in range(3):
            self.copy(partition)
            self.copy(partition, commits=False)
            self.copy(partition)

    def close(self):
        self.consumer.close()


@pytest.fixture
def kafka(system):
    """Brokers with a source that is filled."""
    with filled(system, RECORDS) as kafka:
        yield kafka


@contextmanager
def filled(system, records, settings=None):
    """The brokers, with a source of so many records and a sink; both are removed afterwards."""
    kafka = system.kafka
    kafka.create([SOURCE, SINK], 3, settings)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(records):
        producer.produce(SOURCE, key=str(number), value=str(number), partition=number % 3)
    assert producer.flush(120) == 0
    try:
        yield kafka
    finally:
        kafka.delete([SOURCE, SINK])


@pytest.fixture
def copier(kafka, request):
    """A copier with its own group for each test, because changes of its positions stay in the log."""
    with closing(Copier(kafka, f"{GROUP}-{request.node.name.rpartition('_')[2]}")) as copier:
        copier.begin()
        yield copier


def audit(kafka, tmp_path, group, *words):
    """Exit code, what was printed, and the finding if there is one."""
    path = tmp_path / "report.json"
    argv = [CHAOS, "audit", "transactions", "--bootstrap", kafka.bootstrap, "--group", group, "--json", str(path), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(path.read_text(encoding="utf-8"))["findings"] if path.exists() else ()
    return done.returncode, done.stdout + done.stderr, next(iter(found), None)


def wrong(finding):
    """Anomaly and place of each example."""
    return [(one["detail"].partition(":")[0], one["partition"], one["offset"]) for one in finding["examples"]]


def test_a_sound_copier_is_valid(kafka, copier, tmp_path):
    """With aborted transactions between, and with the source's records counted; judged again from what was landed."""
    code, said, finding = audit(kafka, tmp_path, copier.group, *ONE_EACH, "--sink", SINK, "--landing", str(tmp_path / "logs"))

    assert code == 0, said
    assert (finding["verdict"], finding["checked"], finding["note"]) == ("VALID", 6, "")
    assert finding["counts"]["aborted"] == 3
    argv = [CHAOS, "audit", "transactions", *ONE_EACH, "--landed", str(tmp_path / "logs"), "--json", str(tmp_path / "again")]
    assert subprocess.run(argv, capture_output=True, timeout=600, check=False).returncode == 0
    assert json.loads((tmp_path / "again").read_text(encoding="utf-8"))["findings"] == [finding]


def test_each_wrong_transaction_is_found(kafka, copier, tmp_path):
    """Where its rows are, or where the position went; what is right before and after is not named."""
    ends = kafka.offsets(SINK, 3)
    copier.copy(0, sends=False)
    copier.copy(1, moved=0)
    back = copier.copy(2, moved=-5) - 5
    copier.copy(2)
    more = kafka.offsets(SINK, 3)[0].hw
    copier.copy(0, rows=BATCH + 3)
    copier.copy(0)
    moved = copier.at[1]
    set_by_an_administrator(kafka, copier.group, 1, moved + 7)
    copier.at[1] += 7
    copier.copy(1)

    code, said, finding = audit(kafka, tmp_path, copier.group, *ONE_EACH)

    assert code == 1, said
    assert wrong(finding) == [
        ("output without positions", 0, ends[0].hw),
        ("surplus", 0, more),
        ("moved outside", 1, moved),
        ("standing still", 1, ends[1].hw),
        ("step back", 2, back),
    ]
    assert f"of '{copier.group}-copier', producer " in finding["examples"][0]["detail"]
    assert "output without positions: partition 0 offset" in said


def set_by_an_administrator(kafka, group, partition, position):
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(SOURCE, partition, position)])]
    for future in kafka.admin.alter_consumer_group_offsets(wanted).values():
        future.result(60)


def test_a_group_that_cannot_be_asked_is_refused_in_one_line(kafka, tmp_path):
    """One that commits outside of transactions, one that nobody knows, and a sink that is not there."""
    with closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"{GROUP}-plain"})) as consumer:
        consumer.commit(offsets=[TopicPartition(SOURCE, 0, 5)], asynchronous=False)

    plain = audit(kafka, tmp_path, f"{GROUP}-plain")
    unknown = audit(kafka, tmp_path, f"{GROUP}-nobody")

    assert (plain[0], plain[1].count("\n"), plain[2]) == (2, 1, None)
    assert plain[1].startswith(f"chaos audit transactions: the group '{GROUP}-plain' commits its positions ")
    assert unknown[0] == 2
    assert f"the group '{GROUP}-nobody' never committed " in unknown[1]


def test_what_retention_removed_is_told(kafka, copier, tmp_path):
    """And what was written since is judged."""
    end = kafka.offsets(SINK, 3)[0].hw
    for future in kafka.admin.delete_records([TopicPartition(SINK, 0, end)]).values():
        future.result(60)
    for _ in range(2):
        copier.copy(0)

    code, said, finding = audit(kafka, tmp_path, copier.group, *ONE_EACH)

    assert code == 3, said
    assert (finding["verdict"], finding["count"]) == ("UNKNOWN", 0)
    assert "compaction or retention has removed the beginning of txn-sink partition 0" in finding["note"]


def test_what_is_open_meanwhile_is_left_out(kafka, copier, tmp_path):
    """A pipeline at work always has a transaction open; its end is not awaited."""
    copier.producer.begin_transaction()
    copier.producer.produce(SINK, value="1", partition=0)
    assert copier.producer.flush(120) == 0

    code, said, finding = audit(kafka, tmp_path, copier.group, *ONE_EACH)
    copier.producer.abort_transaction(120)

    assert code == 0, said
    assert finding["checked"] == 6


def test_rows_of_a_plain_producer_are_found_where_nobody_else_writes_and_are_unknown_elsewhere(kafka, copier, tmp_path):
    """Only the positions are in transactions, and each batch was written twice."""
    plain = Producer({"bootstrap.servers": kafka.bootstrap})
    end = kafka.offsets(SINK, 3)[0].hw
    for number in range(2 * BATCH):
        plain.produce(SINK, key=str(number % BATCH), value="1", partition=0)
    assert plain.flush(120) == 0
    copier.copy(0, rows=0)

    unknown = audit(kafka, tmp_path, copier.group)
    alone = audit(kafka, tmp_path, copier.group, "--sink", SINK)
    shared = audit(kafka, tmp_path, copier.group, "--shared-sink", SINK)

    assert (unknown[0], unknown[2]["count"]) == (3, 0), unknown
    assert f"{SINK} has 40 rows in no transaction" in unknown[2]["note"]
    assert (alone[0], wrong(alone[2])) == (1, [("output outside", 0, end)]), alone
    assert shared[0] == 0, shared


def test_what_is_copied_again_when_the_group_was_deleted(kafka, copier, tmp_path):
    """The records were loaded in a transaction, whose marker shows that the topic is the same; else it is not known."""
    code, said, finding = copied_again(kafka, copier, tmp_path)

    assert code == 3, said
    assert "positions follow one that was removed" in finding["note"]

    loader = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "txn-loader"})
    loader.init_transactions(120)
    for _ in range(2):  # a commit returns before its markers are written; the next transaction waits for them
        loader.begin_transaction()
        for partition in range(3):
            loader.produce(SOURCE, value="1", partition=partition)
        loader.commit_transaction(120)
    code, said, finding = copied_again(kafka, copier, tmp_path)

    assert code == 1, said
    assert {anomaly for anomaly, _, _ in wrong(finding)} <= {"step back", "standing still"}


def copied_again(kafka, copier, tmp_path):
    """The group is deleted, and two batches of the first partition are copied from the beginning."""
    for future in kafka.admin.delete_consumer_groups([copier.group]).values():
        future.result(60)
    copier.at[0] = 0
    copier.copy(0)
    return audit(kafka, tmp_path, copier.group)


def test_a_sink_that_was_deleted_is_unknown_by_name(kafka, copier, tmp_path):
    """One transaction with rows and no position is wrong as long as its topic is there."""
    gone = f"{SINK}-gone"
    kafka.create([gone], 1)
    copier.producer.begin_transaction()
    copier.producer.produce(gone, value="1", partition=0)
    copier.producer.commit_transaction(120)
    before = audit(kafka, tmp_path, copier.group)
    kafka.delete([gone])

    code, said, finding = audit(kafka, tmp_path, copier.group)

    assert (before[0], wrong(before[2])) == (1, [("output without positions", 0, 0)]), before
    assert code == 3, said
    assert f"partition 0 of {gone} could not be read" in finding["note"]
    assert " 1 transactions " in finding["note"]


RUNS = {
    "late-commit-one-producer": {"output without positions": 1},
    "late-commit-producer-renewed": {},
    "late-commit-copier": {},  # Kafka's Java client: transactions v2
    "transaction-coordinator-killed-sending-markers": {},  # the next coordinator sends some again
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", RUNS)
def test_runs_with_faults_are_judged_as_their_model_judges_them(name, chaos_session):
    """The late commit of librdkafka is seen: rows without positions. Where Kafka or a new producer prevents it: no alarm."""
    asked = load(ROOT / "scenarios.yaml").scenarios
    declared = next(one for one in asked if one.name == name).model_dump(mode="json", by_alias=True)
    declared["pipeline"] |= {"expected": "transactions"}
    declared |= {"leave_out": {}, "expect": {"transactions": RUNS[name]} if RUNS[name] else "valid"}
    outcome = chaos_session.run(Scenario.model_validate(declared), SystemSpec(), "", lambda _: None)

    report = outcome.report
    assert (outcome.error, report.verdict) == (None, Verdict.VALID), report  # as expected: one is a control
    (finding,) = [one for one in report.findings if one.verifier == "transactions"]
    assert {kind: finding.counts[kind] for kind in ANOMALIES if finding.counts[kind]} == RUNS[name], finding
    assert finding.checked > 1
    assert {one.verifier for one in report.findings if not one.asked} == {"duplicates", "gaps", "ordering", "values"}
    if RUNS[name]:
        assert ": 200 rows were committed, but no position was sent" in finding.examples[0].words
    place = Path(report.run_dir, "evidence", "transactions")
    words = (
        "--landed",
        str(place),
        "--rows-per-record",
        "1",
        "--json",
        str(Path(report.run_dir, "audit.json")),
    )
    said = subprocess.run([CHAOS, "audit", "transactions", *words], capture_output=True, text=True, timeout=600, check=False)
    assert said.returncode == (1 if RUNS[name] else 0), said.stdout
