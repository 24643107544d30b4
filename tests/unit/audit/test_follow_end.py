"""How a follower ends, and what it does when topics are not what they were: both logs and the brokers are played."""

import json
import re
from dataclasses import replace
from threading import Event

import numpy as np
import pytest

from chaos.audit.follow.matching import Follow
from chaos.audit.follow.options import Following
from chaos.audit.follow.state_file import SavedState
from chaos.audit.logs import AuditUsageError
from chaos.common.errors import InconclusiveError
from tests.unit.audit.followed import PLAN, World
from tests.unit.wording import keep, named


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


# the end -------------------------------------------------------------------------------------------------------------------


def test_a_pipeline_that_is_dead(world):
    """One row of a thousand records is there: what is not overdue when the wait is over is UNKNOWN, and is counted."""
    world.logs["source"].write(0, *(f"k{number}=1" for number in range(1000)))
    world.logs["sink"].write(0, "k0=1")

    assert world.followed() == {"duplicates": ("VALID", 0, 1), "gaps": ("UNKNOWN", 0, 1), "values": ("VALID", 0, 1)}
    assert "999 " in keep(world.found["gaps"].note)
    assert any("ending: waiting up to 15s for rows of records that were read" in line for line in world.said)


def test_a_group_that_stands_still(world):
    """Records that it is not past are pending, however long overdue: UNKNOWN."""
    world.plan = replace(PLAN, options=Following(lasts="20s", overdue="5s"))
    world.positions = {0: 1}
    world.logs["source"].write(0, *(f"k{number}=1" for number in range(1000)))
    world.logs["sink"].write(0, "k0=1")

    assert world.followed()["gaps"] == ("UNKNOWN", 0, 1)
    assert "999 " in keep(world.found["gaps"].note)


def test_a_pipeline_that_is_a_little_behind(world):
    """It is waited for: what came before the end is answered after it, while more comes, which is not asked for."""
    source, sink = world.logs["source"], world.logs["sink"]
    for second in range(40):
        world.after(second, source.write, 0, f"a{second}=1", f"b{second}=1")
        world.after(second + 6, sink.write, 0, f"b{second}=1", f"a{second}=1")

    found = world.followed()

    assert {verdict for verdict, _, _ in found.values()} == {"VALID"}
    assert found["gaps"][2] == 12
    assert len(world.live._follow.outstanding) > 0
    assert world.now_ms < 1_000_000 + 15_000


def test_the_wait_is_bounded_and_as_long_as_it_is_asked_to_be(world):
    """A pipeline that takes longer than ``--settle`` is UNKNOWN; one that takes less is VALID."""

    def late(settle):
        world.plan = replace(PLAN, options=Following(lasts="5s", settle=settle))
        world.logs["source"].records[0], world.logs["sink"].records[0] = [], []
        world.logs["source"].write(0, "a=1", "b=1")
        world.logs["sink"].write(0, "a=1")
        world.after(25, world.logs["sink"].write, 0, "b=1")
        return world.followed()["gaps"]

    assert late("15s") == ("UNKNOWN", 0, 1)
    world.happens.clear()
    assert late("30s") == ("VALID", 0, 2)


def test_another_signal_ends_the_wait(world):
    """Pending records are UNKNOWN, even if the group is past them, because the wait for their rows ended."""
    world.plan, world.positions = replace(PLAN, options=Following(settle="50s")), {0: 2}
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "a=1")
    stop, at_once = Event(), Event()
    world.after(5, stop.set)
    world.after(10, at_once.set)

    assert world.followed(stop, at_once)["gaps"] == ("UNKNOWN", 0, 1)
    assert world.now_ms < 1_000_000 + 12_000


def test_what_the_group_is_past_is_lost(world):
    """Its rows were there, by its own account, before the sink was read to its end: INVALID once they were waited for."""
    world.positions = {0: 2}
    world.logs["source"].write(0, "a=1", "b=1", "c=1")
    world.logs["sink"].write(0, "a=1")

    assert world.followed()["gaps"] == ("INVALID", 1, 2)
    assert world.found["gaps"].counts == {"overdue": 0, "overtaken": 0, "pending": 1, "answered late": 0, "lost": 1}
    assert [one.anomaly for one in world.found["gaps"].examples] == ["lost"]


