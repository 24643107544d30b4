"""The whole system under test: brokers, Toxiproxy and Spark, started and checked together."""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster.addresses import AUDIT_PORT, CONTROLLER_PORT, INTERNAL_PORT, Address, Addresses, joined
from chaos.cluster.broker import Broker, Brokers
from chaos.cluster.hooks import BrokerHooks
from chaos.cluster.kafka import Cluster, Kafka
from chaos.cluster.links import Link, every_link, service_links
from chaos.cluster.rules import RequestRules
from chaos.cluster.spark import Spark, SparkCluster
from chaos.cluster.toxiproxy import Toxiproxy
from chaos.common import clock
from chaos.install import artifacts
from chaos.install.artifacts import Parts
from chaos.install.kafka_versions import KafkaProgram
from chaos.runtime.base import Process, ProcessSpec, Runtime

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Service:
    """A server beside Kafka.

    Attributes:
        address: its listening address, past its links.
        run: the command that starts it for a run; empty if it runs already.
    """

    name: str
    address: Address
    run: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """The runtime, the proxy and the folder for the processes of a system.

    Attributes:
        services: servers beside Kafka; a run starts those that have a command.
    """

    runtime: Runtime
    parts: Parts
    addresses: Addresses
    folder: Path
    services: tuple[Service, ...] = ()


class System:
    """Brokers, Toxiproxy, a Spark cluster, and a proxy on every link that can be broken.

    Attributes:
        up_s: seconds from nothing to ready.
    """

    def __init__(self, place: Place, kafka: Kafka, spark: SparkCluster, links: Sequence[Link]) -> None:
        """Describe the system; `start` starts our parts of it.

        Args:
            spark: the cluster of the pipeline's driver.
            links: the links through our proxies.
        """
        self.services = place.services
        self.parts = place.parts
        self.runtime = place.runtime
        self.addresses = place.addresses
        self.folder = place.folder
        self.kafka = kafka
        self.spark = spark
        self.hooks: BrokerHooks | None = None
        self.toxiproxy = Toxiproxy(place.addresses.toxiproxy)
        self.links = tuple(links)
        of_kafka = {link.name: [proxy.name for proxy in link.proxies] for link in self.links if not link.service}
        self.rules = RequestRules(self.toxiproxy, of_kafka)
        self.up_s = 0.0
        self._proxy_server: Process | None = None

    def start(self, echo: Echo, *, with_spark: bool = True) -> None:
        """Start everything, and return when all parts serve.

        Args:
            with_spark: False leaves Spark's daemons to `start_spark`.

        Raises:
            RuntimeUnavailableError: an address is taken, or a process did not start.
            DeadlineError: a process did not get ready.
        """
        began_s = clock.monotonic_s()
        self.runtime.check_free(self._listeners())
        echo(f"starting {', '.join([*self._ours(), *(self._daemons_of_spark() if with_spark else [])])} …")
        self._start_toxiproxy()
        self.kafka.brokers.start()
        if with_spark:
            self.spark.start()
        self.kafka.wait_until_ready()
        if with_spark:
            self.spark.wait_until_ready()
        self.up_s = clock.monotonic_s() - began_s
        echo(f"the system is up after {self.up_s:.1f} s")

    def start_spark(self, echo: Echo) -> None:
        """Start Spark's daemons if they are not started yet; errors are those of `start`."""
        if self.spark.started():
            return
        echo(f"starting {', '.join(self._daemons_of_spark())} …")
        self.spark.start()
        self.spark.wait_until_ready()

    def bootstrap(self, client: str) -> str:
        """Bootstrap servers of a client group: its own links, if the cluster is ours."""
        if not self.kafka.is_ours:
            return self.kafka.bootstrap
        return joined([self.addresses.client(client, number) for number in self.kafka.broker_ids])

    def service_addresses(self, client: str) -> dict[str, str]:
        """Service -> ``HOST:PORT`` of this client group's link to it."""
        of_client = [link for link in self.links if link.service and link.source == client]
        return {link.service: joined([proxy.listen for proxy in link.proxies]) for link in of_client}

    def versions(self) -> dict[str, str]:
        """Versions for reports; a cluster that is not ours does not report its own."""
        known, planned = artifacts.versions(self.parts), self.kafka.brokers.planned
        kafka = planned[0].program.version if planned else f"external, {len(self.kafka.broker_ids)} brokers"
        return known | {"kafka": kafka}

    def unhealthy(self) -> list[str]:
        """Current problems, in words; a scenario begins only when there are none."""
        if self._proxy_server is None or not self._proxy_server.alive():
            return ["Toxiproxy does not run"]
        armed = [f"the rule {name} is armed" for name in self.rules.armed()]
        return self.toxiproxy.disturbed() + armed + self.kafka.unhealthy() + self.spark.unhealthy()

    def wait_until_healthy(self, within_s: float = 20) -> None:
        """Return when `unhealthy` finds nothing.

        Raises:
            DeadlineError: a problem remains; the system must be rebuilt.
        """
        clock.wait_until(
            lambda: not self.unhealthy(), within_s=within_s, reason="a healthy system", every_s=0.2, seen=self.unhealthy
        )

    def _ours(self) -> list[str]:
        """Our parts, in words, without Spark's."""
        return ["Toxiproxy", *([f"{len(self.kafka.broker_ids)} brokers"] if self.kafka.is_ours else [])]

    def _daemons_of_spark(self) -> list[str]:
        return [f"Spark's master and {len(self.spark.worker_ids)} workers"] if self.spark.worker_ids else []

    def _listeners(self) -> list[Address]:
        if self.kafka.is_ours:
            of_services = [proxy.listen for link in self.links if link.service for proxy in link.proxies]
            started = [service.address for service in self.services if service.run]
            return [*listeners(self.addresses, len(self.kafka.broker_ids)), *of_services, *started]
        return [self.addresses.toxiproxy, *(proxy.listen for link in self.links for proxy in link.proxies)]

    def _start_toxiproxy(self) -> None:
        host, port = self.addresses.toxiproxy
        of_links = sorted({proxy.listen[0] for link in self.links for proxy in link.proxies})
        argv = (str(self.parts.toxiproxy), "-host", host, "-port", str(port), *_beyond_loopback(host))
        spec = ProcessSpec("toxiproxy", argv, self.folder, self.folder / "toxiproxy.log", hosts=(host, *of_links))
        self._proxy_server = self.runtime.start(spec)
        self.toxiproxy.wait_until_ready()
        self.toxiproxy.populate(proxy for link in self.links for proxy in link.proxies)


