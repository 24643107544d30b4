"""How far a run is: what is left to do, where logs end, and when an output has come to rest; brokers are played."""

from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from chaos.common.errors import DeadlineError
from chaos.common.events import FaultHealed, FaultInjected, FaultStepBegan, ProgressSampled
from chaos.common.history import Event
from chaos.contract.base import Topic
from chaos.engine import ends
from chaos.engine.ends import OfGroup, Rest
from chaos.scenario.sinks.delta import DeltaTable
from tests.unit.engine.played import TOPICS_OF_PIPELINE, FakeEnds, FakeManagedProcess, run_plan, run_processes
from tests.unit.wording import keep, raised
from verifiers.base import Bounds

SOURCE, SINK = Topic("orders", 2), Topic("sums", 1)
BETWEEN = "app-sums-repartition"


@dataclass
class Played:
    """Brokers with these logs, and a group that reads these topics: name -> positions."""

    ends: dict
    groups: dict = field(default_factory=dict)
    markers: set = field(default_factory=set)

    def offsets(self, topic, _partitions):
        return {number: Bounds(0, end, end) for number, end in enumerate(self.ends[topic])}

    def has_records(self, *place):
        return place not in self.markers

    def reads(self, _group):
        return {topic: (len(self.ends[topic]), positions) for topic, positions in self.groups.items()}


def of_group(kafka):
    """The positions of a group that is past its source."""
    return OfGroup(lambda: {0: 50, 1: 50}, kafka, "app", frozenset({"orders"}))


@pytest.mark.parametrize(
    ("positions", "left"),
    [
        ({0: 7, 1: 9}, {}),
        ({0: 7, 1: 3}, {f"behind in {BETWEEN}-1": 6}),
        ({}, {f"behind in {BETWEEN}-0": 7, f"behind in {BETWEEN}-1": 9}),
        ({0: 7, 1: 8}, {}),  # nothing but a marker is behind that
    ],
)
def test_what_is_between_source_and_sink_is_left_to_be_read(positions, left):
    """A group is at its end when it is at that of every topic that it reads, those of its own among them."""
    kafka = Played({"orders": [50, 50], "sums": [4], BETWEEN: [7, 9]}, {"orders": {0: 50}, BETWEEN: positions})
    kafka.markers.add((BETWEEN, 1, 8))

    assert ends.lag(kafka, [SOURCE], SINK, of_group(kafka)) == left


def test_a_topic_that_the_group_was_seen_to_read_is_not_forgotten():
    """While it rebalances, and before it has committed anything there, no broker names it."""
    kafka = Played({"orders": [50, 50], "sums": [4], BETWEEN: [7, 9]}, {BETWEEN: {}})
    positions = of_group(kafka)
    assert ends.lag_beside(kafka, positions)

    kafka.groups.clear()

    assert ends.lag_beside(kafka, positions) == {f"behind in {BETWEEN}-0": 7, f"behind in {BETWEEN}-1": 9}


def test_the_sources_come_first():
    """A program that is behind in its source is not asked for more: each question costs a broker work."""
    kafka = Played({"orders": [50, 51], "sums": [4]})
    kafka.reads = lambda _group: pytest.fail("asked")

    assert ends.lag(kafka, [SOURCE], SINK, of_group(kafka)) == {"behind in orders-1": 1}


@pytest.mark.parametrize("seed", range(200))
def test_records_that_are_anywhere_on_their_way_are_always_left(seed):
    """Topics, partitions and positions by chance: nothing is left exactly where every position is at its end."""
    rng = Random(seed)
    names = [f"app-{number}-repartition" for number in range(rng.randrange(1, 4))]
    logs = {name: [rng.randrange(1, 500) for _ in range(rng.randrange(1, 5))] for name in names}
    groups = {name: dict(enumerate(of)) for name, of in logs.items()}
    behind = {(name, number) for name, of in logs.items() for number in range(len(of)) if rng.random() < 0.2}
    for name, number in behind:
        groups[name][number] = rng.randrange(logs[name][number])
    kafka = Played({"orders": [50, 50], "sums": [4], **logs}, groups)

    left = ends.lag(kafka, [SOURCE], SINK, of_group(kafka))

    assert left == {f"behind in {name}-{number}": logs[name][number] - groups[name][number] for name, number in behind}