def test_a_position_that_comes_after_the_end_makes_nothing_lost(world):
    """Only what the group was past when the ends were fixed was waited for."""
    world.positions = {0: 1}
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "a=1")

    def commit():
        world.positions = {0: 2}

    world.after(15, commit)

    assert world.followed()["gaps"] == ("UNKNOWN", 0, 1)


def test_what_is_overdue_is_wrong_though_the_end_waits(world):
    """A gap is a gap, with or without records that are pending."""
    world.plan = replace(PLAN, options=Following(lasts="10s", overdue="4s"))
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "b=1")
    world.after(9, world.logs["source"].write, 0, "c=1")

    assert world.followed()["gaps"] == ("INVALID", 2, 3)


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_transaction_that_stays_open(world, side):
    """Its rows, and those after it, are unread: UNKNOWN; rows that it may hold are not certainly missing."""
    world.plan = replace(PLAN, options=Following(lasts="10s", overdue="4s"))
    for log in world.logs.values():
        log.write(0, "a=1", "b=1")
    world.logs[side].open_from[0] = 1

    found = world.followed()

    assert {verdict for verdict, _, _ in found.values()} == {"UNKNOWN"}
    topic = {"source": "orders", "sink": "squares"}[side]
    named(world.found["values"].note, "transaction", f"partition 0 of {topic}: ")


def test_a_transaction_that_ends_in_time(world):
    """Is waited for."""
    for log in world.logs.values():
        log.write(0, "a=1", "b=1")
    world.logs["sink"].open_from[0] = 1
    world.after(9, world.logs["sink"].open_from.clear)

    assert world.followed()["gaps"] == ("VALID", 0, 2)


def test_brokers_that_do_not_answer_at_the_end(world):
    """Where the logs end is not known: UNKNOWN, though all that was read is right."""
    for log in world.logs.values():
        log.write(0, "a=1")

    def gone():
        world.answers = False

    world.after(4.5, gone)

    assert {verdict for verdict, _, _ in world.followed().values()} == {"UNKNOWN"}
    assert "the brokers did not give the ends in time" in world.found["duplicates"].note


# lines while it follows -----------------------------------------------------------------------------------------------------


def said(world, *begins):
    """Texts of the lines that begin so, without their times."""
    texts = [line.split("  ", 1)[1] for line in world.said]
    return [text for text in texts if text.startswith(begins)]


def test_brokers_that_answer_again(world):
    """Judging waits for them; each silence is told once, and so is its end."""
    world.plan = replace(PLAN, options=Following(lasts="15s"))
    for second in range(12):
        for log in world.logs.values():
            world.after(second, log.write, 0, f"a{second}=1")
    for second, answers in ((3, False), (6, True), (8, False), (9, True)):
        world.after(second, setattr, world, "answers", answers)

    assert world.followed()["gaps"] == ("VALID", 0, 12)
    assert [line[:24] for line in said(world, "the brokers")] == ["the brokers do not give ", "the brokers answer again"] * 2


def test_a_sink_that_stalls(world):
    """A stall of ten seconds is told when it is that long, when it ends, and at the end if it was the longest."""
    world.plan = replace(PLAN, options=Following(lasts="40s", every="1s"))
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "a=1")
    world.after(17, world.logs["sink"].write, 0, "b=1")
    world.after(25, world.logs["source"].write, 0, "c=1")
    world.after(30, world.logs["sink"].write, 0, "c=1")

    assert world.followed()["gaps"] == ("VALID", 0, 3)
    stalls = said(world, "stall", "the sink grows", "the longest")
    keep(re.sub(r"\d+ s", "<time>", "\n".join(stalls)))
    began_s, lasted_s, longest_s = (int(re.findall(r" (\d+) s", line)[0]) for line in stalls)
    assert 10 <= began_s < 12
    assert 15 <= longest_s <= lasted_s <= 17


