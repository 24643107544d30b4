"""Find and check an existing system before anything is created, and reach it through our proxies where possible.

    driver and executors (JVMs) ── "kafka-1" ──▶ 127.N.10.1:9092 [Toxiproxy] ──▶ kafka-1:9092      by jdk.net.hosts.file
    loader, Python, auditor     ── "kafka-1" ─────────────────────────────────▶ kafka-1:9092      by the system's resolver

A broker tells its clients its name and its port. A JVM with a hosts file of ours resolves that name to a loopback address,
where a proxy listens on the same port. TLS certificates remain valid, because the name is the same.
"""

import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.cluster.addresses import Addresses
from chaos.cluster.broker import Brokers
from chaos.cluster.hooks import BrokerHooks
from chaos.cluster.kafka import Cluster, Kafka
from chaos.cluster.links import Link
from chaos.cluster.spark import Executor, executor_of
from chaos.cluster.system import Echo, Place, System
from chaos.cluster.toxiproxy import ProxySpec, Toxiproxy
from chaos.common import clock
from chaos.common.errors import DeadlineError, RuntimeUnavailableError
from chaos.external import security
from chaos.external.declaration import External
from chaos.install import class_archives
from chaos.runtime.base import Process

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
_URL = re.compile(r"spark://(.+):([0-9]+)")
_ASK_S = 5.0


@dataclass(frozen=True, slots=True)
class ExternalSpark:
    """A `chaos.cluster.spark.SparkCluster` that somebody else started; `is_here`: its executors run on this machine.

    This repository's tests cover ``spark://`` and ``local[N]``; ``yarn`` and ``k8s://`` are passed to Spark unchanged.
    """

    master: str
    driver_host: str
    java_options: str = ""
    class_path: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_here: bool = False
    worker_ids: tuple[int, ...] = ()

    @property
    def workers(self) -> dict[int, Process]:
        return {}

    @property
    def master_process(self) -> Process:
        raise LookupError(f"the master {self.master} is not a process of ours")

    def start(self) -> None:
        """Do nothing: the cluster is running already."""

    def started(self) -> bool:
        return True

    def wait_until_ready(self) -> None:
        """Wait until the master can be reached.

        Raises:
            DeadlineError: it cannot.
        """
        clock.wait_until(lambda: not self.unhealthy(), within_s=10, reason="Spark's master", every_s=0.5, seen=self.unhealthy)

    def check(self) -> None:
        """Raise RuntimeUnavailableError if a ``spark://`` master cannot be reached; only Spark can find YARN and Kubernetes."""
        wrong = self.unhealthy()
        if wrong:
            raise RuntimeUnavailableError(f"{wrong[0]}; check spark: {{master: …}} in the external file, and the network")

    def unhealthy(self) -> list[str]:
        """Say why a ``spark://`` master cannot be reached; one of several addresses is enough."""
        wrong = []
        for one in self.master.removeprefix("spark://").split(",") if self.master.startswith("spark://") else ():
            url = _URL.fullmatch(f"spark://{one}")
            if url is None:
                return [f"spark://{one} is not the address of a master"]
            try:
                with socket.create_connection((url[1], int(url[2])), timeout=_ASK_S):
                    return []
            except OSError as error:
                wrong.append(f"Spark's master spark://{one} cannot be reached: {error}")
        return wrong

    def registered(self) -> int:
        return 0

    def applications(self) -> list[str]:
        return []

    def forget(self) -> None:
        raise LookupError(f"the recovery files of the master {self.master} are not ours to remove")

    def executors(self) -> list[Executor]:
        """All executors on this machine, of any application; a fault selects those of the pipeline's own."""
        found = map(executor_of, psutil.process_iter()) if self.is_here else ()
        return sorted(filter(None, found), key=lambda executor: (executor.app, executor.id))


# the cluster ------------------------------------------------------------------------------------------------------------


def found(place: Place, external: External, echo: Echo) -> System:
    """Find the declared system, and check it; nothing is created on either side.

    Raises:
        RuntimeUnavailableError: cluster or Spark's master cannot be reached, brokers are too few, or a permission is missing.
    """
    cluster = look(external)
    kafka = Kafka(cluster, Brokers(place.runtime))
    check(kafka, external)
    toxiproxy = Toxiproxy(place.addresses.toxiproxy)
    links = tuple(_links(cluster, place.addresses, toxiproxy))
    spark = _spark(place, external, cluster)
    spark.check()
    built = System(place, kafka, spark, links)
    values = {
        number: {"broker": external.names.get(number, host), "id": number, "host": host, "port": port}
        for number, (host, port) in cluster.brokers.items()
    }
    built.hooks = BrokerHooks(external.hooks, values, security.secrets(external))
    for remark in _remarks(external, cluster):
        echo(remark)
    return built