def test_what_is_behind_is_told_in_words():
    """The text names the first of many partitions."""
    assert ends.told({"behind in orders-2": 500, "open in sums-0": 3}) == "behind in orders-2: 500, open in sums-0: 3"
    assert ends.told({f"behind in orders-{number}": 1 for number in range(11)}).endswith("orders-7: 1, and 3 more")


@pytest.fixture
def clock(monkeypatch):
    """A clock that is put forward."""
    now = [100.0]
    monkeypatch.setattr(ends.clock, "monotonic_s", lambda: now[0])
    return now


def looks(clock, rest, *lines):
    """The answer of a rest at each of these moments: (second, end of the output, records that it lacks)."""
    said = []
    for second, there, lacks in lines:
        clock[0] = 100.0 + second
        said.append(rest.missing(there, lacks))
    return said


def test_a_pipeline_without_positions_is_done_when_its_output_rests(clock):
    """For a short while if it has as many records as were sent, else for as long as a standstill may last."""
    rest = Rest(5.0, 60.0, says_missing=True)

    said = looks(clock, rest, (0, 20, 30), (59, 20, 30), (59.5, 50, 0), (64, 50, 0), (64.2, 51, -1), (69.3, 51, -1))

    assert [list(one.values()) for one in said[:4]] == [[30], [30], [50], [50]]
    assert [list(one.values()) for one in said[4:]] == [[51], []], "one of them is there twice"
    assert said[0].keys() == said[1].keys() != said[2].keys() == said[3].keys() == said[4].keys()
    keep("\n".join([*said[0], *said[2]]))
    assert looks(clock, rest, (70, 20, 30), (131, 20, 30))[-1] == {}


def test_an_output_of_which_nothing_is_known_rests_as_an_incomplete_one(clock):
    """A filter lets some of the records pass, and nobody says how many."""
    said = looks(clock, Rest(0.5, 4.0), (0, 20, None), (3.9, 20, None), (4.0, 20, None))

    assert [bool(one) for one in said] == [True, True, False]


@pytest.mark.usefixtures("clock")
def test_an_output_that_grows_by_the_clock_is_not_waited_for_until_it_stands_still(clock):
    """It never does: from the first look on, the same time is waited as for an output that may still lack rows."""
    said = looks(clock, Rest(0.5, 4.0, by_the_clock=True), (0, 20, None), (2.0, 21, None), (3.9, 22, None), (4.0, 23, None))

    assert [bool(one) for one in said] == [True, True, True, False]


def test_how_long_it_stood_still_before_the_first_look_counts():
    """A sampler has watched it."""
    assert Rest(0.5, 4.0).missing(20, 7, stood_s=4.0) == {}
    assert Rest(0.5, 4.0).missing(20, 7, stood_s=3.9) != {}


def at(second, value):
    return Event(int(10 * second), int(1000 * second), float(second), value)


def grown(second, end):
    return at(second, ProgressSampled(written=99, committed=0, total=99, end=end))


@pytest.mark.parametrize(
    ("events", "gap_s"),
    [
        ([], 0),
        ([grown(0, 0), grown(9, 5)], 0),  # it has begun: that is no gap between two growths
        ([grown(9, 5), grown(10, 8), grown(13, 8), grown(14, 9)], 4),
        ([grown(1, 5), grown(2, 4), grown(3, 6)], 2),  # a new leader puts an end back for a moment
        ([grown(1, 5), at(2, FaultInjected(fault="a")), grown(30, 9), at(31, FaultHealed(fault="a")), grown(60, 12)], 0),
        (
            [
                grown(1, 5),
                at(2, FaultStepBegan(fault="a", step="inject")),
                at(3, FaultHealed(fault="a")),
                grown(40, 9),
                grown(42, 12),
            ],
            2,
        ),
    ],
)
def test_what_is_usual_is_seen_while_nothing_is_broken(events, gap_s):
    """A pause under a fault does not show how a program usually writes."""
    assert ends.usual_gap_s(events) == gap_s


