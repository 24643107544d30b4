"""A pipeline that is followed, by chance: however records, rows, markers, retention and starts fall, a sound copy is not wrong.

``PLANTED_EXAMPLES=1000`` tries a thousand pipelines of each kind.
"""

import os
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaos.audit.follow.options import Following
from tests.unit.audit.followed import PLAN, World

pytestmark = pytest.mark.timeout(3600)
SEEDS = st.integers(0, 2**32)
EXAMPLES = settings(max_examples=int(os.environ.get("PLANTED_EXAMPLES", "10")), deadline=None)


@dataclass
class Pipeline:
    """A pipeline at work: what it reads, and the batches that it writes, each in a transaction or not."""

    world: World
    random: Random
    partitions: int
    keys: int  # of so many; 0 for keys that never recur
    anywhere: bool
    late_s: float  # of a row after its record, at most
    records: list = field(default_factory=list)  # seconds, partition, text
    rows: list = field(default_factory=list)  # likewise, in the order of each source partition

    @classmethod
    def by_chance(cls, world, seed, *, before_s=4.0, late_s=6.0):
        """Begins before the follower, and goes on after it."""
        random = Random(seed)
        keys, anywhere = random.choice([0, 3, 8]), random.random() < 0.3
        made = cls(world, random, random.randint(1, 3), keys, anywhere, late_s)
        options = replace(world.plan.options, lasts=f"{random.randint(2, 9)}s")
        world.plan = replace(world.plan, options=options, routing="any" if anywhere else "same")
        now_s = dict.fromkeys(range(made.partitions), -before_s)
        done_s = dict(now_s)
        for number in range(random.randint(3, 60)):
            partition = random.randrange(made.partitions)
            now_s[partition] += random.expovariate(1.5)
            done_s[partition] = max(done_s[partition], now_s[partition] + late_s * random.random() ** 3)
            key = random.randrange(keys) if keys else number
            text = f"k{key}={random.randrange(3)}"
            made.records.append((now_s[partition], partition, text))
            made.rows.append((done_s[partition], random.randrange(made.partitions) if anywhere else partition, text))
        return made

    def plays(self):
        """All of it happens: before the follower, or while its clock goes on."""
        for log in self.world.logs.values():
            for partition in range(self.partitions):
                log.records[partition] = []
        self._play("source", self.records)
        self._play("sink", self.rows)

    def _play(self, side, those):
        log = self.world.logs[side]
        for at_s, partition, text in sorted(those, key=lambda one: one[0]):
            if at_s <= 0:
                log.write(partition, text)
                self._maybe_marked(log, partition)
            else:
                self.world.after(at_s, self._written, log, partition, text)

    def _written(self, log, partition, text):
        """In a transaction of some tenths of a second, or at once."""
        if partition not in log.open_from and self.random.random() < 0.3:
            log.open_from[partition] = len(log.records[partition])
            self.world.after(self.random.random(), self._committed, log, partition)
        log.write(partition, text)
        if partition not in log.open_from:
            self._maybe_marked(log, partition)

    def _committed(self, log, partition):
        log.records[partition].append(None)
        log.open_from.pop(partition, None)

    def _maybe_marked(self, log, partition):
        if self.random.random() < 0.2:
            log.records[partition].append(None)

    def cut(self, side, partition):
        """Retention removes the first records of a partition, as far as they were written by now."""
        log = self.world.logs[side]
        end = log.open_from.get(partition, len(log.records[partition]))
        log.low[partition] = max(log.low.get(partition, 0), self.random.randint(0, end))


@contextmanager
def played(seed, plan=PLAN, **how):
    """A world with a sound pipeline in it, and its clock."""
    with pytest.MonkeyPatch.context() as patch:
        yield Pipeline.by_chance(World(patch, plan), seed, **how)


def verdicts(found):
    return {name: verdict for name, (verdict, _, _) in found.items()}


# sound ---------------------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(SEEDS)
def test_a_sound_pipeline(seed):
    """Is VALID, and all of it was compared: it is waited for."""
    with played(seed) as pipeline:
        pipeline.plays()
        found = pipeline.world.followed()

    world = pipeline.world
    assert set(verdicts(found).values()) == {"VALID"}, world.said
    assert found["gaps"][2] >= sum(
        one is not None
        for partition, end in world.live._follow.gaps.end.ends.items()
        for one in world.logs["source"].records[partition][:end]
    )


