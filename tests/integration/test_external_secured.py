"""A cluster with TLS, passwords and rights that is already there: one broker, told apart from ours by all three.

The certificate is good for ``localhost`` only, so a client that came through a proxy by another name would be refused.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from chaos.audit.logs import fix
from chaos.audit.topics import OfTopics
from chaos.audit.where import Where
from chaos.cluster.broker import Brokers
from chaos.cluster.kafka import Kafka
from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.contract.base import Endpoints, Topic, Topics
from chaos.external import declaration as declared
from chaos.external import discovery
from chaos.install import artifacts, class_archives, preflight
from chaos.scenario.pipelines.base import Tools
from tests import deployed
from tests.integration.external import play, said

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PORT, CONTROLLER = 20939, "127.91.9.1:19093"
PASSWORDS = {"broker": "broker-secret", "alice": "alice-secret", "guest": "guest-secret"}
PREFIX = "chaos-alice-"
JOB = """
import json
from pyspark.sql import SparkSession
settings = SparkSession.builder.getOrCreate().sparkContext.getConf().getAll()
print(json.dumps(dict(settings)), flush=True)
input()
"""
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://{controller},SECURE://127.0.0.1:{port}
advertised.listeners=SECURE://localhost:{port}
inter.broker.listener.name=SECURE
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="broker" password="broker-secret" user_broker="broker-secret" user_alice="alice-secret" user_guest="guest-secret";
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:ANONYMOUS
offsets.topic.replication.factor=1
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
share.coordinator.state.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=true
log.cleaner.backoff.ms=1000
log.cleaner.dedupe.buffer.size=4194304
log.dirs={folder}/data
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One broker with TLS and SASL; alice may do anything with names of her prefix, guest nothing. Returns its folder."""
    folder, parts = tmp_path_factory.mktemp("secured"), artifacts.ensure(print)
    certify(folder)
    (folder / "server.properties").write_text(
        PROPERTIES.format(controller=CONTROLLER, port=PORT, folder=folder), encoding="utf-8"
    )
    java = (
        str(parts.java),
        *class_archives.options(parts.kafka_cds),
        "-Xmx384m",
        "-cp",
        class_archives.kafka_class_path(parts.kafka_jars),
    )
    storage = ("kafka.tools.StorageTool", "format", "-t", "Y2hhb3MtY2x1c3Rlci0wOQ", "-c", str(folder / "server.properties"))
    subprocess.run((*java, *storage), check=True, capture_output=True, timeout=300)
    with (folder / "log").open("wb") as log:
        broker = subprocess.Popen((*java, "kafka.Kafka", str(folder / "server.properties")), stdout=log, stderr=log)
    try:
        allow(folder)
        yield folder
    finally:
        broker.kill()
        broker.wait(300)


def test_clients_of_both_kinds_pass_tls_a_login_and_a_proxy(cluster, tmp_path):
    """Loader, sink and samplers are librdkafka, source and audit are Java; the cut works although the name is still checked."""
    only = ("-k", "spark-loses-the-source")

    answer, (report,) = play(declaration(cluster), tmp_path, *only, EXTERNAL_PASSWORD=PASSWORDS["alice"])

    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr
    assert report["verdict"] == "VALID"
    written = [file for file in tmp_path.rglob("*") if file.is_file() and PASSWORDS["alice"].encode() in file.read_bytes()]
    assert written == []
    assert PASSWORDS["alice"] not in answer.stdout + answer.stderr
    admin = administrator(cluster)
    assert [name for name in admin.list_topics(timeout=60).topics if name.startswith(PREFIX)] == []
    assert admin.list_consumer_groups().result(90).valid == []