def test_a_state_that_cannot_be_saved_any_more(monkeypatch, tmp_path):
    """Following goes on, and a later attempt succeeds."""
    folder = tmp_path / "folder"
    folder.mkdir()
    plan = replace(PLAN, options=Following(lasts="40s", state=str(folder / "state")))
    world = World(monkeypatch, plan)
    for second in (1, 15, 30):
        for log in world.logs.values():
            world.after(second, log.write, 0, f"a{second}=1")
    world.after(9, folder.rename, tmp_path / "away")
    world.after(19, (tmp_path / "away").rename, folder)

    assert world.followed()["gaps"] == ("VALID", 0, 3)
    (failure,) = said(world, "--state")
    assert keep(failure).startswith(f"--state {folder}/state: ")
    assert SavedState(plan, "c").load().counts.answered == 3


def test_a_file_of_metrics_that_cannot_be_written(world, tmp_path):
    """It is told with each line, and nothing else fails."""
    folder = tmp_path / "folder"
    world.plan = replace(PLAN, options=Following(lasts="9s", every="5s", metrics_file=str(folder / "metrics")))
    for log in world.logs.values():
        log.write(0, "a=1")
    world.after(7, folder.mkdir)

    assert world.followed()["gaps"] == ("VALID", 0, 1)
    (failure,) = said(world, "--metrics-file")
    assert keep(failure).startswith(f"--metrics-file {folder}/metrics: ")
    assert "chaos_audit_answered_total 1.0" in (folder / "metrics").read_text(encoding="utf-8")


# topics that are not what they were -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_topic_that_is_created_anew_while_it_is_followed(world, side):
    """Its offsets mean other records: following ends, UNKNOWN, and nothing of the new topic is called wrong."""
    for log in world.logs.values():
        log.write(0, *(f"a{number}=1" for number in range(20)))

    def anew():
        log = world.logs[side]
        log.records[0], log.id = [], "2"
        log.write(0, *(f"b{number}=1" for number in range(40)))

    world.after(3, anew)

    found = world.followed()

    assert {verdict for verdict, _, _ in found.values()} == {"UNKNOWN"}
    topic = {"source": "orders", "sink": "squares"}[side]
    assert f"{topic} was deleted and created again" in world.found["values"].note
    assert world.now_ms < 1_000_000 + 5000


def test_a_topic_that_is_created_anew_and_something_that_was_wrong_before(world):
    """Earlier anomalies stay in the findings."""
    world.logs["source"].write(0, "a=1")
    world.logs["sink"].write(0, "a=1", "a=1")
    world.after(4, lambda: setattr(world.logs["source"], "id", "2"))

    assert world.followed()["duplicates"] == ("INVALID", 1, 2)


def test_a_state_of_topics_that_were_created_anew(monkeypatch, tmp_path):
    """It is not gone on with: UNKNOWN, by the name of the topic."""
    plan = replace(PLAN, options=Following(lasts="5s", state=str(tmp_path / "state")))
    world = World(monkeypatch, plan, SavedState(plan, "c", {"orders": "1", "squares": "1"}))
    for log in world.logs.values():
        log.write(0, "a=1")
    assert world.followed()["gaps"] == ("VALID", 0, 1)

    assert SavedState(plan, "c", {"orders": "1", "squares": "1"}).load().counts.answered == 1
    with pytest.raises(InconclusiveError, match=r"--state .*: squares was deleted and created again since this file was saved"):
        SavedState(plan, "c", {"orders": "1", "squares": "2"}).load()


def test_a_state_without_topic_ids(tmp_path):
    """An older version kept none: it is not known whether its topics are these."""
    path = tmp_path / "state"
    kept = SavedState(replace(PLAN, options=Following(state=str(path))), "c")
    kept.save(Follow(PLAN.asked))
    with path.open("rb") as file, np.load(file) as found:
        arrays = dict(found)
    told = json.loads(arrays["told"].tobytes())
    del told["ids"]
    with path.open("wb") as file:
        np.savez(file, **{**arrays, "told": np.frombuffer(json.dumps(told).encode(), np.uint8)})

    with pytest.raises(AuditUsageError, match=r"was saved by an older version, which did not store .*; name another"):
        kept.load()


