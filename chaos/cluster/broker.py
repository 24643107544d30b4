"""Our own KRaft brokers (controller and broker in one process): their files, command lines and processes.

A broker knows its peers only by name, and its own hosts file (``jdk.net.hosts.file``) resolves a name to the proxy of the link
from this broker to that peer. So each direction between two brokers can be broken alone, without root.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chaos.cluster.addresses import AUDIT_PORT, CLIENTS, CONTROLLER_PORT, INTERNAL_PORT, Addresses
from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import class_archives
from chaos.install.artifacts import Parts
from chaos.install.kafka_versions import KafkaProgram
from chaos.runtime.base import Process, ProcessSpec, Runtime

_OUTSIDE = "OUTSIDE"
CLUSTER_ID = base64.urlsafe_b64encode(b"chaos-cluster-01").decode().rstrip("=")

# Shorter than Kafka's defaults: minutes in production are seconds here. But a broker that is started again on a busy machine
# may take longer than a minute to find the controller, and would end by itself.
_SETTINGS = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=3
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
initial.broker.registration.timeout.ms=600000
replica.lag.time.max.ms=5000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
unclean.leader.election.enable=false
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
log.cleaner.enable=false
num.network.threads=2
num.io.threads=4
"""

_LOGGING = """\
appender.stdout.type=Console
appender.stdout.name=STDOUT
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d{ISO8601} %p %c{1} %m%n
rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=STDOUT
"""
_FORMER_LOGGING = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n
"""
_LOGGING_FILE = "logging.properties"


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker, before it runs.

    Attributes:
        number: node.id, from 1.
        brokers: number of brokers.
        folder: for its files; its log is ``<folder>.log``.
        is_outside: whether it has one more listener, under a host name, for other programs.
        config: further settings, which override ours.
    """

    number: int
    brokers: int
    addresses: Addresses
    folder: Path
    parts: Parts
    program: KafkaProgram
    is_outside: bool = False
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in scenarios."""
        return f"broker-{self.number}"

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"

    def write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "server.properties").write_text(self._properties(), encoding="utf-8")
        (self.folder / "hosts").write_text(self._hosts(), encoding="utf-8")
        logging = _LOGGING if self.program.logs_with_log4j_2 else _FORMER_LOGGING
        (self.folder / _LOGGING_FILE).write_text(logging, encoding="utf-8")

    def format_spec(self) -> ProcessSpec:
        """The command that formats its storage."""
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self.folder / "server.properties"))
        return self._spec(f"format-{self.name}", "kafka.tools.StorageTool", arguments)

    def serve_spec(self) -> ProcessSpec:
        return self._spec(self.name, "kafka.Kafka", (str(self.folder / "server.properties"),))

    def _spec(self, name: str, main: str, arguments: tuple[str, ...]) -> ProcessSpec:
        argv = (
            str(self.parts.java),
            "-Xms256m",
            "-Xmx384m",
            *class_archives.options(self.program.archive),
            f"-Djava.io.tmpdir={self.folder}",
            self._logging_option(),
            f"-Djdk.net.hosts.file={self.folder / 'hosts'}",
            "-cp",
            class_archives.kafka_class_path(self.program.jars),
            main,
            *arguments,
        )
        host = self.addresses.broker(self.number)
        return ProcessSpec(name, argv, self.folder, self.folder.with_suffix(".log"), hosts=(host,))

    def _logging_option(self) -> str:
        file = self.folder / _LOGGING_FILE
        return f"-Dlog4j2.configurationFile={file}" if self.program.logs_with_log4j_2 else f"-Dlog4j.configuration=file:{file}"

    def _hosts(self) -> str:
        """Text of its hosts file, which replaces name resolution in the JVM: other names do not resolve."""
        peers = [f"{self.addresses.peer(self.number, peer)} broker-{peer}" for peer in range(1, self.brokers + 1)]
        return "\n".join([*peers, "127.0.0.1 localhost", ""])

    def _properties(self) -> str:
        host = self.addresses.broker(self.number)
        groups = {client.upper(): self.addresses.client(client, self.number) for client in CLIENTS}
        own = {"CONTROLLER": CONTROLLER_PORT, "INTERNAL": INTERNAL_PORT, "AUDIT": AUDIT_PORT} | {
            client.upper(): self.addresses.client_port(client) for client in CLIENTS
        }
        advertised = {
            "CONTROLLER": (self.name, CONTROLLER_PORT),
            "INTERNAL": (self.name, INTERNAL_PORT),
            "AUDIT": (host, AUDIT_PORT),
        } | groups
        if not self.program.advertises_controllers:
            del advertised["CONTROLLER"]
        listeners = {name: (host, port) for name, port in own.items()}
        if self.is_outside:
            advertised[_OUTSIDE] = self.addresses.outside(self.number)
            listeners[_OUTSIDE] = ("127.0.0.1", advertised[_OUTSIDE][1])
        voters = ",".join(f"{peer}@broker-{peer}:{CONTROLLER_PORT}" for peer in range(1, self.brokers + 1))
        return _SETTINGS + "\n".join(
            [
                f"node.id={self.number}",
                f"controller.quorum.voters={voters}",
                f"listeners={','.join(f'{name}://{at}:{port}' for name, (at, port) in listeners.items())}",
                f"advertised.listeners={','.join(f'{name}://{at}:{port}' for name, (at, port) in advertised.items())}",
                f"listener.security.protocol.map={','.join(f'{name}:PLAINTEXT' for name in listeners)}",
                f"log.dirs={self.data}",
                *(f"{name}={value}" for name, value in self.config.items()),  # the last line of a name counts
                "",
            ]
        )


class Brokers:
    """The processes of the brokers that we start.

    Attributes:
        planned: empty if the cluster exists already.
        processes: node id -> process, from `start` on.
    """

    def __init__(self, runtime: Runtime, planned: Sequence[Broker] = ()) -> None:
        self.planned = tuple(planned)
        self.processes: dict[int, Process] = {}
        self._runtime = runtime

    def start(self) -> None:
        """Format and start all brokers; they serve later.

        Raises:
            RuntimeUnavailableError: the storage of a broker could not be formatted.
        """
        for broker in self.planned:
            broker.write_files()
        formats = [(broker, self._runtime.start(broker.format_spec())) for broker in self.planned]
        for broker, process in formats:
            clock.wait_until(partial(_ended, process), within_s=60, reason=f"{process.spec.name} to end")
            if process.exit_code():
                raise RuntimeUnavailableError(f"cannot format the storage of {broker.name}; see {process.spec.log}")
        for broker in self.planned:
            self.processes[broker.number] = self._runtime.start(broker.serve_spec())

    def check(self) -> None:
        """Raise RuntimeUnavailableError if a broker has ended."""
        for number, process in self.processes.items():
            if not process.alive():
                raise RuntimeUnavailableError(f"broker-{number} ended with {process.exit_code()}; see {process.spec.log}")

    def dead(self) -> list[str]:
        """The brokers that do not run now, in words."""
        return [f"broker-{number} does not run" for number in self.down()]

    def down(self) -> list[int]:
        """The brokers that do not run now; empty for a cluster that exists already, as nothing is known of its brokers."""
        return [number for number, process in self.processes.items() if not process.alive()]

    def data(self, number: int) -> Path:
        """The log directory of a broker."""
        return self.planned[number - 1].data


def _ended(process: Process) -> bool:
    return not process.alive()
