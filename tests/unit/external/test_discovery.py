"""A system that is already there, without one: what is refused, what a JVM is told, how clients are let in."""

from pathlib import Path

import pytest

from chaos.cluster.addresses import Addresses
from chaos.cluster.broker import Brokers
from chaos.cluster.kafka import Cluster, Kafka
from chaos.common.errors import RuntimeUnavailableError
from chaos.external import declaration as declared
from chaos.external import discovery, security
from chaos.external.spark import ExternalSpark
from pipelines.base import Endpoints, Topics
from pipelines.loader.pipeline import FillSource

LEAST = "version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n"
CLUSTER = Cluster({1: ("kafka-1", 9092), 4: ("kafka-4", 9092)}, "chaos-a-", 2)


def test_a_jvm_finds_brokers_at_our_proxies_and_everything_else_where_it_was():
    """The file replaces all name resolution: what is not in it does not resolve."""
    text = discovery.hosts_file(
        CLUSTER,
        Addresses("127.93"),
        {"master": "10.0.0.9", "kafka-4": "10.0.0.4"},
        "127.0.0.1 localhost vm # us\n10.1.1.1 kafka-1 db\n",
    )

    assert text.splitlines() == [
        "127.93.10.1 kafka-1",
        "127.93.10.2 kafka-4",
        "10.0.0.9 master",
        "127.0.0.1 localhost vm",
        "10.1.1.1 db",
    ]


def test_brokers_of_one_name_share_an_address():
    """They differ by their ports; a proxy listens on the broker's own port."""
    cluster = Cluster({1: ("localhost", 20001), 2: ("localhost", 20002)})

    assert discovery.proxy_hosts(cluster, Addresses("127.93")) == {"localhost": "127.93.10.1"}


def test_an_address_is_no_name():
    """Nobody looks it up, so it cannot lead elsewhere."""
    assert discovery.hosts_file(Cluster({1: ("10.0.0.1", 9092)}), Addresses(), {}, "") == ""


@pytest.fixture
def secured(tmp_path, monkeypatch):
    """A declaration with all of TLS and SASL, and its files."""
    for name in ("ca", "own", "key"):
        (tmp_path / f"{name}.pem").write_text(f"-- {name}\n", encoding="ascii")
    lines = "tls: {ca: ca.pem, certificate: own.pem, key: key.pem}\nsasl: {username: al, password_env: SECRET}\n"
    path = tmp_path / "external.yaml"
    path.write_text(LEAST + lines + "librdkafka: {socket.timeout.ms: 9}\njava: {request.timeout.ms: 8}\n", encoding="utf-8")
    monkeypatch.setenv("SECRET", 'a"b\\c')
    return declared.load(path)


def test_both_kinds_of_clients_are_let_in(secured):
    """The same login and the same files, in the words of each."""
    native, java = security.librdkafka(secured), security.java(secured)

    assert native["security.protocol"] == java["security.protocol"] == "SASL_SSL"
    assert (native["sasl.username"], native["sasl.password"]) == ("al", 'a"b\\c')
    assert java["sasl.jaas.config"].endswith('ScramLoginModule required username="al" password="a\\"b\\\\c";')
    assert Path(native["ssl.key.location"]).read_text(encoding="ascii") == java["ssl.keystore.key"] == "-- key\n"
    assert java["ssl.truststore.location"] == native["ssl.ca.location"]
    assert (native["socket.timeout.ms"], java["request.timeout.ms"]) == ("9", "8")


def test_a_password_is_not_shown(secured):
    """Pytest prints the arguments of every function that an error passed through."""
    cluster = Cluster({}, options=security.librdkafka(secured), java=security.java(secured))
    endpoints = Endpoints("a:1", "a:1", options=cluster.options, java=cluster.java)
    command = FillSource(1, 1.0).command(endpoints, Topics("a", "b", 3), Path("run"))

    assert not any('a"b' in repr(shown) or 'a\\"b' in repr(shown) for shown in (cluster, endpoints, command))
    assert "sasl.password: …" in repr(cluster)


def test_a_consumer_makes_no_topic_by_asking_for_it():
    """One that was just removed would be there again, where brokers make topics by themselves."""
    assert security.java(declared.load_text(LEAST, Path("e"))) == {"allow.auto.create.topics": "false"}


def test_a_password_or_a_file_that_is_not_there_is_said_at_once(secured, monkeypatch):
    """Not by a client that retries for ever."""
    monkeypatch.delenv("SECRET")
    with pytest.raises(RuntimeUnavailableError, match="the variable SECRET is not set"):
        security.librdkafka(secured)
    with pytest.raises(RuntimeUnavailableError, match=r"ca\.pem is no file; check tls: in the external file"):
        security.java(declared.load_text(f"{LEAST}tls: {{ca: ca.pem}}\n", Path("e")))


def test_too_few_brokers_are_said_before_anybody_is_asked():
    """With their addresses, and what to write instead."""
    with pytest.raises(RuntimeUnavailableError, match=r"the cluster has 2: kafka-1:9092, kafka-4:9092; write replication: 2"):
        discovery.check(Kafka(CLUSTER, Brokers(None)), declared.load_text(LEAST, Path("e")))


def test_a_master_that_is_not_there_is_said_at_once():
    """Those that only Spark knows are left to it."""
    with pytest.raises(RuntimeUnavailableError, match=r"Spark's master spark://127\.93\.9\.9:7 cannot be reached"):
        ExternalSpark("spark://127.93.9.9:7", "127.0.0.1").check()
    for master in ("yarn", "k8s://https://127.93.9.9:7", "local[2]"):
        ExternalSpark(master, "127.0.0.1").check()