def test_options_of_spark_are_on_no_command_line_and_in_no_file(tmp_path):
    """Neither of spark-submit nor of the two JVMs that it starts; and they arrive as they were given."""
    secret = "hunter2 = #\\ü😀:!"  # noqa: S105 - not a real one
    options = {"spark.hadoop.fs.s3a.secret.key": secret, "spark.hadoop.fs.s3a.session.token": secret}
    endpoints = Endpoints("127.0.0.1:1", "127.0.0.1:1", "local[1]", spark_options=options)
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    tools = Tools(str(preflight.find_java()), spark_home=str(artifacts.ensure(print).spark.home))
    job = deployed.job(str(tmp_path / "job.py"), (), tools)
    start = job.command(endpoints, Topics((Topic("datasource", 3),), "datasink"), tmp_path)
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(start.argv, cwd=tmp_path, env=os.environ | start.env, stdout=subprocess.PIPE, stderr=log) as process,
        Watched(process) as watched,
    ):
        settings = next((json.loads(line) for line in process.stdout if line.startswith(b'{"spark.')), {})
        clock.wait_until(watched.saw_the_driver, within_s=60, reason="a look at the JVM of the driver")
        process.terminate()

    assert {name: settings.get(name) for name in options} == dict.fromkeys(options, secret), said(tmp_path / "log")
    assert any("org.apache.spark.launcher.Main" in line for line in watched.lines)
    assert [line for line in watched.lines if "hunter2" in line] == []
    assert [file for file in tmp_path.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()] == []


@pytest.mark.parametrize(
    ("name", "password", "change", "said"),
    [
        (
            "guest",
            "guest-secret",
            {},
            r"guest .*'chaos-alice-' .*kafka-acls --add .*--topic",
        ),
        ("alice", "alice-secret", {PREFIX: "chaos-bob-"}, r"alice .*'chaos-bob-'"),
        ("alice", "wrong", {}, r"no broker of localhost:20939 answers: .*Authentication failed"),
        ("alice", "alice-secret", {"tls: .*": ""}, r"no broker of localhost:20939 answers: .*"),
        (
            "alice",
            "alice-secret",
            {"ca.pem": "other.pem"},
            r"no broker of localhost:20939 answers: .*certificate verify failed",
        ),
        (
            "alice",
            "alice-secret",
            {"replication: 1": "replication: 2"},
            r"the cluster has 1: localhost:20939; write replication: 1",
        ),
        ("alice", "alice-secret", {"20939": "20938"}, r"no broker of localhost:20938 answers: .*Connection refused"),
    ],
)
def test_what_will_not_work_is_said_before_anything_is_made(cluster, monkeypatch, name, password, change, said):
    """One line, and soon."""
    monkeypatch.setenv("EXTERNAL_PASSWORD", password)
    text = declaration(cluster, name).read_text(encoding="utf-8")
    for old, new in change.items():
        text = re.sub(old, new, text)
    path = cluster / "changed.yaml"
    path.write_text(text, encoding="utf-8")
    spec, began_s = declared.load(path), clock.monotonic_s()

    with pytest.raises(RuntimeUnavailableError, match=said) as caught:
        discovery.check(Kafka(discovery.look(spec), Brokers(None)), spec)

    assert "\n" not in str(caught.value)
    assert clock.monotonic_s() - began_s < 60


def test_topics_of_a_secured_cluster_are_audited(cluster, tmp_path, monkeypatch):
    """With the login of the same file; what identifies a record is in its value. Whether it is compacted may not be known."""
    topics = [f"{PREFIX}orders", f"{PREFIX}copies"]
    admin = administrator(cluster)
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in topics]).values():
        future.result(300)
    producer = Producer(login(cluster))
    for number in range(40):
        for name in topics:
            producer.produce(name, key="same", value=json.dumps({"order": number}), partition=number % 2)
    producer.produce(topics[1], key="same", value=json.dumps({"order": 39}), partition=1)
    assert producer.flush(120) == 0

    code, found, text = audited(cluster, tmp_path, *topics, "get_json_object(value, '$.order')")

    assert code == 1, text
    assert {name: finding["count"] for name, finding in found.items()} == {
        "duplicates": 1,
        "gaps": 0,
        "ordering": 0,
        "values": 0,
    }
    assert [one["id"] for one in found["duplicates"]["examples"]] == ["39"]
    assert PASSWORDS["alice"] not in text
    code, followed, text = audited(cluster, tmp_path, *topics, "row", "--for", "1s", way="follow")
    assert (code, {name: one["count"] for name, one in followed.items()}) == (
        1,
        {name: one["count"] for name, one in found.items()},
    )
    assert PASSWORDS["alice"] not in text
    where = Where(external=str(declaration(cluster)))
    asked = OfTopics(where, (topics[0],), (topics[1],), model="identity", identity="key")
    monkeypatch.setenv("EXTERNAL_PASSWORD", PASSWORDS["alice"])
    assert fix(asked.topics).compacted == {}
    who, what = "User:alice", (AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)
    denied = AclBinding(ResourceType.TOPIC, topics[0], ResourcePatternType.LITERAL, who, "*", *what)
    for future in admin.create_acls([denied]).values():
        future.result(300)
    told = clock.wait_until(lambda: fix(asked.topics).compacted, within_s=60, reason="the right to be taken away")
    assert set(told) == {"source"}
    assert "cleanup.policy" in told["source"]
    for future in admin.delete_topics(topics).values():
        future.result(300)