def test_a_partition_that_is_added_and_begins_above_0(world):
    """Its first records were never read, so a row that nothing demands may be theirs."""
    for log in world.logs.values():
        log.write(0, "a=1")

    def added():
        for log in world.logs.values():
            log.write(1, "x=1", "y=1", "z=1")
        world.logs["source"].low[1] = 2

    world.after(3, added)

    assert world.followed() == {"duplicates": ("VALID", 0, 4), "gaps": ("VALID", 0, 2), "values": ("UNKNOWN", 2, 4)}
    assert "partition 1 of orders" in keep(world.found["values"].note)


def test_records_that_retention_removes_before_they_are_read(world):
    """They were not compared: UNKNOWN, and their rows are not called wrong for certain."""
    world.logs["source"].write(0, "a=1")

    def removed():
        world.logs["source"].write(0, "b=1", "c=1", "d=1")
        world.logs["source"].low[0] = 3
        world.logs["sink"].write(0, "a=1", "b=1", "c=1", "d=1")

    world.after(2, removed)

    assert world.followed() == {"duplicates": ("UNKNOWN", 0, 4), "gaps": ("UNKNOWN", 0, 2), "values": ("UNKNOWN", 2, 4)}


def test_a_source_that_is_cut_off(world):
    """Records that are gone from the source demand nothing any more; that they were there is not forgotten."""
    world.plan = replace(PLAN, options=Following(lasts="15s", overdue="3s"))
    world.logs["source"].write(0, "a=1", "b=1", "c=1")
    world.logs["sink"].write(0, "a=1")

    def cut():
        del world.logs["source"].records[0][1:]

    world.after(1, cut)

    assert world.followed() == {"duplicates": ("UNKNOWN", 0, 1), "gaps": ("UNKNOWN", 0, 1), "values": ("UNKNOWN", 0, 1)}
    assert "2 records" in keep(world.found["gaps"].note)


def test_a_source_that_is_cut_off_before_it_was_read(world):
    """The brokers said that there was more: rows of what is gone are not wrong for certain."""
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "a=1", "b=1")
    world.logs["source"].open_from[0] = 1

    def cut():
        world.logs["source"].open_from.clear()
        del world.logs["source"].records[0][1:]

    world.after(3, cut)

    assert world.followed() == {"duplicates": ("UNKNOWN", 0, 2), "gaps": ("UNKNOWN", 0, 1), "values": ("UNKNOWN", 1, 2)}


def test_a_sink_that_is_cut_off_and_written_again(world):
    """A row that is there once, and was read twice, is no duplicate for certain."""
    for log in world.logs.values():
        log.write(0, "a=1", "b=1")

    def cut():
        del world.logs["sink"].records[0][1:]

    world.after(2, cut)
    world.after(4, world.logs["sink"].write, 0, "b=1")

    assert world.followed()["duplicates"] == ("UNKNOWN", 1, 3)


def test_a_source_that_is_cut_off_and_has_grown_beyond_the_place_again(world):
    """The client is told by the epoch of the leader: reading does not go on as if nothing had happened."""
    world.plan = replace(PLAN, options=Following(lasts="15s", overdue="3s"))
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "a=1")

    def rewritten():
        reader = world.live._readers["source"]
        world.logs["source"].records[0][1:] = []
        world.logs["source"].write(0, "x=1", "y=1", "z=1")
        world.logs["sink"].write(0, "x=1", "y=1", "z=1")
        reader.lost.add(0)
        reader.rewritten.add(0)

    world.after(1, rewritten)

    assert {verdict for verdict, _, _ in world.followed().values()} == {"UNKNOWN"}
    assert "partition 0 of orders was truncated before offset " in world.found["values"].note


# going on, and beginning late -----------------------------------------------------------------------------------------------


