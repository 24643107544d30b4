"""The whole system under test, started together, asked together, ended together."""

from collections.abc import Callable
from pathlib import Path

from chaos import clock
from chaos.runtime import preflight
from chaos.runtime.artifacts import Parts
from chaos.runtime.base import Process, ProcessSpec, Runtime
from chaos.system.addresses import AUDIT_PORT, CONTROLLER_PORT, INTERNAL_PORT, Address, Addresses
from chaos.system.kafka import Kafka
from chaos.system.links import Link, every_link
from chaos.system.rules import RuleBook
from chaos.system.spark import Spark
from chaos.system.toxiproxy import Toxiproxy

Echo = Callable[[str], None]


class System:
    """Three brokers, Toxiproxy, a master, workers; and a proxy on every link.

    Attributes:
        up_s: seconds from nothing to ready.
    """

    def __init__(
        self, runtime: Runtime, parts: Parts, addresses: Addresses, folder: Path, *, brokers: int, workers: int
    ) -> None:
        """Describe the system; `start` starts it."""
        self.parts = parts
        self.runtime = runtime
        self.addresses = addresses
        self.folder = folder
        self.kafka = Kafka(runtime, parts, addresses, folder, brokers)
        self.spark = Spark(runtime, parts, addresses, folder / "spark", workers)
        self.toxiproxy = Toxiproxy(addresses.toxiproxy)
        self.links: tuple[Link, ...] = every_link(addresses, brokers, self.toxiproxy)
        self.rules = RuleBook(self.toxiproxy, {link.name: [proxy.name for proxy in link.proxies] for link in self.links})
        self.up_s = 0.0
        self._proxy_server: Process | None = None

    def start(self, echo: Echo) -> None:
        """Start everything and return when all of it serves.

        Raises:
            RuntimeUnavailableError: an address is taken, or a process did not start.
            DeadlineError: a process did not get ready.
        """
        began_s = clock.monotonic_s()
        preflight.check_addresses(listeners(self.addresses, len(self.kafka.numbers)))
        echo(f"starting Toxiproxy, {len(self.kafka.numbers)} brokers, Spark's master and {len(self.spark.numbers)} workers …")
        self._start_toxiproxy()
        self.kafka.start()
        self.spark.start()
        self.kafka.wait_until_ready()
        self.spark.wait_until_ready()
        self.up_s = clock.monotonic_s() - began_s
        echo(f"the system is up after {self.up_s:.1f} s")

    def unhealthy(self) -> list[str]:
        """What is not as it must be before a scenario begins."""
        if self._proxy_server is None or not self._proxy_server.alive():
            return ["Toxiproxy does not run"]
        armed = [f"the rule {name} is armed" for name in self.rules.armed()]
        return self.toxiproxy.disturbed() + armed + self.kafka.unhealthy() + self.spark.unhealthy()

    def wait_until_healthy(self, within_s: float = 20) -> None:
        """Return when nothing is wrong.

        Raises:
            DeadlineError: it stays wrong; the system must be rebuilt.
        """
        clock.wait_until(
            lambda: not self.unhealthy(), within_s=within_s, reason="a healthy system", every_s=0.2, seen=self.unhealthy
        )

    def _start_toxiproxy(self) -> None:
        host, port = self.addresses.toxiproxy
        argv = (str(self.parts.toxiproxy), "-host", host, "-port", str(port))
        self._proxy_server = self.runtime.start(ProcessSpec("toxiproxy", argv, self.folder, self.folder / "toxiproxy.log"))
        self.toxiproxy.wait_until_ready()
        self.toxiproxy.populate(proxy for link in self.links for proxy in link.proxies)


def listeners(addresses: Addresses, brokers: int) -> list[Address]:
    """Every address that a system will listen on and that is known before it starts."""
    own = [
        (addresses.broker(number), port)
        for number in range(1, brokers + 1)
        for port in (CONTROLLER_PORT, INTERNAL_PORT, AUDIT_PORT)
    ]
    links = every_link(addresses, brokers, Toxiproxy(addresses.toxiproxy))
    proxies = [proxy.listen for link in links for proxy in link.proxies]
    return [addresses.toxiproxy, addresses.master, addresses.master_page, *own, *proxies]