@pytest.mark.nightly
def test_a_topic_before_and_after_compaction(cluster, tmp_path):
    """A perfect copy is VALID until records are removed, and UNKNOWN then; as a source, and as a sink. A wrong row is wrong."""
    topics = compacted, plain = f"{PREFIX}compacted", f"{PREFIX}plain"
    settings = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
    admin = administrator(cluster)
    for future in admin.create_topics([NewTopic(compacted, 2, 1, config=settings), NewTopic(plain, 2, 1)]).values():
        future.result(300)
    records = [(f"user-{number % 7}", None if number % 5 == 0 else str(number)) for number in range(300)]
    fill(cluster, topics, records, clock.now_ms() - 3_600_000)
    before = audited(cluster, tmp_path, *topics, "key")
    fill(cluster, topics, [(f"user-{number % 7}", "last") for number in range(14)])  # of another hour, so of another segment
    clock.wait_until(
        lambda: readable(cluster, compacted) < 300, within_s=300, reason="the cleaner to remove records", every_s=1
    )

    as_source, as_sink = (audited(cluster, tmp_path, *both, "key") for both in ((compacted, plain), (plain, compacted)))
    fill(cluster, [compacted], [("user-0", "x")])
    wrong = audited(cluster, tmp_path, plain, compacted, "key")
    for future in admin.delete_topics(list(topics)).values():
        future.result(300)

    notes = [{name: one["note"] for name, one in found.items() if one["note"]} for _, found, _ in (before, as_source, as_sink)]
    assert [code for code, _, _ in (before, as_source, as_sink, wrong)] == [0, 3, 3, 1], wrong
    assert [set(one) for one in notes] == [set(), {"duplicates", "values"}, {"gaps"}]
    assert notes[1]["values"].startswith("the source is compacted: ")
    assert notes[2]["gaps"].startswith("the sink is compacted: ")
    assert {name: one["count"] for name, one in wrong[1].items() if one["count"]} == {"values": 1}


def test_transactions_of_a_secured_cluster_are_audited(cluster, tmp_path):
    """With a login that may read the internal topics; one that may not see them is told so."""
    source, sink, group = (f"{PREFIX}{name}" for name in ("payments", "receipts", "cashier"))
    admin = administrator(cluster)
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in (source, sink)]).values():
        future.result(300)
    fill(cluster, [source], [(str(number), "x") for number in range(10)])
    producer = Producer({**login(cluster), "transactional.id": f"{PREFIX}cashier"})
    producer.init_transactions(120)
    with contextlib.closing(Consumer({**login(cluster), "group.id": group})) as consumer:
        for end in (4, 10):
            producer.begin_transaction()
            for number in range(end - (4 if end > 4 else 0)):
                producer.produce(sink, value=str(number))
            position = [TopicPartition(source, 0, end)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 120)
            producer.commit_transaction(120)

    def asked(name, password):
        words = ("--external", str(declaration(cluster, name)), "--group", group, "--rows-per-record", "1")
        argv = [
            str(Path(sys.executable).with_name("chaos")),
            "audit",
            "transactions",
            *words,
            "--json",
            str(tmp_path / "r.json"),
        ]
        environment = {**os.environ, "EXTERNAL_PASSWORD": password}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False, env=environment)
        assert password not in done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    allowed, forbidden = asked("broker", PASSWORDS["broker"]), asked("alice", PASSWORDS["alice"])

    assert allowed[0] == 0, allowed
    assert "transactions" in allowed[1]
    assert forbidden[0] == 2, forbidden
    assert (
        f"there is no topic '__consumer_offsets' at localhost:{PORT}: no transaction was ever made there, or this"
        in forbidden[1]
    )
    for future in admin.delete_topics([source, sink]).values():
        future.result(300)


