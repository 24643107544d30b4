"""Histories of transactions, as brokers and coordinators would leave them in their logs, and anomalies to plant in them.

A history has two source topics, which are filled beforehand, and applications that copy: each has a group, a transactional
id, partitions of its own to read, and writes to the same sinks as the others. What they do is interleaved by chance, with
transactions v1 and v2, aborted and fenced ones, repeated markers, and ones that write nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from verifiers.transactions.logs import (
    OFFSETS,
    STATES,
    Batch,
    Extent,
    Forgotten,
    Log,
    Logs,
    Position,
    Produced,
    Start,
    State,
    Unfenced,
    complete_from,
    table,
)

BEGAN_MS = 1_795_000_000_000
SOURCES, SINKS = ("orders", "returns"), ("totals", "alarms")
PARTITIONS = 2
_FILLED = 160

Turns = Iterator[None]


@dataclass
class Cluster:
    """The logs, and a clock that each write moves on."""

    random: Random
    now_ms: int = BEGAN_MS
    batches: dict[Log, list[Batch]] = field(default_factory=lambda: defaultdict(list))
    positions: list[Position] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    unfenced: list[Unfenced] = field(default_factory=list)
    produced: list[Produced] = field(default_factory=list)
    forgotten: list[Forgotten] = field(default_factory=list)
    visible: dict[Log, list[int]] = field(default_factory=lambda: defaultdict(list))
    low: dict[Log, int] = field(default_factory=dict)
    settled: int | None = None
    event_times: bool = False

    def end(self, log: Log) -> int:
        return self.batches[log][-1].last_offset + 1 if self.batches[log] else 0

    def append(self, log: Log, records: int, producer: tuple[int, int] | None, control: str | None = None) -> int:
        """A batch; its first offset."""
        self.now_ms += self.random.randint(1, 9)
        first = self.end(log)
        id_, epoch = producer or (-1, -1)
        at_ms = self.now_ms
        if self.event_times and control is None and log[0] in SINKS:
            at_ms = BEGAN_MS + self.random.randint(-10_000_000, 10_000_000)  # what the program gives its rows
        self.batches[log].append(Batch(*log, first, first + records - 1, records, id_, epoch, bool(producer), control, at_ms))
        return first

    def send(self, group: str, source: Log, position: int | None, producer: tuple[int, int] | None) -> None:
        """A position; groups that begin alike are in the same partition."""
        log = home(group)
        offset = self.append(log, 1, producer)
        self.positions.append(Position(log[1], offset, group, *source, position, self.now_ms))

    def start(self, group: str, source: Log, position: int) -> None:
        """A reader is given a position."""
        asked_ms = self.now_ms = self.now_ms + 1
        self.now_ms += 1
        self.starts.append(Start(group, *source, position, 3, "reader", asked_ms, self.now_ms))
        self.now_ms += 1

    def say(self, app: "App", state: str, named: Sequence[Log], epoch: int) -> None:
        """A record of the coordinator, which is the same for all."""
        self.now_ms += 1
        head = 0, self.states_end, app.name, app.producer_id, epoch, state
        times = app.started_ms, self.now_ms
        self.states += [State(*head, *log, *times) for log in named] or [State(*head, None, None, *times)]

    @property
    def states_end(self) -> int:
        return self.states[-1].offset + 1 if self.states else 0

    def fill(self) -> None:
        """Sources, with markers and aborted records in them."""
        numbers = count(9000)
        for log in [(topic, number) for topic in SOURCES for number in range(PARTITIONS)]:
            while self.end(log) < _FILLED:
                records, control = self.random.randint(1, 12), self.random.choice(["COMMIT", "COMMIT", "ABORT", None])
                producer = (next(numbers), 0) if control else None
                first = self.append(log, records, producer)
                if control != "ABORT":
                    self.visible[log] += range(first, first + records)
                if producer:
                    self.append(log, 1, producer, control)

    def logs(self) -> Logs:
        """As they are landed."""
        extents = [
            Extent(*log, complete_from(self.low.get(log, 0), self.end(log), batches), self.end(log), self.end(log))
            for log, batches in self.batches.items()
        ]
        begin = self.low.get((STATES, 0), 0)
        settled = self.states_end if self.settled is None else self.settled
        extents.append(Extent(STATES, 0, begin, settled, self.states_end))
        rows = [batch for batches in self.batches.values() for batch in batches]
        states = [one for one in self.states if one.offset >= begin]
        named: dict[str, Any] = {"extents": extents, "batches": rows, "positions": self.positions, "states": states}
        named |= {"starts": self.starts, "unfenced": self.unfenced}
        named |= {"produced": self.produced, "forgotten": self.forgotten}
        return Logs.of(**{name: table(name, some) for name, some in named.items()})


def home(group: str) -> Log:
    """The log that holds a group's positions."""
    return OFFSETS, int(group.endswith("b"))