def test_what_comes_after_the_end_is_not_forgotten(monkeypatch, tmp_path):
    """A second start goes on with it."""
    plan = replace(PLAN, options=Following(lasts="5s", state=str(tmp_path / "state")))
    world = World(monkeypatch, plan)
    source, sink = world.logs["source"], world.logs["sink"]
    for second in range(20):
        world.after(second, source.write, 0, f"a{second}=1")
        world.after(second + 3, sink.write, 0, f"a{second}=1")
    assert world.followed()["gaps"] == ("VALID", 0, 6)

    found = world.followed()

    assert ({verdict for verdict, _, _ in found.values()}, found["gaps"][2]) == ({"VALID"}, found["gaps"][2])
    assert found["gaps"][2] > 6


def test_a_state_that_began_now_began_within(monkeypatch, tmp_path):
    """Whatever the second start says of where to begin: rows of before the begin are still taken to be such."""
    options = Following(lasts="2s", begin="now", state=str(tmp_path / "state"), settle="1s")
    world = World(monkeypatch, replace(PLAN, options=options))
    world.logs["source"].write(0, "a=1", "b=1")
    world.logs["sink"].write(0, "a=1")
    world.followed()
    world.plan = replace(PLAN, options=replace(options, begin="beginning"))
    world.logs["sink"].write(0, "b=1")

    found = world.followed()

    assert found["values"][:2] == ("UNKNOWN", 0)
    assert "1 rows" in keep(str(world.found["values"].note))


def test_a_follower_that_begins_at_the_ends(world):
    """With nothing under way then, all that comes is compared."""
    world.plan = replace(PLAN, options=Following(lasts="5s", begin="now"))
    for log in world.logs.values():
        log.write(0, "a=1", "a=1")
    world.after(1, world.logs["source"].write, 0, "a=1", "b=1")
    world.after(2, world.logs["sink"].write, 0, "a=1", "b=1")

    assert world.followed() == {"duplicates": ("VALID", 0, 2), "gaps": ("VALID", 0, 2), "values": ("VALID", 0, 2)}


def test_a_topic_that_may_not_be_read_any_more(world):
    """Following ends, UNKNOWN, unless something was wrong before; where nothing was read at all there are no findings."""
    for log in world.logs.values():
        log.write(0, "a=1")
    world.after(2, lambda: setattr(world.logs["sink"], "forbidden", True))

    assert {verdict for verdict, _, _ in world.followed().values()} == {"UNKNOWN"}
    assert "the sink cannot be read: not authorized" in world.found["gaps"].note

    world.logs["sink"].forbidden = False
    world.logs["sink"].write(0, "x=1")
    world.after(4, lambda: setattr(world.logs["sink"], "forbidden", True))

    assert world.followed()["values"] == ("INVALID", 1, 2)


def test_a_topic_that_may_not_be_read_at_all(world):
    """It is said why."""
    world.logs["source"].forbidden = True

    with pytest.raises(InconclusiveError, match="the source cannot be read: not authorized"):
        world.followed()


@pytest.mark.parametrize("topic", ["orders", "squares"])
def test_a_topic_that_is_compacted(world, topic):
    """Rows of records that compaction removed are not wrong for certain; where nothing is missing, it is told all the same."""
    world.compacts = topic
    world.logs["source"].write(0, "k=2")
    world.logs["sink"].write(0, *(["k=1", "k=1", "k=2"] if topic == "orders" else ["k=2"]))

    found = world.followed()

    assert {verdict for verdict, _, _ in found.values()} == {"UNKNOWN" if topic == "orders" else "VALID"} | {"VALID"}
    side = {"orders": "source", "squares": "sink"}[topic]
    assert f"the {side} is compacted" in keep(world.found["gaps"].note)


def test_a_topic_that_is_compacted_since_a_former_start(monkeypatch, tmp_path):
    """A second start asks again."""
    plan = replace(PLAN, options=Following(lasts="2s", state=str(tmp_path / "state")))
    world = World(monkeypatch, plan)
    for log in world.logs.values():
        log.write(0, "a=1")
    world.followed()
    world.compacts = "orders"
    world.logs["sink"].write(0, "a=1")

    assert world.followed()["duplicates"] == ("UNKNOWN", 1, 2)
