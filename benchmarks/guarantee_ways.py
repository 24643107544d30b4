"""How `guarantee.py` measures one cell, once: each way ends all that it has started, and removes its topics."""

import json
import re
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

from confluent_kafka import Consumer, Producer, TopicPartition
from guarantee_cells import Cell, Latency, latency, rate

from chaos.cluster.system import System
from chaos.common.clock import monotonic_s, pause, wait_until
from chaos.contract.base import Topic, Topics
from chaos.engine.pipelines import endpoints, pipeline_of
from chaos.loader.plain import due
from chaos.runtime.base import Process, ProcessSpec
from chaos.scenario.load import load
from chaos.scenario.pipelines import SparkSubmitPipeline

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE_PARTITIONS = 9  # as many as there may be workers
NUMBERS, NUMBERS_PARTITIONS = "numbers", 3
_TOPIC = {"file.delete.delay.ms": "1000"}
_WITHIN_S = 300.0  # of what takes seconds where the machine is not busy
_WRITTEN_S = 600.0
_SETTLED_S = 20.0
_STAMP = struct.Struct(">qd")  # number, and when it was due
_TURN_S = 0.002
_ALL = 100_000  # more than come in an interval
_BATCHES = 4
_LONGER = (1, 2, 4)  # times as long, where the machine is too busy for two batches in the time that is measured
_MEASURED = re.compile(r"^\d+ (?:steady state )?records sent, ([\d.]+) records/sec", re.MULTILINE)
_PRODUCERS = {
    "at_most_once": {"acks": "1", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "5"},
    "in_order": {"acks": "all", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"},
    "not_idempotent": {"acks": "all", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "5"},
    "at_least_once": {"acks": "all", "enable.idempotence": "true"},
    "exactly_once": {"acks": "all", "enable.idempotence": "true"},
}
_IN_BULK = {"batch.size": "500000", "linger.ms": "50"}  # nobody measures how a source is filled
_JOBS = {"exactly_once": "square", "at_least_once": "square_stock"}


class Bench:
    """The system, and names that were not used before.

    Attributes:
        renewed: how often the application has made a new producer, because an answer had taken too long.
    """

    def __init__(self, system: System, folder: Path) -> None:
        self.system = system
        self.folder = folder
        self.bootstrap = system.kafka.bootstrap
        self.renewed = 0
        self._numbers = count(1)
        self._pipelines = load(REPOSITORY / "scenarios.yaml").pipelines

    def name(self, of: str) -> str:
        return f"{of}-{next(self._numbers)}"

    @contextmanager
    def topic(self, of: str, partitions: int) -> Iterator[str]:
        """A topic for a while."""
        name = self.name(of)
        self.system.kafka.create([name], partitions, _TOPIC)
        try:
            yield name
        finally:
            self.system.kafka.delete([name])

    @contextmanager
    def process(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[Process]:
        """A process for a while; the warden of the system ends it, too."""
        spec = ProcessSpec(name, tuple(argv), self.folder, self.folder / f"{name}.log", dict(env or {}))
        process = self.system.runtime.start(spec)
        try:
            yield process
        finally:
            process.stop()

    # a bare producer -----------------------------------------------------------------------------------------------------

    def write(self, cell: Cell, topic: str, records: int, warm_up: int = 0) -> float:
        """Records per second of Kafka's own ``kafka-producer-perf-test``, at full speed, without those that warm it up."""
        properties = {"bootstrap.servers": self.bootstrap} | _PRODUCERS[cell.guarantee] | (_IN_BULK if not warm_up else {})
        words = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
        words += ["--payload-monotonic"] if topic == NUMBERS else ["--record-size", str(cell.size)]
        words += ["--warmup-records", str(warm_up)] if warm_up else []
        if cell.guarantee == "exactly_once":
            words += ["--transactional-id", topic, "--transaction-duration-ms", str(cell.interval_ms)]
        words += ["--command-property", *(f"{name}={value}" for name, value in properties.items())]
        parts, name = self.system.parts, self.name("writer")
        argv = (
            str(parts.java),
            "-Xmx512m",
            "-cp",
            parts.tools_class_path,
            "org.apache.kafka.tools.ProducerPerformance",
            *words,
        )
        with self.process(name, argv) as process:
            wait_until(lambda: not process.alive(), within_s=_WRITTEN_S, reason="the producer to have written all records")
            said = process.spec.log.read_text(encoding="utf-8")
        found = _MEASURED.findall(said)
        if process.exit_code() or not found:
            sys.exit(f"{' '.join(argv)} ended with {process.exit_code()}:\n{said[-2000:]}")
        return float(found[-1])  # with a warm-up, of the steady state

    # the plain application -----------------------------------------------------------------------------------------------

    @contextmanager
    def application(self, cell: Cell, source: str, sink: str, batch_records: int) -> Iterator[Process]:
        """The application in a group of its own, once each of its workers has its place."""
        name = self.name("application")
        options = {
            "delivery": cell.guarantee,
            "workers": cell.workers,
            "batch_records": batch_records,
            "interval_ms": cell.interval_ms,
            "auto_offset_reset": "earliest",
        }
        place = {"kafka": self.bootstrap, "source": source, "sink": sink, "group": name}
        program = Path(__file__).with_name("guarantee_app.py")
        argv = (sys.executable, str(program), "--place", json.dumps(place), "--options", json.dumps(options))
        with self.process(name, (*argv, "--partitions", str(cell.partitions)), {"PYTHONPATH": str(REPOSITORY)}) as process:
            log = process.spec.log
            wait_until(lambda: _lines(log) or not process.alive(), within_s=_WITHIN_S, reason=f"{name} to have its partitions")
            yield process

    def throughput(self, cell: Cell, source: str, batch_records: int, warm_s: float, seconds: float) -> float:
        """Records per second of the application with a backlog.

        Args:
            batch_records: of each worker, if it has read so many before its interval is over.
        """
        for times in _LONGER:
            with suppress(ValueError):
                return self._throughput(cell, source, batch_records, warm_s, times * seconds)
        sys.exit(f"{cell}: too few batches in {_LONGER[-1] * seconds:g} s")

    def _throughput(self, cell: Cell, source: str, batch_records: int, warm_s: float, seconds: float) -> float:
        with self.topic("sink", cell.partitions) as sink, self.application(cell, source, sink, batch_records) as process:
            began_s = monotonic_s() + warm_s
            pause(warm_s + seconds)
            process.stop()
            said = json.loads(_lines(process.spec.log)[-1])
        self.renewed += said["others"].pop("renewed", 0)
        if said["others"]:
            sys.exit(f"{cell}: something went wrong, so this is no measurement: {said['others']}, {said['why']}")
        ends: dict[int, list[tuple[float, int]]] = {worker: [] for worker in range(cell.workers)}
        for worker, at_s, records in said["delivered"]:
            ends.setdefault(worker, []).append((at_s, records))
        self._refuse_if_drained(source, SOURCE_PARTITIONS, sum(records for _, _, records in said["delivered"]))
        return sum(rate(of_worker, began_s) for of_worker in ends.values())

    def _refuse_if_drained(self, source: str, partitions: int, records: int) -> None:
        """A rate is that of a backlog."""
        there = sum(bounds.hw for bounds in self.system.kafka.offsets(source, partitions).values())
        if records >= there:
            sys.exit(f"all {there} records of {source} were read before the time was over: make it larger")

    # latency -------------------------------------------------------------------------------------------------------------

    def latency(self, cell: Cell, rate_per_s: float, warm_s: float, seconds: float) -> Latency:
        """Latency of records that come at a steady rate and pass the application."""
        with (
            self.topic("paced", SOURCE_PARTITIONS) as source,
            self.topic("sink", cell.partitions) as sink,
            self.application(cell, source, sink, _ALL),
        ):
            pacer = _Pacer(self.bootstrap, source, SOURCE_PARTITIONS, cell.size, rate_per_s)
            return self._watched(pacer, sink, cell.partitions, warm_s, seconds)

    def write_paced(self, cell: Cell, rate_per_s: float, warm_s: float, seconds: float) -> Latency:
        """Latency of records that a producer writes one by one in transactions, without an application."""
        with self.topic("paced", cell.partitions) as topic:
            pacer = _Pacer(self.bootstrap, topic, cell.partitions, cell.size, rate_per_s, cell.interval_ms / 1000)
            return self._watched(pacer, topic, cell.partitions, warm_s, seconds)

    def _watched(self, pacer: "_Pacer", topic: str, partitions: int, warm_s: float, seconds: float) -> Latency:
        """Run the pacer while two readers look at a topic, until both have seen all of it."""
        records = int((warm_s + seconds) * pacer.rate_per_s)
        readers = [
            _Reader(self.bootstrap, topic, partitions, isolation) for isolation in ("read_committed", "read_uncommitted")
        ]
        with ExitStack() as stack:
            for reader in readers:
                stack.enter_context(reader)
            pacer.run(records)
            wait_until(
                lambda: all(len(reader.arrived) == records for reader in readers),
                within_s=_SETTLED_S,
                reason=f"all {records} records to be read",
                seen=lambda: [len(reader.arrived) for reader in readers],
            )
        committed, uncommitted = (reader.arrived for reader in readers)
        numbers = range(int(warm_s * pacer.rate_per_s), records)
        took = [committed[number][0] - committed[number][1] for number in numbers]
        lags = [max(0.0, committed[number][0] - uncommitted[number][0]) for number in numbers]
        return latency(took, lags)

    # Spark ---------------------------------------------------------------------------------------------------------------

    def spark(self, cell: Cell, warm_s: float, seconds: float) -> float:
        """Records per second of the square job with a backlog, from the ends of its batches."""
        parts, name = self.system.parts, self.name("spark")
        folder = self.folder / name
        folder.mkdir()
        with self.topic("squares", NUMBERS_PARTITIONS) as sink:
            topics = Topics((Topic(NUMBERS, NUMBERS_PARTITIONS),), sink, suffix=name)
            declared = self._pipelines[_JOBS[cell.guarantee]]
            if not isinstance(declared, SparkSubmitPipeline):
                sys.exit(f"{_JOBS[cell.guarantee]} is no Spark job")
            declared = declared.below(REPOSITORY)
            arguments = tuple(
                re.sub(r"(?<=^--batch-records=)\d+$", str(cell.batch_records), word) for word in declared.arguments
            )
            pipeline = pipeline_of(declared.model_copy(update={"arguments": arguments}), parts)
            found = endpoints(self.system, "spark")
            if pipeline is None:
                sys.exit(f"{_JOBS[cell.guarantee]} has no process")
            pipeline.prepare(found, topics)
            command = pipeline.command(found, topics, folder)
            with self.process(name, command.argv, command.env) as process:
                batches = _Batches(process.spec.log)
                wait_until(
                    lambda: batches.look() or not process.alive(),
                    within_s=_WITHIN_S,
                    reason=f"the first batch of {name}",
                    seen=lambda: _lines(process.spec.log)[-5:],
                )
                began_s = monotonic_s() + warm_s

                def enough() -> bool:
                    batches.look()
                    return monotonic_s() > began_s + seconds and batches.since(began_s) >= _BATCHES

                wait_until(
                    lambda: enough() or not process.alive(), within_s=_WITHIN_S, reason=f"{_BATCHES} batches", every_s=0.01
                )
                if not process.alive():
                    sys.exit(f"{name} has ended:\n{process.spec.log.read_text(encoding='utf-8')[-3000:]}")
        self._refuse_if_drained(NUMBERS, NUMBERS_PARTITIONS, sum(records for _, records in batches.ends))
        return rate(batches.ends, began_s)


class _Batches:
    """When the batches of a job ended, from its log, which is looked at all the time."""

    def __init__(self, log: Path) -> None:
        self.ends: list[tuple[float, int]] = []
        self._log = log
        self._read = 0

    def look(self) -> int:
        """How many there are by now."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if line.startswith(b'{"event": "batch"'):
                    self.ends.append((monotonic_s(), json.loads(line)["rows"]))
        return len(self.ends)

    def since(self, began_s: float) -> int:
        return sum(at_s >= began_s for at_s, _ in self.ends)


class _Pacer:
    """Sends records at a steady rate, each for the next partition; in transactions, where it has an interval."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, size: int, rate_per_s: float, transaction_s: float = 0.0
    ) -> None:
        self.rate_per_s = rate_per_s
        self._topic = topic
        self._partitions = partitions
        self._padding = bytes(size - _STAMP.size)
        self._transaction_s = transaction_s
        transactions = {"transactional.id": topic} if transaction_s else {}
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **transactions})

    def run(self, records: int) -> None:
        """Send so many records; each is stamped with the time at which it was due, whenever it leaves."""
        if self._transaction_s:
            self._producer.init_transactions(_SETTLED_S)
            self._producer.begin_transaction()
        sent, began_s = 0, monotonic_s()
        commit_s = began_s + self._transaction_s
        while sent < records:
            for number in range(sent, due(records, self.rate_per_s, monotonic_s() - began_s)):
                value = _STAMP.pack(number, began_s + number / self.rate_per_s) + self._padding
                self._producer.produce(self._topic, value, partition=number % self._partitions)
                sent += 1
            self._producer.poll(0)
            if self._transaction_s and monotonic_s() >= commit_s:
                self._producer.commit_transaction(_SETTLED_S)
                self._producer.begin_transaction()
                commit_s = monotonic_s() + self._transaction_s
            pause(_TURN_S)
        if self._transaction_s:
            self._producer.commit_transaction(_SETTLED_S)
        self._producer.flush(_SETTLED_S)


class _Reader:
    """Reads a topic in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        """Begin when the block is entered.

        Attributes of it: `arrived`, number -> when it arrived, and when it was due.
        """
        self.arrived: dict[int, tuple[float, float]] = {}
        self._from = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "isolation.level": isolation}
        self._stop = Event()
        self._thread = Thread(target=self._run, name=isolation, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(Consumer(self._settings | {"enable.auto.commit": False})) as consumer:
            consumer.assign(self._from)
            while not self._stop.is_set():
                message = consumer.poll(0.1)  # one at a time: a call for several waits for the last of them
                if message is not None and (stamp := message.value()) is not None and message.error() is None:
                    number, due_s = _STAMP.unpack_from(stamp)
                    self.arrived.setdefault(number, (monotonic_s(), due_s))


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()