@dataclass
class App:
    """An application, and the transaction that it has."""

    cluster: Cluster
    name: str
    producer_id: int
    group: str
    reads: list[Log]
    sinks: list[Log]
    v2: bool
    epoch: int = 0
    at: dict[Log, int] = field(default_factory=dict)
    named: list[Log] = field(default_factory=list)
    started_ms: int = -1
    ended: int = 0

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    def add(self, log: Log) -> None:
        """The coordinator takes a partition into the transaction, before anything is written to it."""
        if log not in self.named:
            if not self.named:
                self.started_ms = self.cluster.now_ms
            self.named.append(log)
            self.cluster.say(self, "Ongoing", self.named, self.epoch)

    def write(self, log: Log, records: int) -> int:
        self.add(log)
        first = self.cluster.append(log, records, self.producer)
        self.cluster.produced.append(Produced(self.name, self.cluster.now_ms))
        return first

    def move(self, source: Log, position: int | None) -> None:
        self.add(home(self.group))
        self.cluster.unfenced.append(Unfenced(self.group, self.producer_id, self.cluster.now_ms))
        self.cluster.send(self.group, source, position, self.producer)
        if position is not None:
            self.at[source] = position

    def end(self, control: str, *, flipped: Log | None = None, fenced: bool = False) -> None:
        """The coordinator decides, writes markers, and some of them twice."""
        if not self.named:
            return
        self.decide(control, fenced=fenced)
        for log in self.cluster.random.sample(self.named, len(self.named)):
            kind = {"COMMIT": "ABORT", "ABORT": "COMMIT"}[control] if log == flipped else control
            self.cluster.append(log, 1, self.producer, kind)
        for log in self.named if self.cluster.random.random() < 0.1 else ():
            if log != flipped:
                self.cluster.append(log, 1, self.producer, control)
        self.complete(control)

    def decide(self, control: str, *, fenced: bool = False) -> None:
        self.epoch += self.v2 or fenced
        for said in ("COMMIT", control) if self.cluster.random.random() < 0.1 else (control,):
            # the first one is in the log, and its coordinator was told that too few replicas have it
            self.cluster.say(self, f"Prepare{said.title()}", self.named, self.epoch)

    def complete(self, control: str) -> None:
        self.cluster.say(self, f"Complete{control.title()}", (), self.epoch)
        self.named, self.started_ms, self.ended = [], -1, self.ended + 1

    # turns

    def batch(self, exactly: int | None = None, *, control: str = "COMMIT", fenced: bool = False) -> Turns:
        """Read, write what was read (or so many rows), move, and end."""
        before = dict(self.at)
        chosen = self.cluster.random.sample(self.reads, self.cluster.random.randint(1, len(self.reads)))
        for source in chosen:
            read = self.read(source)
            yield
            for log, records in self.dealt(len(read) if exactly is None else exactly):
                self.write(log, records)
                yield
            if not read:
                continue
            if self.cluster.random.random() < 0.2:
                self.move(source, read[len(read) // 2])  # sent twice: the last counts
            self.move(source, read[-1] + 1)
            yield
        if self.cluster.random.random() < 0.2:
            self.add(self.cluster.random.choice(self.sinks))  # nothing is written to it
        self.end(control, fenced=fenced)
        if control == "ABORT":
            self.at = before

    def read(self, source: Log) -> list[int]:
        """Offsets of the next records."""
        there = [offset for offset in self.cluster.visible[source] if offset >= self.at.get(source, 0)]
        return there[: self.cluster.random.randint(1, 6)]

    def dealt(self, records: int) -> list[tuple[Log, int]]:
        """So many records in one or two sinks."""
        if records < 2:
            return [(self.cluster.random.choice(self.sinks), records)] if records else []
        one, other = self.cluster.random.sample(self.sinks, 2)
        part = self.cluster.random.randint(1, records - 1)
        return [(one, part), (other, records - part)]


@dataclass
class History:
    """A cluster, and the applications at work on it.

    Attributes:
        exact: whether each record makes one row; else some are filtered out.
    """

    cluster: Cluster
    apps: list[App]
    exact: bool

    def go_on(self, batches: int, of: Sequence[App] | None = None) -> None:
        """Each application has so many transactions, and their turns are interleaved."""
        random = self.cluster.random
        going = [self.some(app, batches) for app in (self.apps if of is None else of)]
        while going:
            one = random.choice(going)
            if next(one, self) is self:
                going.remove(one)

    def some(self, app: App, batches: int) -> Iterator[None]:
        for _ in range(batches):
            for source in app.reads:
                app.cluster.start(app.group, source, app.at.get(source, -1))
            kind = app.cluster.random.random()
            rows = None if self.exact else app.cluster.random.randint(0, 1)
            if kind < 0.15:
                yield from app.batch(rows, control="ABORT")
            elif kind < 0.25:
                yield from app.batch(rows, control="ABORT", fenced=True)
            else:
                yield from app.batch(rows)

    def warm(self, app: App) -> Log:
        """A partition in which the application has a position that is neither at its begin nor near its end."""
        source = app.cluster.random.choice(app.reads)
        read = [offset for offset in app.cluster.visible[source] if offset >= app.at.get(source, 0)][:12]
        app.write(app.sinks[0], len(read))
        app.move(source, read[-1] + 1)
        app.end("COMMIT")
        return source


def history(seed: int) -> History:
    """Some applications that have done nothing yet."""
    random = Random(seed)
    cluster = Cluster(random)
    cluster.fill()
    every = [(topic, number) for topic in SOURCES for number in range(PARTITIONS)]
    random.shuffle(every)
    sinks = [(topic, number) for topic in SINKS[: random.randint(1, 2)] for number in range(PARTITIONS)]
    groups = random.choice([["a"], ["a"], ["a", "b"], ["a", "c"]])
    apps = []
    for number in range(random.randint(len(groups), 4)):
        reads = every[number::4] if number else [every[0]]
        apps.append(
            App(cluster, f"app-{number}", 100 + number, groups[number % len(groups)], reads, sinks, random.random() < 0.5)
        )
    return History(cluster, apps, exact=random.random() < 0.5)


# what is planted: each returns the anomaly, and the partition and offset where it must be found -------------------------------

Planted = tuple[str, int, int | None]


def without_positions(one: History, app: App) -> Planted:
    one.warm(app)
    log = app.cluster.random.choice(app.sinks)
    first = app.write(log, app.cluster.random.randint(1, 5))
    app.end("COMMIT")
    return "output without positions", log[1], first


def without_positions_though_added(one: History, app: App) -> Planted:
    """AddOffsetsToTxn came, TxnOffsetCommit did not: the log of positions has a marker only."""
    one.warm(app)
    first = app.write(app.sinks[0], 2)
    app.add(home(app.group))
    app.end("COMMIT")
    return "output without positions", app.sinks[0][1], first


def step_back(one: History, app: App) -> Planted:
    source = one.warm(app)
    back = app.at[source] - app.cluster.random.randint(1, 9)
    app.write(app.sinks[0], 1)
    app.move(source, back)
    app.end("COMMIT")
    return "step back", source[1], back


def standing_still(one: History, app: App) -> Planted:
    source = one.warm(app)
    log = app.cluster.random.choice(app.sinks)
    first = app.write(log, 3)
    app.move(source, app.at[source])
    app.end("COMMIT")
    return "standing still", log[1], first


def torn(one: History, app: App) -> Planted:
    source = one.warm(app)
    read = app.read(source)
    log, other = app.cluster.random.sample(app.sinks, 2)
    first = app.write(log, 1)
    if len(read) > 1:
        app.write(other, len(read) - 1)
    app.move(source, read[-1] + 1)
    app.end("COMMIT", flipped=log)
    return "torn", log[1], first


def hanging(one: History, app: App) -> Planted:
    """A write that comes after the end of its transaction; a v1 producer that goes on would end it."""
    one.warm(app)
    one.apps.remove(app)
    log = app.cluster.random.choice(app.sinks)
    return "hanging", log[1], app.cluster.append(log, 2, app.producer)


def never_marked(one: History, app: App) -> Planted:
    """The coordinator holds a transaction for completed whose marker never came to one of its logs."""
    source = one.warm(app)
    one.apps.remove(app)
    read = app.read(source)
    log, other = app.cluster.random.sample(app.sinks, 2)
    first = app.write(log, len(read))
    app.add(other)
    app.move(source, read[-1] + 1)
    app.decide("COMMIT")
    for named in app.named:
        if named != log:
            app.cluster.append(named, 1, app.producer, "COMMIT")
    app.complete("COMMIT")
    return "hanging", log[1], first


def moved_outside(one: History, app: App) -> Planted:
    source = one.warm(app)
    before = app.at[source]
    app.at[source] = before + app.cluster.random.randint(1, 9)
    app.cluster.send(app.group, source, app.at[source], None)
    return "moved outside", source[1], before


def set_back_outside(one: History, app: App) -> Planted:
    source = one.warm(app)
    app.at[source] -= app.cluster.random.randint(1, 9)
    app.cluster.send(app.group, source, app.at[source], None)
    return "set back outside", source[1], app.at[source]


def overtaken(one: History, app: App) -> Planted:
    """A second instance commits between the first one's positions and its end."""
    source = one.warm(app)
    before, read = app.at[source], app.read(source)
    other = replace(app, name=f"{app.name}-new", producer_id=app.producer_id + 50, at=dict(app.at), named=[], epoch=0)
    app.write(app.sinks[0], len(read))
    app.move(source, read[-1] + 1)
    other.write(app.sinks[1], len(read))
    other.move(source, read[-1] + 1)
    other.end("COMMIT")
    app.end("COMMIT")
    assert before < read[-1] + 1
    return "overtaken", source[1], read[-1] + 1


def surplus(one: History, app: App) -> Planted:
    source = one.warm(app)
    read = app.read(source)
    first = app.write(app.sinks[1], len(read) + app.cluster.random.randint(1, 3))
    app.move(source, read[-1] + 1)
    app.end("COMMIT")
    return "surplus", app.sinks[1][1], first


def deficit(one: History, app: App) -> Planted:
    source = one.warm(app)
    read = [offset for offset in app.cluster.visible[source] if offset >= app.at[source]][:4]
    first = app.write(app.sinks[1], 3)
    app.move(source, read[-1] + 1)
    app.end("COMMIT")
    return "deficit", app.sinks[1][1], first


WITHOUT_COUNTS = (
    without_positions,
    without_positions_though_added,
    step_back,
    standing_still,
    torn,
    hanging,
    never_marked,
    moved_outside,
    set_back_outside,
    overtaken,
)
WITH_COUNTS = (surplus, deficit)