@EXAMPLES
@given(SEEDS)
def test_a_sound_pipeline_whose_follower_is_started_again(seed):
    """It goes on with what it kept."""
    with (
        TemporaryDirectory() as folder,
        played(seed, replace(PLAN, options=Following(state=f"{folder}/state", window=1000))) as pipeline,
    ):
        world = pipeline.world
        pipeline.plays()
        first = world.followed()
        world.plan = replace(world.plan, options=replace(world.plan.options, lasts="9s"))
        second = world.followed()

    assert set(verdicts(first).values()) | set(verdicts(second).values()) == {"VALID"}, world.said


@EXAMPLES
@given(SEEDS, st.sampled_from(["source", "sink", "both"]), st.booleans())
def test_retention(seed, side, live):
    """Keys and rows recur; whatever is removed before or while it is read, a sound copy is never called wrong for certain."""
    with played(seed) as pipeline:
        pipeline.plays()
        for one in ("source", "sink") if side == "both" else (side,):
            for partition in range(pipeline.partitions):
                if live:
                    pipeline.world.after(pipeline.random.uniform(0, 8), pipeline.cut, one, partition)
                else:
                    pipeline.cut(one, partition)
        found = pipeline.world.followed()

    assert "INVALID" not in verdicts(found).values(), (found, pipeline.world.said)


@EXAMPLES
@given(SEEDS, st.sampled_from(["4s", "60s"]))
@example(139, "4s")  # a row is there at the begin, and its record in a transaction that is open
def test_a_late_start(seed, overdue):
    """Rows under way then answer records that were not read: never wrong for certain."""
    with played(seed, replace(PLAN, options=Following(begin="now", overdue=overdue)), late_s=1.5) as pipeline:
        pipeline.plays()
        found = pipeline.world.followed()

    assert "INVALID" not in verdicts(found).values(), (found, pipeline.world.said)


@EXAMPLES
@given(SEEDS)
def test_a_late_start_of_a_pipeline_that_is_far_behind(seed):
    """Rows of before the begin come longer than ``--overdue`` after it."""
    plan = replace(PLAN, options=Following(begin="now", overdue="60s", settle="40s"))
    with played(seed, plan, before_s=30.0, late_s=40.0) as pipeline:
        pipeline.plays()
        found = pipeline.world.followed()

    assert "INVALID" not in verdicts(found).values(), (found, pipeline.world.said)


@EXAMPLES
@given(SEEDS, st.sampled_from(["source", "sink"]))
def test_topics_created_anew(seed, side):
    """UNKNOWN, whatever is in the new topic."""
    with played(seed) as pipeline:
        world = pipeline.world
        pipeline.plays()

        def anew():
            log = world.logs[side]
            log.id, log.low, log.open_from = "2", {}, {}
            for partition in log.records:
                log.records[partition] = []
                log.write(partition, *(f"b{number}=1" for number in range(pipeline.random.randrange(60))))

        world.after(pipeline.random.uniform(0.1, 1.5), anew)
        found = world.followed()

    assert set(verdicts(found).values()) == {"UNKNOWN"}, (found, world.said)


@EXAMPLES
@given(SEEDS, st.sampled_from(["source", "sink"]))
@example(215, "source")  # what was written again is shorter than what was cut off
def test_logs_that_are_cut_off(seed, side):
    """An unclean election: rows that are written again, and records that are gone, are not wrong for certain."""
    with played(seed, replace(PLAN, options=Following(overdue="3s")), late_s=1.5) as pipeline:
        world = pipeline.world
        pipeline.plays()
        log = world.logs[side]

        def cut():
            if side == "source" and any(len(those) != world.live._follow.at[side][one] for one, those in log.records.items()):
                world.after(0.1, cut)  # what nobody but the pipeline has read
                return
            partition = pipeline.random.randrange(pipeline.partitions)
            end = pipeline.random.randint(0, len(log.records[partition]))
            gone = [one for one in log.records[partition][end:] if one is not None]
            del log.records[partition][end:]
            log.open_from.pop(partition, None)
            if world.live._follow.at[side].get(partition, 0) > end:  # as the client is told by the epoch of the leader
                world.live._readers[side].lost.add(partition)
                world.live._readers[side].rewritten.add(partition)
            if side == "sink":  # the pipeline writes again what it was told had failed
                again = [f"{identity.decode()}={value.decode()}" for identity, value in gone]
                world.after(1.2, log.write, partition, *again)

        world.after(pipeline.random.uniform(0.5, 6), cut)
        found = world.followed()

    assert "INVALID" not in verdicts(found).values(), (found, world.said)


