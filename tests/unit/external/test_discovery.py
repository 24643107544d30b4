"""An existing system without a real cluster: its checks, its hosts file, and the login of clients."""

from pathlib import Path

import pytest

from chaos.cluster.addresses import Addresses
from chaos.cluster.broker import Brokers
from chaos.cluster.kafka import Cluster, Kafka
from chaos.common.errors import RuntimeUnavailableError
from chaos.contract.base import Endpoints, Topic, Topics
from chaos.external import declaration as declared
from chaos.external import discovery, security
from chaos.external.discovery import ExternalSpark
from chaos.loader.declaration import FillSource
from tests.unit.wording import keep

LEAST = "version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n"
CLUSTER = Cluster({1: ("kafka-1", 9092), 4: ("kafka-4", 9092)}, "chaos-a-", 2)


def test_a_jvm_finds_brokers_at_our_proxies_and_everything_else_where_it_was():
    """The file replaces all name resolution: a name that is not in it does not resolve."""
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


def test_an_address_is_not_in_the_hosts_file():
    """It is not looked up, so it cannot lead to a proxy."""
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


def test_both_kinds_of_clients_log_in(secured):
    """With the same login and the same files, in the options of each."""
    native, java = security.librdkafka(secured), security.java(secured)

    assert native["security.protocol"] == java["security.protocol"] == "SASL_SSL"
    assert (native["sasl.username"], native["sasl.password"]) == ("al", 'a"b\\c')
    assert java["sasl.jaas.config"].endswith('ScramLoginModule required username="al" password="a\\"b\\\\c";')
    assert Path(native["ssl.key.location"]).read_text(encoding="ascii") == java["ssl.keystore.key"] == "-- key\n"
    assert java["ssl.truststore.location"] == native["ssl.ca.location"]
    assert (native["socket.timeout.ms"], java["request.timeout.ms"]) == ("9", "8")


def test_a_password_is_not_shown(secured, tmp_path):
    """Although pytest prints the arguments of every function that an error passed through."""
    cluster = Cluster({}, options=security.librdkafka(secured), java=security.java(secured))
    endpoints = Endpoints("a:1", "a:1", options=cluster.options, java=cluster.java)
    command = FillSource(1, 1.0).command(endpoints, Topics((Topic("a", 3),), "b"), tmp_path)

    assert not any('a"b' in repr(shown) or 'a\\"b' in repr(shown) for shown in (cluster, endpoints, command))
    assert "sasl.password: …" in repr(cluster)


def test_a_consumer_does_not_create_a_topic_by_asking_for_it():
    """Where brokers create topics by themselves, a topic that was just removed would be there again."""
    assert security.java(declared.load_text(LEAST, Path("e"))) == {"allow.auto.create.topics": "false"}


def test_a_missing_password_or_file_is_reported_at_once(secured, monkeypatch):
    """A client would retry for ever."""
    monkeypatch.delenv("SECRET")
    with pytest.raises(RuntimeUnavailableError, match="SECRET") as caught:
        security.librdkafka(secured)
    keep(str(caught.value))
    with pytest.raises(RuntimeUnavailableError, match=r"ca\.pem .*tls:") as caught:
        security.java(declared.load_text(f"{LEAST}tls: {{ca: ca.pem}}\n", Path("e")))
    keep(str(caught.value))


def test_too_few_brokers_are_reported_before_the_cluster_is_asked():
    """With their addresses, and what to write instead."""
    with pytest.raises(RuntimeUnavailableError, match=r"2: kafka-1:9092, kafka-4:9092; .*replication: 2") as caught:
        discovery.check(Kafka(CLUSTER, Brokers(None)), declared.load_text(LEAST, Path("e")))
    keep(str(caught.value))


def test_a_master_that_cannot_be_reached_is_reported_at_once():
    """Masters that only Spark can find are left to Spark."""
    with pytest.raises(RuntimeUnavailableError, match=r"spark://127\.93\.9\.9:7 cannot be reached") as caught:
        ExternalSpark("spark://127.93.9.9:7", "127.0.0.1").check()
    keep(str(caught.value))
    for master in ("yarn", "k8s://https://127.93.9.9:7", "local[2]"):
        ExternalSpark(master, "127.0.0.1").check()


def test_what_hooks_must_not_put_on_record_is_in_the_environment(monkeypatch):
    """The variables that the file names, and the password of the login, which needs no line of its own."""
    monkeypatch.setenv("OPS_PASSWORD", "hunter2\n")
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter3")
    text = f"{LEAST}secrets: [OPS_PASSWORD]\nsasl: {{username: a, password_env: KAFKA_PASSWORD}}\n"

    found = security.secrets(declared.load_text(text, Path("external.yaml")))

    assert found.hidden_in("hunter2 hunter3 hunter4") == "*** *** hunter4"
