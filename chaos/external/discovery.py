"""A system that is already there: looked at before anything is made, and reached through proxies of ours where it can be.

    driver and executors (JVMs) ── "kafka-1" ──▶ 127.N.10.1:9092 [Toxiproxy] ──▶ kafka-1:9092      jdk.net.hosts.file says so
    loader, Python, auditor     ── "kafka-1" ─────────────────────────────────▶ kafka-1:9092      librdkafka asks the resolver

A broker tells its clients its name and its port. A JVM with a hosts file of ours finds that name at a loopback address, where a
proxy listens on the same port; certificates still fit, for the name is the same.
"""

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.cluster.addresses import Addresses
from chaos.cluster.cluster import Cluster
from chaos.cluster.guard import Guard
from chaos.cluster.hooks import BrokerHooks
from chaos.cluster.kafka import PARTITIONS, Kafka
from chaos.cluster.links import Link
from chaos.cluster.system import Echo, Place, System
from chaos.cluster.toxiproxy import ProxySpec, Toxiproxy
from chaos.common import clock
from chaos.common.errors import DeadlineError, RuntimeUnavailableError
from chaos.external import security
from chaos.external.declaration import External
from chaos.external.spark import ExternalSpark
from chaos.install import class_archives

_ANSWERS_WITHIN_S = 10.0
_TURN_S = 1.0
_FEW = 5
_SPARK = "spark"
_PROBE = "is-this-allowed"
_FORBIDDEN = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_SELF_EXPLAINED = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE})  # noqa: SLF001 - no other names
_HOPELESS = _SELF_EXPLAINED | {KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001 - likewise


def found(place: Place, external: External, echo: Echo) -> System:
    """Look at everything first; nothing is made, neither here nor there.

    Raises:
        RuntimeUnavailableError: the cluster or Spark's master cannot be reached, there are too few brokers, or we may not make
            topics.
    """
    cluster = look(external)
    check(cluster, external)
    toxiproxy = Toxiproxy(place.addresses.toxiproxy)
    links = tuple(_links(cluster, place.addresses, toxiproxy))
    spark = _spark(place, external, cluster)
    spark.check()
    built = System(place, Kafka(place.runtime, cluster), spark, links)
    built.hooks = BrokerHooks(external.hooks, {number: _values(external, cluster, number) for number in cluster.brokers})
    for said in _remarks(external, cluster):
        echo(said)
    return built


def look(external: External) -> Cluster:
    """The cluster behind the bootstrap servers.

    Raises:
        RuntimeUnavailableError: nobody answers there, or not to us.
    """
    options, said = security.librdkafka(external), list[KafkaError]()
    unseen = Cluster({}, external.prefix, external.replication, options, security.java(external))
    servers = ",".join(external.bootstrap)
    try:
        client = unseen.client(servers, said.append)
        found: Any = clock.wait_until(
            lambda: _metadata(client, said), within_s=_ANSWERS_WITHIN_S, reason="metadata", ignore=(KafkaException,)
        )
    except (KafkaException, DeadlineError, HopelessError) as error:
        raise RuntimeUnavailableError(
            f"no broker of {servers} answers: {_why(error, said)}; check bootstrap, tls and sasl in the external file, "
            "and the network"
        ) from error
    brokers = {number: (broker.host, broker.port) for number, broker in sorted(found.brokers.items())}
    return Cluster(brokers, external.prefix, external.replication, options, unseen.java)


class HopelessError(Exception):
    """Nobody will answer: every broker refused, or refused us."""


def _metadata(client: AdminClient, said: list[KafkaError]) -> Any:
    try:
        return client.list_topics(timeout=_TURN_S)
    except KafkaException as error:
        client.poll(0)  # hears what was said
        if any(one.code() in _HOPELESS for one in said):
            raise HopelessError from error
        raise


def _why(error: Exception, said: list[KafkaError]) -> str:
    """What librdkafka said on its way: a wrong password is a time-out to whoever asks for metadata."""
    telling = [one for one in said if one.code() in _SELF_EXPLAINED] or said
    return " ".join(telling[0].str().split()) if telling else str(error)


def check(cluster: Cluster, external: External) -> None:
    """Whether we can do there what a run does; the cluster is asked, and nothing is made.

    Raises:
        RuntimeUnavailableError: too few brokers, or a right is missing.
    """
    count = len(cluster.brokers)
    if count < external.replication:
        raise RuntimeUnavailableError(
            f"replication {external.replication} needs as many brokers, and the cluster has {count}: "
            f"{', '.join(f'{host}:{port}' for host, port in cluster.brokers.values())}; write replication: {count}"
        )
    try:
        _may_make_topics(cluster)
        _may_use_groups(cluster)
    except KafkaException as error:
        raise RuntimeUnavailableError(_refusal(error.args[0], external)) from error
    except DeadlineError as error:
        raise RuntimeUnavailableError(f"the cluster answers, and has no coordinator for groups: {error}") from error


def _may_make_topics(cluster: Cluster) -> None:
    replicas = list(cluster.brokers)[: cluster.replication]
    name = f"{cluster.prefix}{_PROBE}"
    Guard(cluster.prefix).create(cluster.client(), [name], [replicas] * PARTITIONS, validate_only=True)


def _may_use_groups(cluster: Cluster) -> None:
    """Whoever asks where a group is that never was, makes none."""
    names = {"group.id": f"{cluster.prefix}{_PROBE}", "bootstrap.servers": cluster.bootstrap, "log_level": 0}
    with closing(Consumer({**cluster.options, **names})) as consumer:
        forbidden = clock.wait_until(
            lambda: _asked(consumer, f"{cluster.prefix}{_PROBE}"),
            within_s=_ANSWERS_WITHIN_S,
            reason="a group coordinator",
            ignore=(KafkaException,),  # the first group of a cluster waits for its coordinator
        )
    if forbidden[0] is not None:
        raise KafkaException(forbidden[0])


def _asked(consumer: Consumer, topic: str) -> tuple[KafkaError | None]:
    """Whether the group may be used: what forbids it."""
    try:
        found = consumer.committed([TopicPartition(topic, 0)], timeout=_TURN_S)
    except KafkaException as error:
        if error.args[0].code() in _FORBIDDEN:
            return (error.args[0],)
        raise
    errors = [one.error for one in found if one.error is not None and one.error.code() in _FORBIDDEN]
    return (errors[0] if errors else None,)


def _refusal(error: KafkaError, external: External) -> str:
    who = external.sasl.username if external.sasl else "this client"
    if error.code() not in _FORBIDDEN:
        return f"the cluster would not make topics that begin with {external.prefix!r}: {error.str()}"
    kind = "--group" if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else "--topic"
    return (
        f"{who} may not use names that begin with {external.prefix!r} on this cluster ({error.str()}); let it: "
        f"kafka-acls --add --allow-principal User:{who} --operation All --resource-pattern-type prefixed "
        f"{kind} {external.prefix}"
    )


# how its brokers are reached -------------------------------------------------------------------------------------------


def _links(cluster: Cluster, addresses: Addresses, toxiproxy: Toxiproxy) -> Iterator[Link]:
    """One for each broker; brokers of one name, told apart by their ports, share an address."""
    hosts = led(cluster, addresses)
    for number, (host, port) in cluster.brokers.items():
        name = f"{_SPARK}->broker-{number}"
        yield Link(
            _SPARK, number, (ProxySpec(f"{_SPARK}-to-broker-{number}", (hosts[host], port), (host, port), name),), toxiproxy
        )


def led(cluster: Cluster, addresses: Addresses) -> Mapping[str, str]:
    """Advertised host -> the loopback address of our proxies for it."""
    hosts = dict.fromkeys(host for host, _ in cluster.brokers.values())
    return {host: addresses.client(_SPARK, number)[0] for number, host in enumerate(hosts, start=1)}


def hosts_file(cluster: Cluster, addresses: Addresses, others: Mapping[str, str], system_hosts: str) -> str:
    """For JVMs; it replaces all other resolution, so it holds whatever else they will ask for.

    Args:
        cluster: its names lead to our proxies.
        addresses: where these are.
        others: further names -> addresses.
        system_hosts: the text of /etc/hosts.
    """
    names = {host: address for host, address in led(cluster, addresses).items() if not is_address(host)}
    kept = [line for line in (_without(line, names) for line in system_hosts.splitlines()) if line]
    further = [f"{address} {name}" for name, address in others.items() if name not in names]
    return "\n".join([*(f"{address} {name}" for name, address in names.items()), *further, *kept, ""])


def _without(line: str, names: Mapping[str, str]) -> str:
    address, *known = line.partition("#")[0].split() or [""]
    left = [name for name in known if name not in names]
    return f"{address} {' '.join(left)}" if left else ""


def is_address(host: str) -> bool:
    """Whether this is a number and no name: nobody looks it up, so it cannot be led elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _spark(place: Place, external: External, cluster: Cluster) -> ExternalSpark:
    declared, here = external.spark, external.spark.is_here
    host = declared.driver_host or (place.addresses.driver if here else socket.getfqdn())
    if not here:
        jars = {"spark.jars": ",".join(str(jar) for jar in place.parts.connector_jars)}
        return ExternalSpark(declared.master, host, options=jars | declared.options)
    path = place.folder / "hosts"
    place.folder.mkdir(parents=True, exist_ok=True)
    text = hosts_file(cluster, place.addresses, _resolved(external), Path("/etc/hosts").read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    scratch = place.folder / "tmp"
    scratch.mkdir(exist_ok=True)
    options = (*class_archives.options(place.parts.spark_cds), f"-Djava.io.tmpdir={scratch}", f"-Djdk.net.hosts.file={path}")
    return ExternalSpark(declared.master, host, " ".join(options), declared.options, is_here=True)


def _resolved(external: External) -> Mapping[str, str]:
    """Names that JVMs ask for besides brokers', and that only the resolver knows: of the master, and of this machine."""
    urls = external.spark.master.removeprefix("spark://").split(",") if external.spark.master.startswith("spark://") else []
    names = [socket.gethostname(), *(url.rpartition(":")[0] for url in urls)]
    found = {}
    for name in names:
        try:
            found[name] = socket.gethostbyname(name)
        except OSError:
            continue  # whoever needs it will say so
    return {name: address for name, address in found.items() if not is_address(name)}


def _values(external: External, cluster: Cluster, number: int) -> Mapping[str, object]:
    host, port = cluster.brokers[number]
    return {"broker": external.names.get(number, host), "id": number, "host": host, "port": port}


def _remarks(external: External, cluster: Cluster) -> Iterator[str]:
    listed = ", ".join(f"broker-{number} is {host}:{port}" for number, (host, port) in cluster.brokers.items())
    yield f"a cluster that is there already: {listed}; whatever begins with {cluster.prefix!r} is made and removed"
    numbers = sorted({host for host, _ in cluster.brokers.values() if is_address(host)})
    if numbers and external.spark.is_here:
        yield f"brokers advertise {', '.join(numbers)}, which is no name: faults of links to them cannot bite"
    left = left_over(cluster)
    if left:
        yield f"{len(left)} topics of other runs are there: {', '.join(left[:_FEW])}{' …' if len(left) > _FEW else ''}"


def left_over(cluster: Cluster) -> list[str]:
    """Topics with our prefix: of a run that was killed, or that runs now elsewhere."""
    found: Any = cluster.client().list_topics(timeout=_ANSWERS_WITHIN_S)
    return sorted(name for name in found.topics if name.startswith(cluster.prefix))
