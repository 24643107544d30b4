"""Two topics that are followed without a cluster: logs that grow as a test says, brokers that answer for them, and a clock."""

from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from chaos.audit.follow import live, openmetrics
from chaos.audit.follow.matching import Follow
from chaos.audit.follow.options import Following, Plan
from chaos.audit.follow.reading import Ends
from chaos.audit.follow.rows import Mark, Side
from chaos.audit.follow.state_file import SavedState
from chaos.audit.logs import Topics
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from verifiers.base import Bounds

PLAN = Plan(Topics("h:1", ("orders",), ("squares",)), "key", "identity", "same", Following(lasts="5s"))
AT_ONCE = 50  # records of one read
STEP_MS = 20


@dataclass
class Log:
    """A topic: the records of each partition, or None for a marker, and where it begins."""

    records: dict = field(default_factory=lambda: defaultdict(list))
    low: dict = field(default_factory=dict)
    open_from: dict = field(default_factory=dict)  # the first offset of an open transaction
    id: str = "1"
    forbidden: bool = False

    def bounds(self, partition):
        end = len(self.records[partition])
        return Bounds(self.low.get(partition, 0), self.open_from.get(partition, end), end)

    def write(self, partition, *texts):
        for text in texts:
            identity, _, value = text.partition("=")
            self.records[partition].append((identity.encode(), value.encode()))


class World:
    """Two topics that are followed, a clock that goes on when it is looked at, and what happens when."""

    def __init__(self, monkeypatch, plan=PLAN, kept=None):
        self.now_ms, self.said = 1_000_000, []
        self.logs: dict[Side, Log] = {"source": Log(), "sink": Log()}
        self.compacts = ""
        self.plan, self.positions, self.happens, self.answers, self.kept = plan, None, [], True, kept
        for log in self.logs.values():
            log.records[0] = []
        monkeypatch.setattr("chaos.common.clock.now_ms", self.tick)

    def tick(self):
        self.now_ms += STEP_MS
        for event in [one for one in self.happens if one[0] <= self.now_ms]:
            self.happens.remove(event)
            event[1]()
        return self.now_ms

    def after(self, seconds, act, *args):
        self.happens.append((self.now_ms + 1000 * seconds, lambda: act(*args)))

    def ends(self, mark):
        asked_ms = self.tick()
        bounds: dict[Side, Any] = {
            side: {one: log.bounds(one) for one in sorted(log.records)} for side, log in self.logs.items()
        }
        names: dict[Side, str] = {"source": "orders", "sink": "squares"}
        numbers: dict[Side, Any] = {side: {names[side]: {one: one for one in bounds[side]}} for side in names}
        ids = {names[side]: log.id for side, log in self.logs.items()}
        return Ends(asked_ms, mark, bounds, numbers, self.positions, ids)

    def ask(self, mark):
        future: Future[Ends] = Future()
        if self.answers:
            future.set_result(self.ends(mark))
        else:
            future.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return future

    def compacted(self, numbers):
        return "is compacted" if self.compacts in numbers else ""

    def followed(self, stop=None, at_once=None):
        """Follow to the end; verdict and count of each finding."""
        first, follow = self.ends(Mark(0, {})), None
        kept = self.kept or SavedState(self.plan, "c")
        follow = kept.load()
        begun, follow = follow is not None, follow or Follow(self.plan.asked)
        if not begun:
            live._begin(follow, first, self.plan)
        brokers: Any = self
        live._doubt_compacted(follow, first, brokers)
        readers: dict[Side, Any] = {side: Reader(side, log) for side, log in self.logs.items()}
        self.live = live._Live(self.plan, follow, readers, brokers, first, openmetrics.Page(), kept, self.said.append)
        self.live.go_on(begun=begun)
        self.live.until(stop or Event())
        self.live.end(at_once or Event())
        self.found = {one.verifier: one for one in self.live.result()[0]}
        return {name: (one.verdict.name, one.count, one.checked) for name, one in self.found.items() if one.asked}


class Reader:
    """Gives what is there, a few records at a time."""

    def __init__(self, side, log):
        self.side, self.log, self.lost, self.rewritten = side, log, set(), set()

    def assign(self, _numbers, _at):
        self.lost, self.rewritten = set(), set()

    def read(self, follow):
        """All at one moment: a real client notices by the epoch if the log is cut off between a read and its end."""
        now_ms, at, rows, ended = clock.now_ms(), follow.at[self.side], [], []
        for partition, place in list(at.items()):
            bounds = self.log.bounds(partition)
            if self.log.forbidden:
                raise InconclusiveError(f"the {self.side} cannot be read: not authorized")
            if not bounds.low <= place <= bounds.hw:
                self.lost.add(partition)
                continue
            own = self.log.records[partition][place : min(bounds.lso, place + AT_ONCE)]
            rows += [(partition, place + number, *one) for number, one in enumerate(own) if one is not None]
            if place + len(own) >= bounds.lso:
                ended.append((partition, bounds.lso))
        take = follow.read_source if self.side == "source" else follow.read_sink
        take(rows, now_ms)
        for partition, offset in ended:
            follow.reached(self.side, partition, offset)
        return len(rows)