@pytest.mark.parametrize(
    ("gaps_s", "within_s", "rests_s"),
    [([0.1, 0.2], 180.0, 1.5), ([4, 2], 180.0, 6.0), ([100], 180.0, 60.0), ([100], 30.0, 24.0)],
)
def test_a_program_is_waited_for_as_it_writes(gaps_s, within_s, rests_s):
    """A little longer than it usually took; never as long as the drain that waits for it."""
    seconds = [sum(gaps_s[:number]) for number in range(len(gaps_s) + 1)]

    @dataclass
    class FakeHistory:
        def events(self):
            return [grown(second, 5 + number) for number, second in enumerate(seconds)]

    assert ends.rest_of(FakeHistory(), within_s).incomplete_s == pytest.approx(rests_s)


@pytest.mark.parametrize("seed", range(300))
def test_a_program_that_writes_late_is_never_called_done_before_its_last_row(seed, clock):
    """Its positions are at the end, and it goes on as it did: rows come after gaps by chance, none longer than usual."""
    rng = Random(seed)
    usual_s = rng.uniform(0.05, 20)
    rest = Rest(0.5, max(1.5, 1.5 * usual_s))
    there, total, second = 0, rng.randrange(1, 60), 0.0
    while there < total:
        ends_s = second + rng.uniform(0, usual_s)
        while second < ends_s:
            clock[0] = 100.0 + second
            assert rest.missing(there, total - there), "done, with rows to come"
            second += 0.05
        there = min(total, there + rng.randrange(1, 9))

    quiet = looks(clock, rest, *((second + tenth / 10, there, 0) for tenth in range(8)))
    assert quiet[0], "it has just grown"
    assert quiet[-1] == {}, "it is complete, and rests"


# of a run --------------------------------------------------------------------------------------------------------------


def test_ends_and_positions_are_of_one_moment():
    """Positions that are committed meanwhile may be above the ends, so the ends are read again."""
    positions = iter([{0: 1}, {0: 2}, {0: 2}, {0: 2}])

    answer = ends.settled(FakeEnds({"sink": "ends of sink"}), [Topic("sink", 3)], lambda: next(positions))

    assert answer == ({"sink": "ends of sink"}, {0: 2})


def test_a_pipeline_that_never_rests(monkeypatch):
    """It cannot be observed, and the error says so."""
    monkeypatch.setattr(ends, "_SETTLES_WITHIN_S", 0.2)
    positions = ({0: number} for number in range(1000))

    with raised(DeadlineError):
        ends.settled(FakeEnds({"sink": {}}), [Topic("sink", 3)], lambda: next(positions))


def held_back(times):
    """Positions of a group whose member was stopped in a transaction: its coordinator gives them at the last of these times."""
    looks = iter(range(times))

    def reads(_group):
        if next(looks) < times - 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return {}

    logs = FakeEnds({"sink": {}})
    logs.reads = reads
    return logs, OfGroup(lambda: {0: 100}, logs, "g", frozenset({"source"}))


def test_positions_that_a_transaction_holds_back_are_waited_for():
    """A timer begins a transaction at any time, so a program may be stopped in one."""
    logs, positions = held_back(times=4)

    assert ends.settled(logs, [Topic("sink", 1)], positions)[1] == {0: 100}


def test_a_transaction_that_does_not_end(monkeypatch):
    """The error says what holds the positions back; the limit is longer than the timeout that clients have by default."""
    assert ends._ANSWERS_WITHIN_S > 60 + 10
    monkeypatch.setattr(ends, "_ANSWERS_WITHIN_S", 0.2)
    logs, positions = held_back(times=1000)

    with raised(DeadlineError, "transaction"):
        ends.settled(logs, [Topic("sink", 1)], positions)
    assert not ends.can_be_read(logs, positions)


def test_positions_that_are_certain_can_be_read():
    logs, positions = held_back(times=2)

    assert ends.can_be_read(logs, positions)
    assert ends.can_be_read(logs, None)


def test_what_is_left_is_unread_records_and_open_transactions():
    """By partition, and only where something is left."""
    logs = {
        "source": {0: Bounds(0, 10, 10), 1: Bounds(0, 10, 12), 2: Bounds(0, 0, 0)},
        "sink": {0: Bounds(0, 7, 9), 1: Bounds(0, 5, 5), 2: Bounds(0, 0, 0)},
    }

    assert ends.lag(FakeEnds(logs), [Topic("source", 3)], Topic("sink", 3), lambda: {0: 10, 1: 8}) == {
        "open in sink-0": 2,
        "behind in source-1": 2,
    }