def look(external: External) -> Cluster:
    """Find the cluster behind the bootstrap servers.

    Raises:
        RuntimeUnavailableError: no broker answers, or none accepts the login.
    """
    options, errors = security.librdkafka(external), list[KafkaError]()
    unseen = Cluster({}, external.prefix, external.replication, options, security.java(external))
    servers = ",".join(external.bootstrap)
    try:
        client = unseen.client(servers, errors.append)
        metadata: Any = clock.wait_until(
            lambda: _metadata(client, errors), within_s=_ANSWERS_WITHIN_S, reason="metadata", ignore=(KafkaException,)
        )
    except (KafkaException, DeadlineError, HopelessError) as error:
        # A request for metadata with a wrong password only times out; librdkafka has reported the reason before.
        telling = [one for one in errors if one.code() in _SELF_EXPLAINED] or errors
        why = " ".join(telling[0].str().split()) if telling else str(error)
        raise RuntimeUnavailableError(
            f"no broker of {servers} answers: {why}; check bootstrap, tls and sasl in the external file, and the network"
        ) from error
    brokers = {number: (broker.host, broker.port) for number, broker in sorted(metadata.brokers.items())}
    return replace(unseen, brokers=brokers)


class HopelessError(Exception):
    """Waiting is useless: every broker refused the connection or the login."""


def _metadata(client: AdminClient, errors: list[KafkaError]) -> Any:
    try:
        return client.list_topics(timeout=_TURN_S)
    except KafkaException as error:
        client.poll(0)  # hands over the errors of connections
        if any(one.code() in _HOPELESS for one in errors):
            raise HopelessError from error
        raise


def check(kafka: Kafka, external: External) -> None:
    """Check that the cluster allows what a run does, without creating anything.

    Raises:
        RuntimeUnavailableError: there are too few brokers, or a permission is missing.
    """
    brokers = kafka.cluster.brokers
    if len(brokers) < external.replication:
        raise RuntimeUnavailableError(
            f"replication {external.replication} needs {external.replication} brokers, and the cluster has {len(brokers)}: "
            f"{', '.join(f'{host}:{port}' for host, port in brokers.values())}; write replication: {len(brokers)}"
        )
    try:
        kafka.create([f"{external.prefix}{_PROBE}"], 1, validate_only=True)
        _check_groups(kafka.cluster)
    except KafkaException as error:
        raise RuntimeUnavailableError(_refusal(error.args[0], external)) from error
    except DeadlineError as error:
        raise RuntimeUnavailableError(f"the cluster answers, but has no group coordinator: {error}") from error


def _check_groups(cluster: Cluster) -> None:
    """Ask for the offsets of a group that does not exist, which does not create it.

    Raises:
        KafkaException: the client is not authorized to use groups.
        DeadlineError: there is no coordinator.
    """
    name = f"{cluster.prefix}{_PROBE}"
    own = {"group.id": name, "bootstrap.servers": cluster.bootstrap, "log_level": 0}
    with closing(Consumer({**cluster.options, **own})) as consumer:
        (forbidden,) = clock.wait_until(
            lambda: (_forbidden(consumer, name),),
            within_s=_ANSWERS_WITHIN_S,
            reason="a group coordinator",
            ignore=(KafkaException,),  # the first group of a cluster waits for its coordinator
        )
    if forbidden is not None:
        raise KafkaException(forbidden)


def _forbidden(consumer: Consumer, topic: str) -> KafkaError | None:
    """Return the authorization error of the consumer's group, if any."""
    try:
        found = consumer.committed([TopicPartition(topic, 0)], timeout=_TURN_S)
    except KafkaException as error:
        if error.args[0].code() in _FORBIDDEN:
            return error.args[0]  # type: ignore[no-any-return]
        raise
    return next((one.error for one in found if one.error is not None and one.error.code() in _FORBIDDEN), None)


def _refusal(error: KafkaError, external: External) -> str:
    who = external.sasl.username if external.sasl else "this client"
    if error.code() not in _FORBIDDEN:
        return f"the cluster refuses to create topics that begin with {external.prefix!r}: {error.str()}"
    kind = "--group" if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else "--topic"
    return (
        f"{who} is not authorized for names that begin with {external.prefix!r} on this cluster ({error.str()}); run: "
        f"kafka-acls --add --allow-principal User:{who} --operation All --resource-pattern-type prefixed "
        f"{kind} {external.prefix}"
    )


# reaching the brokers --------------------------------------------------------------------------------------------------