def audited(cluster, tmp_path, source, sink, identity, *more, way="topics"):
    """Exit code, findings by verifier, and what was printed."""
    report = tmp_path / "report.json"
    what = ("--external", str(declaration(cluster)), "--source", source, "--sink", sink, "--model", "identity")
    by = ("--identity", identity, *(("--spark-master", "local[2]") if way == "topics" else ()))
    argv = [str(Path(sys.executable).with_name("chaos")), "audit", way, *what, *by, "--json", str(report), *more]
    environment = {**os.environ, "EXTERNAL_PASSWORD": PASSWORDS["alice"]}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False, env=environment)
    found = {finding["verifier"]: finding for finding in json.loads(report.read_text(encoding="utf-8"))["findings"]}
    return done.returncode, found, done.stdout + done.stderr


def fill(cluster, topics, records, at_ms=0):
    """Write keys and values into topics, each key in the partition of its hash (librdkafka's consistent_random, by CRC32)."""
    producer = Producer(login(cluster))
    for key, value in records:
        for name in topics:
            producer.produce(name, key=key, value=value, timestamp=at_ms)
    assert producer.flush(120) == 0


def readable(cluster, topic):
    """How many records can be read from two partitions."""
    with contextlib.closing(
        Consumer({**login(cluster), "group.id": f"{PREFIX}reader", "enable.partition.eof": True})
    ) as reader:
        reader.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
        ends = found = 0
        while ends < 2:
            message = reader.poll(60)
            assert message is not None, f"{topic} cannot be read"
            ends, found = (ends + 1, found) if message.error() else (ends, found + 1)
        return found


def login(cluster):
    """Alice's login, for clients of librdkafka."""
    secured = {"sasl.username": "alice", "sasl.password": PASSWORDS["alice"], "sasl.mechanism": "PLAIN", "log_level": 0}
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(cluster / "ca.pem"), "broker.address.family": "v4"}
    return {**secured, **tls, "bootstrap.servers": f"localhost:{PORT}"}


class Watched(clock.Poller):
    """The command lines of all that a process starts, also of what ends soon."""

    def __init__(self, process):
        super().__init__("command lines", every_s=0.005, ends_within_s=60)
        self.lines = set()
        self._root = psutil.Process(process.pid)

    def saw_the_driver(self):
        return any("spark.deploy.SparkSubmit" in line and "launcher.Main" not in line for line in self.lines)

    def _look(self):
        for child in self._root.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                self.lines.add(" ".join(child.cmdline()))


def certify(folder):
    """Two authorities, and a certificate of the first for ``localhost``."""
    for name in ("ca", "other"):
        openssl(folder, f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem")
    openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n", encoding="ascii")
    signed = "-CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out server.crt"
    openssl(folder, f"x509 -req -days 2 -in server.csr {signed}")
    (folder / "server.pem").write_bytes((folder / "server.key").read_bytes() + (folder / "server.crt").read_bytes())


def openssl(folder, arguments):
    """Run it there."""
    command = (shutil.which("openssl") or "openssl", *arguments.split())
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=folder)


def administrator(folder):
    """A client that may do anything."""
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "ssl.ca.location": str(folder / "ca.pem")}
    login = {"sasl.username": "broker", "sasl.password": PASSWORDS["broker"], "log_level": 0}
    return AdminClient({**settings, **login, "bootstrap.servers": f"localhost:{PORT}", "broker.address.family": "v4"})


def allow(folder):
    """Let alice use names of her prefix, and nothing else: what docs/external.md says that a run needs."""
    rules = [
        AclBinding(kind, PREFIX, ResourcePatternType.PREFIXED, "User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    ]

    admin = administrator(folder)

    def allowed():
        return [future.result(6) for future in admin.create_acls(rules, request_timeout=5).values()]

    clock.wait_until(allowed, within_s=300, reason="the broker to take rules", ignore=(KafkaException, TimeoutError))


def declaration(folder, name="alice"):
    """The file with which somebody uses it."""
    path = folder / f"{name}.yaml"
    lines = (
        "version: 1",
        f'bootstrap: ["localhost:{PORT}"]',
        f"prefix: {PREFIX}",
        "replication: 1",
        "tls: {ca: ca.pem}",
        f"sasl: {{mechanism: PLAIN, username: {name}, password_env: EXTERNAL_PASSWORD}}",
        "librdkafka: {broker.address.family: v4}",
        f'spark: {{master: "local[2]", options: {{spark.hadoop.fs.s3a.secret.key: {PASSWORDS["alice"]}}}}}',
        "",
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