def _beyond_loopback(host: str) -> tuple[str, ...]:
    """Return the option that lets Toxiproxy listen where other machines might reach it."""
    return () if ipaddress.ip_address(host).is_loopback else ("-allow-non-loopback",)


def managed_system(
    place: Place,
    kafka: KafkaProgram,
    *,
    brokers: int,
    workers: int,
    config: Mapping[str, str],
    is_outside: bool = False,
) -> System:
    """Make a system all of whose processes are ours, with a proxy on every link.

    Args:
        brokers, workers: their numbers.
        config: settings of all brokers, which override ours.
        is_outside: whether other programs may use the brokers, under a host name.
    """
    addresses, numbers = place.addresses, range(1, brokers + 1)
    cluster = Cluster({number: addresses.audit(number) for number in numbers})
    folders = {number: place.folder / f"broker-{number}" for number in numbers}
    planned = [
        Broker(number, brokers, addresses, folders[number], place.parts, kafka, is_outside, config) for number in numbers
    ]
    spark = Spark(place.runtime, place.parts, addresses, place.folder / "spark", workers)
    proxy = Toxiproxy(addresses.toxiproxy)
    links = every_link(addresses, brokers, proxy)
    links += service_links(addresses, {service.name: service.address for service in place.services}, proxy)
    return System(place, Kafka(cluster, Brokers(place.runtime, planned)), spark, links)


def listeners(addresses: Addresses, brokers: int) -> list[Address]:
    """List every address that a system will listen on and that is known before the start."""
    own = [
        (addresses.broker(number), port)
        for number in range(1, brokers + 1)
        for port in (CONTROLLER_PORT, INTERNAL_PORT, AUDIT_PORT)
    ]
    links = every_link(addresses, brokers, Toxiproxy(addresses.toxiproxy))
    proxies = [proxy.listen for link in links for proxy in link.proxies]
    return [addresses.toxiproxy, addresses.master, addresses.master_page, *own, *proxies]