def _links(cluster: Cluster, addresses: Addresses, toxiproxy: Toxiproxy) -> Iterator[Link]:
    hosts = proxy_hosts(cluster, addresses)
    for number, (host, port) in cluster.brokers.items():
        link = f"{_SPARK}->broker-{number}"
        proxy = ProxySpec(f"{_SPARK}-to-broker-{number}", (hosts[host], port), (host, port), link)
        yield Link(_SPARK, number, (proxy,), toxiproxy)


def proxy_hosts(cluster: Cluster, addresses: Addresses) -> Mapping[str, str]:
    """Advertised host -> the loopback address of our proxies for it; brokers with the same host differ by their ports."""
    hosts = dict.fromkeys(host for host, _ in cluster.brokers.values())
    return {host: addresses.client(_SPARK, number)[0] for number, host in enumerate(hosts, start=1)}


def hosts_file(cluster: Cluster, addresses: Addresses, others: Mapping[str, str], system_hosts: str) -> str:
    """Return the text of a hosts file for JVMs; it replaces all other resolution, so it holds every name that they look up.

    Args:
        cluster: its names resolve to our proxies.
        addresses: the addresses of the proxies.
        others: further names -> addresses.
        system_hosts: the text of /etc/hosts.
    """
    names = {host: address for host, address in proxy_hosts(cluster, addresses).items() if not is_address(host)}
    kept = [line for line in (_without_names(line, names) for line in system_hosts.splitlines()) if line]
    further = [f"{address} {name}" for name, address in others.items() if name not in names]
    return "\n".join([*(f"{address} {name}" for name, address in names.items()), *further, *kept, ""])


def _without_names(line: str, names: Mapping[str, str]) -> str:
    address, *known = line.partition("#")[0].split() or [""]
    left = [name for name in known if name not in names]
    return f"{address} {' '.join(left)}" if left else ""


def is_address(host: str) -> bool:
    """Whether this is an IP address: clients do not look it up, so it cannot lead to a proxy."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _spark(place: Place, external: External, cluster: Cluster) -> ExternalSpark:
    declared, here = external.spark, external.spark.is_here
    host = declared.driver_host or (place.addresses.driver if here else socket.getfqdn())
    connector = [str(jar) for jar in place.parts.spark.connector]
    if not here:
        jars = {"spark.jars": ",".join(connector)}
        return ExternalSpark(declared.master, host, class_path=":".join(connector), options=jars | declared.options)
    path = place.folder / "hosts"
    place.folder.mkdir(parents=True, exist_ok=True)
    text = hosts_file(cluster, place.addresses, _resolved(external), Path("/etc/hosts").read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    scratch = place.folder / "tmp"
    scratch.mkdir(exist_ok=True)
    options = (
        *class_archives.options(place.parts.spark.archive),
        f"-Djava.io.tmpdir={scratch}",
        f"-Djdk.net.hosts.file={path}",
    )
    return ExternalSpark(declared.master, host, " ".join(options), ":".join(connector), declared.options, is_here=True)


def _resolved(external: External) -> Mapping[str, str]:
    """Resolve the names that JVMs look up besides the brokers: those of Spark's master and of this machine."""
    urls = external.spark.master.removeprefix("spark://").split(",") if external.spark.master.startswith("spark://") else []
    names = [socket.gethostname(), *(url.rpartition(":")[0] for url in urls)]
    found = {}
    for name in names:
        try:
            found[name] = socket.gethostbyname(name)
        except OSError:
            continue  # a JVM that needs the name reports the error
    return {name: address for name, address in found.items() if not is_address(name)}


def _remarks(external: External, cluster: Cluster) -> Iterator[str]:
    brokers = ", ".join(f"broker-{number} is {host}:{port}" for number, (host, port) in cluster.brokers.items())
    yield f"existing cluster: {brokers}; runs create and remove topics and groups that begin with {cluster.prefix!r}"
    unnamed = sorted({host for host, _ in cluster.brokers.values() if is_address(host)})
    if unnamed and external.spark.is_here:
        yield f"brokers advertise {', '.join(unnamed)}, not a host name: faults on links to them cannot take effect"
    left = left_over(cluster)
    if left:
        yield f"{len(left)} topics of other runs exist: {', '.join(left[:_FEW])}{' …' if len(left) > _FEW else ''}"


def left_over(cluster: Cluster) -> list[str]:
    """List topics with our prefix: a killed run left them, or a run elsewhere uses them now."""
    metadata: Any = cluster.client().list_topics(timeout=_ANSWERS_WITHIN_S)
    return sorted(name for name in metadata.topics if name.startswith(cluster.prefix))