def test_markers_are_not_left_to_be_read():
    """A consumer that has committed the offset after the last record is through, though a marker follows."""
    logs = FakeEnds({"source": {0: Bounds(0, 101, 101), 1: Bounds(0, 51, 51)}, "sink": {}}, markers={("source", 0, 100)})

    def left(**positions):
        return ends.lag(logs, [Topic("source", 2)], Topic("sink", 1), lambda: {0: positions["first"], 1: positions["second"]})

    assert left(first=100, second=51) == {}
    assert left(first=100, second=50) == {"behind in source-1": 1}
    assert left(first=99, second=51) == {"behind in source-0": 2}


def test_what_has_expired_is_not_left_to_be_read():
    """A pipeline that has read nothing of a partition is behind in what there is of it."""
    logs = FakeEnds({"source": {0: Bounds(90, 101, 101)}, "sink": {}}, markers={("source", 0, 90)})

    assert ends.lag(logs, [Topic("source", 1)], Topic("sink", 1), dict) == {}


def test_a_loader_alone_leaves_nothing_but_its_open_transactions():
    """There is no pipeline whose positions could be behind."""
    assert ends.lag(FakeEnds({"source": {0: Bounds(0, 10, 10)}}), [Topic("source", 3)], Topic("source", 3), None) == {}


def test_a_table_grows_by_the_records_that_its_pipeline_is_through_with(tmp_path):
    """Its rows stay when the pipeline goes back, and while a fault has removed the checkpoint."""
    asked = iter([{0: 3, 1: 2}, {0: 9, 1: 2}, {0: 3, 1: 2}, OSError("removed"), {0: 9, 1: 9}])

    def positions():
        found = next(asked)
        if isinstance(found, OSError):
            raise found
        return found

    end = ends.written(replace(run_plan(tmp_path), table=DeltaTable(delta="/run/large")), FakeEnds({}), positions)

    assert [end(IsolationLevel.READ_COMMITTED) for _ in range(5)] == [5, 11, 11, 11, 18]


@pytest.mark.parametrize(
    ("loads", "position", "hw", "through"),
    [(False, 100, 60, True), (True, 100, 60, False), (False, 99, 60, False), (False, 100, 61, False)],
)
def test_a_pipeline_is_through_when_it_is_past_all_that_was_loaded(history, tmp_path, loads, position, hw, through):
    """However little it has written: what it is past and has not written, it has lost. An open transaction may still end."""
    logs = FakeEnds({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, 60, hw)}})
    loader = FakeManagedProcess(SimpleNamespace(alive=lambda: loads))
    of_pipeline = replace(run_plan(tmp_path), topics=TOPICS_OF_PIPELINE, pipeline=SimpleNamespace())
    processes = run_processes(history, tmp_path, loader=loader, pipeline=FakeManagedProcess())

    assert ends.is_through(of_pipeline, logs, processes, lambda: {0: position}) is through


@pytest.mark.parametrize("failure", [KafkaException(KafkaError(KafkaError._TIMED_OUT)), OSError("removed")])
def test_whether_it_is_through_may_not_be_known(history, tmp_path, failure):
    """A broker that does not answer now, or a checkpoint that is gone; and a pipeline that has no positions."""
    logs, processes = FakeEnds({}, [failure]), run_processes(history, tmp_path, loader=FakeManagedProcess())

    assert not ends.is_through(run_plan(tmp_path), logs, processes, lambda: {0: 100})
    assert not ends.is_through(run_plan(tmp_path), FakeEnds({}), processes, None)


def test_positions_say_nothing_of_the_sink_while_records_are_between():
    """Records in a topic of the pipeline's own are neither lost nor written yet."""
    logs = FakeEnds({"g-sums-repartition": {0: Bounds(0, 9, 9)}, "sink": {}})
    reads = {"g-sums-repartition": (1, {0: 7})}
    logs.reads = lambda _group: reads
    positions = ends.OfGroup(lambda: {0: 100}, logs, "g", frozenset({"source"}))
    sink = [Topic("sink", 1)]

    assert ends.settled(logs, sink, positions)[1] == {}
    reads["g-sums-repartition"] = (1, {0: 9})
    assert ends.settled(logs, sink, positions)[1] == {0: 100}
    assert ends.settled(logs, sink, None)[1] == {}