# planted -------------------------------------------------------------------------------------------------------------------


def planted(seed, spoil, overdue="3s", late_s=1.5):
    """The findings for a pipeline that is sound but for one row; it is judged from its first record to its last."""
    with played(seed, replace(PLAN, options=Following(overdue=overdue)), late_s=late_s) as pipeline:
        world = pipeline.world
        spoil(pipeline)
        world.plan = replace(world.plan, options=replace(world.plan.options, lasts="100s"))
        pipeline.plays()
        found = world.followed()
    return found, world


@EXAMPLES
@given(SEEDS)
def test_a_row_that_never_comes(seed):
    """Is one gap, and nothing else."""
    found, world = planted(seed, lambda pipeline: pipeline.rows.pop(pipeline.random.randrange(len(pipeline.rows))))

    assert (found["gaps"][:2], verdicts(found)["duplicates"], verdicts(found)["values"]) == (
        ("INVALID", 1),
        "VALID",
        "VALID",
    ), world.said


@EXAMPLES
@given(SEEDS)
def test_a_row_that_does_not_come_before_the_end(seed):
    """While it is not overdue, it is not known whether it is lost: UNKNOWN, and one is counted."""
    found, world = planted(
        seed, lambda pipeline: pipeline.rows.pop(pipeline.random.randrange(len(pipeline.rows))), overdue="100m"
    )

    assert set(verdicts(found).items()) == {("duplicates", "VALID"), ("gaps", "UNKNOWN"), ("values", "VALID")}, world.said
    assert world.found["gaps"].counts["pending"] == 1


@EXAMPLES
@given(SEEDS)
def test_a_row_that_is_there_twice(seed):
    """Whenever the second one comes."""

    def twice(pipeline):
        at_s, partition, text = pipeline.random.choice(pipeline.rows)
        pipeline.rows.append((at_s + pipeline.random.uniform(0, 20), partition, text))

    found, world = planted(seed, twice)

    assert (found["duplicates"][:2], verdicts(found)["gaps"]) == (("INVALID", 1), "VALID"), world.said


@EXAMPLES
@given(SEEDS)
def test_a_row_that_nothing_demands(seed):
    """The row's identity may be unknown to the source, or known."""

    def phantom(pipeline):
        partition = pipeline.random.randrange(pipeline.partitions)
        text = pipeline.random.choice(["x=1", f"{pipeline.random.choice(pipeline.rows)[2]}7"])
        pipeline.rows.append((pipeline.random.uniform(-4, 40), partition, text))

    found, world = planted(seed, phantom)

    assert verdicts(found)["values"] == "INVALID", world.said


@EXAMPLES
@given(SEEDS)
def test_a_row_that_is_late(seed):
    """It is a gap for a while, which is taken back."""

    def late(pipeline):
        at_s, partition, text = pipeline.rows.pop()
        pipeline.rows.append((max(at_s, 0) + 20, partition, text))

    found, world = planted(seed, late)

    assert set(verdicts(found).values()) == {"VALID"}, world.said


@EXAMPLES
@given(SEEDS)
def test_a_duplicate_after_the_doubt_is_over(seed):
    """A source that begins above 0 excuses what may answer its first records, and not what comes long after."""

    def twice(pipeline):
        pipeline.records.append((1.0, 0, "last=1"))
        pipeline.rows.append((8.0, 0, "last=1"))
        pipeline.rows.append((40.0, 0, "last=1"))

    with played(seed, replace(PLAN, options=Following(overdue="3s")), late_s=1.5) as pipeline:
        world = pipeline.world
        pipeline.partitions, pipeline.anywhere = 1, False
        pipeline.records, pipeline.rows = ([(s, 0, t) for s, _, t in those] for those in (pipeline.records, pipeline.rows))
        twice(pipeline)
        world.plan = replace(world.plan, options=replace(world.plan.options, lasts="60s"), routing="same")
        pipeline.plays()
        world.logs["source"].low[0] = min(1, len(world.logs["source"].records[0]))
        found = world.followed()

    assert verdicts(found)["duplicates"] == "INVALID", (found, world.said)
