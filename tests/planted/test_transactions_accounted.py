"""Every record and every row of a group's topics is accounted for, or the verdict is UNKNOWN and says of what it is.

``PLANTED_EXAMPLES=1000`` tries so many histories of each kind; they are judged without Spark.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.judging.accounts import accounted
from tests.planted import histories
from tests.planted.histories import OFFSETS, STATES, App, History, Log, history
from verifiers.base import Finding, Verdict
from verifiers.transactions import logs
from verifiers.transactions.logs import Forgotten, LogsError
from verifiers.transactions.verifier import RowsPerRecord, Transactions

EXAMPLES = int(os.environ.get("PLANTED_EXAMPLES", "25"))
ONE_EACH = RowsPerRecord(1, 1)
OF_A_RUN = Transactions(of_a_run=True)


def judged(one: History, asked: Transactions | None = None) -> Finding:
    return (asked or Transactions()).check(one.cluster.logs())


def kinds(finding: Finding) -> set[str]:
    return {example.anomaly for example in finding.examples}


def places(finding: Finding) -> list[tuple[str, int, int | None]]:
    return [(one.anomaly, one.partition, one.offset) for one in finding.examples]


def begun(seed: int, batches: int = 3) -> tuple[History, App]:
    """Some history, and one of its applications."""
    one = history(seed)
    one.go_on(batches)
    return one, one.cluster.random.choice(one.apps)


def exactly_one_each(seed: int) -> tuple[History, App]:
    one = history(seed)
    one.exact = True
    one.go_on(3)
    return one, one.cluster.random.choice(one.apps)


# what is sound -------------------------------------------------------


def with_event_times(one: History) -> None:
    one.cluster.event_times = True


def seeded(one: History) -> None:
    """First positions are 0, and are committed from outside, as a run does before its pipeline starts."""
    for app in one.apps:
        for source in app.reads:
            one.cluster.send(app.group, source, 0, None)
            app.at[source] = 0


def with_a_timer(one: History) -> None:
    """Rows without a position, with one that stands still, and more rows than records."""
    for plant in (histories.without_positions, histories.standing_still, histories.surplus):
        plant(one, one.cluster.random.choice(one.apps))


def in_a_shared_sink(one: History) -> None:
    stranger = App(one.cluster, "stranger", 900, "elsewhere", [], one.apps[0].sinks, v2=True)
    stranger.write(stranger.sinks[0], 3)
    stranger.end("COMMIT")
    one.cluster.append(stranger.sinks[-1], 2, None)


def restored(one: History) -> None:
    """A position is removed, and put back where it was from outside."""
    app = one.apps[0]
    source = one.warm(app)
    one.cluster.send(app.group, source, None, None)
    one.cluster.send(app.group, source, app.at[source], None)


def ended(one: History) -> None:
    """Positions are removed, and nothing is read afterwards."""
    for app in one.apps:
        for source in list(app.at):
            one.cluster.send(app.group, source, None, None)


CLEAN: list[tuple[Callable[[History], None], Callable[[History], None], Transactions]] = [
    (with_event_times, lambda _: None, Transactions()),
    (with_event_times, lambda _: None, OF_A_RUN),
    (seeded, lambda _: None, OF_A_RUN),
    (seeded, lambda _: None, Transactions()),
    (with_event_times, with_a_timer, Transactions(timers=True)),
    (lambda _: None, with_a_timer, replace(OF_A_RUN, timers=True)),
    (lambda _: None, in_a_shared_sink, Transactions(shared=frozenset(histories.SINKS))),
    (lambda _: None, restored, Transactions()),
    (lambda _: None, ended, Transactions()),
]


@pytest.mark.parametrize(("before", "after", "asked"), CLEAN, ids=map(str, range(len(CLEAN))))
def test_what_is_sound_raises_no_alarm_and_no_doubt(before, after, asked):
    """With transactions v1 and v2, aborted, fenced and repeated ones, and readers that were seen to begin."""
    for seed in range(4 * EXAMPLES):
        one = history(seed)
        before(one)
        one.warm(one.apps[0])
        one.go_on(4)
        after(one)
        rows = ONE_EACH if one.exact else RowsPerRecord(0, 1)

        finding = judged(one, replace(asked, rows_per_record=rows))

        assert (finding.verdict, finding.count) == (Verdict.VALID, 0), (seed, finding)


# rows that no transaction with a position accounts for -------------------------------------------------------


def test_rows_outside_of_transactions_are_found_where_nobody_else_writes_and_are_unknown_elsewhere():
    """A program that writes with a plain producer, and moves its positions in transactions."""
    for seed in range(2 * EXAMPLES):
        one, app = begun(seed)
        one.warm(app)
        log = app.sinks[0]
        first = one.cluster.append(log, 3, None)
        one.cluster.append(log, 2, None)
        one.go_on(1)

        alone = judged(one, Transactions(alone=frozenset({log[0]})))
        unknown = judged(one)

        assert places(alone) == [("output outside", log[1], first)], (seed, alone)
        assert f"5 rows up to offset {first + 4} are in no transaction" in alone.examples[0].words
        assert (unknown.verdict, unknown.count) == (Verdict.UNKNOWN, 0)
        assert f"{log[0]} has 5 rows " in unknown.note
        timer = judged(one, Transactions(alone=frozenset({log[0]}), timers=True))
        assert (timer.verdict, timer.count) == (Verdict.UNKNOWN, 0)


def test_rows_outside_of_transactions_that_compaction_has_left_are_seen():
    one, app = begun(1)
    topic, partition = log = ("compacted", 0)
    app.sinks.append(log)
    for _ in range(2):
        one.cluster.append(log, 2, None)
    del one.cluster.batches[log][0]
    app.write(log, 1)
    app.move(app.reads[0], app.at.get(app.reads[0], 0) + 1)
    app.end("COMMIT")

    assert places(judged(one, Transactions(alone=frozenset({topic})))) == [("output outside", partition, 2)]
    one.cluster.batches[log][0] = one.cluster.batches[log][0]._replace(records=1)
    assert places(judged(one, Transactions(alone=frozenset({topic})))) == [("output outside", partition, 2)]


def only_positions(seed: int) -> tuple[History, Log]:
    """All of its transactions move positions and have no row; its rows are in none."""
    one = history(seed)
    app, sink = one.apps[0], one.apps[0].sinks[0]
    for number in range(1, 4):
        one.cluster.append(sink, 2, None)
        app.move(app.reads[0], number)
        app.end("COMMIT")
    return one, sink


def test_a_group_whose_transactions_wrote_nowhere():
    """Its output is somewhere else: nothing of it was looked at, unless its topic is named."""
    for seed in range(EXAMPLES):
        one, sink = only_positions(seed)

        finding = judged(one)
        named = judged(one, Transactions(alone=frozenset({sink[0]})))

        assert (finding.verdict, finding.count, finding.checked) == (Verdict.UNKNOWN, 0, 3)
        assert "no transaction of the group wrote to any topic" in finding.note
        assert places(named) == [("output outside", sink[1], 0)]


def test_a_run_whose_rows_are_in_no_transaction_is_invalid(tmp_path):
    one, sink = only_positions(1)
    for log in [log for log in one.cluster.batches if log[0] in histories.SOURCES and log != one.apps[0].reads[0]]:
        del one.cluster.batches[log]
    logs.write(tmp_path, one.cluster.logs())

    finding = accounted(tmp_path)

    assert (finding.verdict, finding.counts["output outside"]) == (Verdict.INVALID, 1)
    assert places(finding) == [("output outside", sink[1], 0)]


def test_a_run_whose_rows_a_timer_writes_may_say_so(tmp_path):
    one, app = begun(1)
    for log in [log for log in one.cluster.batches if log[0] in histories.SOURCES and log not in app.at]:
        del one.cluster.batches[log]
    histories.standing_still(one, app)
    logs.write(tmp_path, one.cluster.logs())

    assert kinds(accounted(tmp_path)) == {"standing still"}
    assert not kinds(accounted(tmp_path, timers=True))


def test_transactions_of_a_producer_that_no_coordinator_tells_of():
    """They are in the sink, and committed: whose they are is not known, also where nobody else may write."""
    for seed in range(EXAMPLES):
        one, app = begun(seed)
        one.warm(app)  # writes to this topic, so that it is a sink of the group
        log = app.cluster.random.choice([sink for sink in app.sinks if sink[0] == app.sinks[0][0]])
        one.cluster.append(log, 2, (901, 0))
        one.cluster.append(log, 1, (901, 0), "COMMIT")

        for asked in (Transactions(), Transactions(alone=frozenset({log[0]}))):
            finding = judged(one, asked)
            assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0), (seed, finding)
            assert f"{log[0]} has 1 transactions " in finding.note


@pytest.mark.parametrize("plant", [histories.without_positions, histories.torn], ids=lambda plant: plant.__name__)
def test_a_sink_that_is_gone_is_unknown(plant):
    """Deleted, or not to be described by this login: what was wrong in it cannot be seen any more."""
    for seed in range(2 * EXAMPLES):
        one, app = begun(seed)
        plant(one, app)
        for log in [log for log in one.cluster.batches if log[0] == app.sinks[0][0]]:
            del one.cluster.batches[log]

        finding = judged(one)

        assert finding.verdict >= Verdict.UNKNOWN, (seed, finding)
        assert f"of {app.sinks[0][0]}" in finding.note
        assert "could not be read" in finding.note


def test_a_run_does_not_miss_the_topics_of_an_earlier_one():
    """Its producer has the same transactional id, and the topics of that run were deleted."""
    one = history(2)
    app = one.apps[0]
    app.write(("earlier", 0), 3)
    app.end("COMMIT")
    del one.cluster.batches["earlier", 0]
    seeded(one)
    one.go_on(3)

    assert judged(one, OF_A_RUN).verdict is Verdict.VALID
    assert judged(one).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("asked", [Transactions(), OF_A_RUN, Transactions(ONE_EACH)])
def test_a_group_that_only_aborted_is_unknown(asked):
    for seed in range(EXAMPLES):
        one = history(seed)
        app = one.apps[0]
        for _ in range(3):
            list(app.batch(control="ABORT"))

        finding = judged(one, asked)

        assert (finding.verdict, finding.count, finding.checked) == (Verdict.UNKNOWN, 0, 0), (seed, finding)
        assert "nothing was committed" in finding.note


# positions that were removed, and first ones -------------------------------------------------------


def plain_sources(one: History) -> None:
    """The brokers have given nothing in the sources a time."""
    for log in [log for log in one.cluster.batches if log[0] in histories.SOURCES]:
        plain: dict[str, Any] = {"control": None, "transactional": False, "producer_id": -1}
        one.cluster.batches[log] = [batch._replace(**plain) for batch in one.cluster.batches[log]]


def removed(one: History, app: App, position: int) -> Log:
    """Its position is removed, and where it reads next is another one."""
    source = one.warm(app)
    one.cluster.send(app.group, source, None, None)
    app.at[source] = position
    return source


@pytest.mark.parametrize("asked", [Transactions(), OF_A_RUN, Transactions(ONE_EACH)])
def test_what_is_read_again_after_a_removal_is_found(asked):
    """At once, or in several transactions."""
    for seed in range(2 * EXAMPLES):
        one, app = exactly_one_each(seed)
        source = removed(one, app, 0)
        end = one.cluster.random.choice([3, app.at[source] + 4])
        app.write(app.sinks[0], sum(offset < end for offset in one.cluster.visible[source]) or 1)
        app.move(source, end)
        app.end("COMMIT")

        finding = judged(one, asked)

        assert (finding.verdict, kinds(finding)) == (Verdict.INVALID, {"step back"}), (seed, finding)


def test_all_that_was_read_again_in_one_transaction_stands_still():
    """It ends where the position was that was removed."""
    for seed in range(EXAMPLES):
        one, app = exactly_one_each(seed)
        source = one.warm(app)
        end = app.at[source]
        one.cluster.send(app.group, source, None, None)
        app.write(app.sinks[0], 5)
        app.move(source, end)
        app.end("COMMIT")

        assert kinds(judged(one)) == {"standing still"}
        assert judged(one, Transactions(timers=True)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("others", [0, 1])
def test_a_removal_between_a_position_and_its_marker_overtakes_nothing(others):
    """A coordinator commits before it writes markers: its group may be deleted meanwhile. What was sent later overtakes."""
    for seed in range(EXAMPLES):
        one, app = exactly_one_each(seed)
        source = one.warm(app)
        offsets = [offset for offset in one.cluster.visible[source] if offset >= app.at[source]][:3]
        app.write(app.sinks[0], len(offsets))
        app.move(source, offsets[-1] + 1)
        for _ in range(others):
            one.cluster.send(app.group, source, app.at[source], None)
        one.cluster.send(app.group, source, None, None)
        app.end("COMMIT")

        finding = judged(one)

        assert kinds(finding) == ({"overtaken", "moved outside"} if others else set()), (seed, finding)


def test_the_next_position_knows_of_a_removal_before_the_marker():
    """It is compared with the position that was committed, and may be lower: the topic may have been made anew."""
    for seed in range(EXAMPLES):
        one, app = exactly_one_each(seed)
        source = one.warm(app)
        offsets = [offset for offset in one.cluster.visible[source] if offset >= app.at[source]][:3]
        app.write(app.sinks[0], len(offsets))
        app.move(source, offsets[-1] + 1)
        one.cluster.send(app.group, source, None, None)
        app.end("COMMIT")
        plain_sources(one)
        app.write(app.sinks[0], 3)
        app.move(source, 3)
        app.end("COMMIT")

        finding = judged(one)

        assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0), (seed, finding)
        assert f"{source[0]}-{source[1]} {offsets[-1] + 1} to 3" in finding.note


def test_after_a_removal_it_is_not_known_whether_the_topic_was_made_anew():
    """Nothing that a broker has written shows it: then a position that is lower may be right."""
    for seed in range(EXAMPLES):
        one, app = begun(seed)
        plain_sources(one)
        source = removed(one, app, 0)
        app.write(app.sinks[0], 3)
        app.move(source, 3)
        app.end("COMMIT")

        finding = judged(one)

        assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0), (seed, finding)
        assert "1 positions follow one that was removed" in finding.note
        assert judged(one, OF_A_RUN).verdict is Verdict.INVALID


def passed_over(one: History, app: App, rows: int) -> None:
    """After a removal the reader begins at the latest record, and 20 and more are passed over."""
    source = one.warm(app)
    one.cluster.send(app.group, source, None, None)
    app.write(app.sinks[0], rows)
    app.move(source, app.at[source] + 30)
    app.end("COMMIT")


def test_what_may_be_passed_over_after_a_removal_is_unknown_or_a_deficit():
    """The rows tell, where it is known how many there must be."""
    for seed in range(EXAMPLES):
        one, app = exactly_one_each(seed)
        passed_over(one, app, 1)

        unknown, counted = judged(one), judged(one, Transactions(ONE_EACH))
        filtered = judged(one, Transactions(RowsPerRecord(0, 1)))

        assert (unknown.verdict, unknown.count) == (Verdict.UNKNOWN, 0), (seed, unknown)
        assert "positions follow one that was removed" in unknown.note
        assert kinds(counted) == {"deficit"}
        assert (filtered.verdict, filtered.count) == (Verdict.UNKNOWN, 0)


def test_a_first_position_that_was_set_from_outside_leaves_records_out():
    """It is wrong for certain in a run, whose group is new."""
    for seed in range(EXAMPLES):
        one = history(seed)
        app = one.apps[0]
        one.cluster.send(app.group, app.reads[0], 90, None)
        app.at[app.reads[0]] = 90
        one.go_on(2)

        finding, of_a_run = judged(one), judged(one, OF_A_RUN)

        assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0), (seed, finding)
        assert "1 first positions were set outside of any transaction" in finding.note
        assert kinds(of_a_run) == {"moved outside"}


def test_a_first_transaction_with_too_few_rows_is_asked_for_them():
    """Its reader may have begun later: only of a run it is certain that it did wrong."""
    for seed in range(EXAMPLES):
        one = history(seed)
        app = one.apps[0]
        app.write(app.sinks[0], 10)
        app.move(app.reads[0], 100)
        app.end("COMMIT")

        finding = judged(one, Transactions(ONE_EACH))
        of_a_run = judged(one, replace(OF_A_RUN, rows_per_record=ONE_EACH))

        assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0), (seed, finding)
        assert "1 transactions with first positions have too few rows" in finding.note
        assert kinds(of_a_run) == {"deficit"}


def test_too_few_rows_for_what_was_certainly_read_are_a_deficit():
    """Whatever the first position beside it is."""
    one = history(3)
    app = next(each for each in one.apps if len(each.reads) == 1)
    source, other = app.reads[0], next(log for log in one.cluster.visible if log != app.reads[0])
    app.write(app.sinks[0], sum(offset < 20 for offset in one.cluster.visible[source]))
    app.move(source, 20)
    app.end("COMMIT")
    app.write(app.sinks[0], 1)
    app.move(source, 60)
    app.move(other, 5)
    app.end("COMMIT")

    assert kinds(judged(one, Transactions(ONE_EACH))) == {"deficit"}


def test_a_position_behind_the_end_of_its_topic_is_of_another_topic():
    """The topic was made anew, and its positions with it were not removed."""
    one, app = begun(5)
    source = one.warm(app)
    app.move(source, 1000)
    app.write(app.sinks[0], 1)
    app.end("COMMIT")
    app.move(source, 3)
    app.write(app.sinks[0], 3)
    app.end("COMMIT")

    finding = judged(one)

    assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0), finding
    assert "1 positions follow one that lies behind" in finding.note


# where readers began, by clocks that the program does not set -------------------------------------------------------


def two_readers(seed: int, *, event_times: bool = True) -> tuple[History, int, list[int]]:
    """The second one is given its position while a transaction of the first is open, and both commit; the records."""
    one = history(seed)
    one.cluster.event_times = event_times
    one.go_on(3)
    app = one.cluster.random.choice(one.apps)
    source = one.warm(app)
    begin, read = app.at[source], app.read(source)
    app.write(app.sinks[0], len(read))
    one.cluster.start(app.group, source, begin)
    app.move(source, read[-1] + 1)
    app.end("COMMIT")
    app.write(app.sinks[1], len(read) + 1)
    app.move(source, read[-1] + 2)
    app.end("COMMIT")
    return one, source[1], read


def test_what_two_readers_commit_is_found_whatever_times_the_program_gives_its_rows():
    for seed in range(2 * EXAMPLES):
        one, partition, read = two_readers(seed)

        assert places(judged(one)) == [("committed twice", partition, offset) for offset in read], seed


def test_by_the_time_of_the_broker_it_is_known_without_a_proxy():
    one, partition, read = two_readers(3, event_times=False)
    one.cluster.produced.clear()
    for log in [log for log in one.cluster.batches if log[0] in histories.SINKS]:
        one.cluster.batches[log] = [row._replace(by_broker=True) for row in one.cluster.batches[log]]

    assert places(judged(one)) == [("committed twice", partition, offset) for offset in read]


def test_where_nobody_knows_when_rows_were_written_it_is_unknown():
    """No proxy has seen them sent, or has forgotten it."""
    unknown = 0
    for seed in range(2 * EXAMPLES):
        one, _, _ = two_readers(seed)
        if seed % 2:
            one.cluster.produced.clear()
        else:
            one.cluster.forgotten.append(Forgotten("produced", one.cluster.now_ms))

        finding = judged(one)

        assert finding.verdict >= Verdict.UNKNOWN, (seed, finding)
        assert (finding.verdict is Verdict.UNKNOWN) == ("whether its rows were written before is not known" in finding.note)
        unknown += finding.verdict is Verdict.UNKNOWN
    assert unknown > EXAMPLES


def test_what_begins_after_a_reader_is_its_own():
    """Its rows have older times than the reader, and both of its transactions go beyond where it began."""
    for seed in range(2 * EXAMPLES):
        one = history(seed)
        with_event_times(one)
        one.go_on(3)
        app = one.cluster.random.choice(one.apps)
        source = one.warm(app)
        one.cluster.start(app.group, source, app.at[source])
        if seed % 2:
            one.cluster.produced.clear()
        for _ in range(2):
            read = app.read(source)
            app.write(app.sinks[0], len(read))
            app.move(source, read[-1] + 1)
            app.end("COMMIT")

        finding = judged(one)

        assert (finding.verdict, finding.count, finding.note) == (Verdict.VALID, 0, ""), (seed, finding)


@pytest.mark.parametrize("what", ["starts", "unfenced"])
def test_what_proxies_have_forgotten_since_the_run_began_is_told(what):
    one, _ = begun(4)
    one.cluster.forgotten.append(Forgotten(what, histories.BEGAN_MS))
    before = judged(one)
    one.cluster.forgotten[0] = Forgotten(what, one.cluster.now_ms)

    assert before.verdict is Verdict.VALID
    assert (judged(one).verdict, judged(one).note.count(f"could not remember all requests ({what})")) == (Verdict.UNKNOWN, 1)


def test_what_is_in_flight_when_a_run_is_over_is_unknown():
    one, app = begun(4)
    one.cluster.settled = one.cluster.states_end
    app.write(app.sinks[0], 2)
    app.move(app.reads[0], app.at.get(app.reads[0], 0) + 2)
    app.decide("COMMIT")

    assert (judged(one).verdict, judged(one, OF_A_RUN).verdict) == (Verdict.VALID, Verdict.UNKNOWN)
    assert "1 transactions were in flight when the run was over" in judged(one, OF_A_RUN).note


# logs as they were landed -------------------------------------------------------


@pytest.mark.parametrize("name", ["extents", "batches", "positions", "states"])
def test_logs_that_were_landed_twice_are_refused(name, tmp_path, snapshot):
    one, _ = begun(6)
    found = one.cluster.logs()
    twice = logs.pa.concat_tables([getattr(found, name)] * 2)
    logs.write(tmp_path, replace(found, **{name: twice}))

    with pytest.raises(LogsError, match=rf": {name} ") as caught:
        logs.load(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "<folder>") == snapshot


def test_logs_with_missing_batches_are_refused(tmp_path):
    """Whichever is missing, of any topic whose batches are landed."""
    for seed in range(EXAMPLES):
        one, _ = begun(seed)
        found = one.cluster.logs()
        gone = one.cluster.random.randrange(found.batches.num_rows)
        left = logs.pa.concat_tables([found.batches.slice(0, gone), found.batches.slice(gone + 1)])
        logs.write(tmp_path / str(seed), replace(found, batches=left))

        with pytest.raises(LogsError, match=r": batches has none at |: positions has one at "):
            logs.load(tmp_path / str(seed))


def test_logs_without_rows_are_refused(tmp_path, snapshot):
    found = history(1).cluster.logs()
    logs.write(tmp_path, replace(found, extents=found.extents.slice(0, 0)))

    with pytest.raises(LogsError, match=rf": extents .*{STATES}") as caught:
        logs.load(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "<folder>") == snapshot


def test_a_log_whose_extent_is_missing_is_refused(tmp_path, snapshot):
    one, _ = begun(2)
    found = one.cluster.logs()
    rows = [row for row in found.rows("extents") if row.topic != OFFSETS]
    logs.write(tmp_path, replace(found, extents=logs.table("extents", rows)))

    with pytest.raises(LogsError, match=rf": extents .*{OFFSETS}") as caught:
        logs.load(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "<folder>") == snapshot


def test_positions_that_are_missing_are_unknown(tmp_path):
    """Unless they are the first or the last of a partition of the log, which may be those of another group."""
    for seed in range(EXAMPLES):
        one, _ = begun(seed)
        found = one.cluster.logs()
        inside = [
            number
            for number, (before, row, after) in enumerate(
                zip(*(list(found.rows("positions"))[at:] for at in range(3)), strict=False), 1
            )
            if before.log_partition == row.log_partition == after.log_partition
        ]
        gone = one.cluster.random.choice(inside)
        left = [row for number, row in enumerate(found.rows("positions")) if number != gone]
        logs.write(tmp_path / str(seed), replace(found, positions=logs.table("positions", left)))

        finding = Transactions().check(logs.load(tmp_path / str(seed)))

        assert finding.verdict is not Verdict.VALID, (seed, finding)


def test_batches_without_the_column_of_later_logs_are_read(tmp_path):
    found = begun(2)[0].cluster.logs()
    logs.write(tmp_path, replace(found, batches=found.batches.drop_columns(["by_broker"])))

    assert logs.load(tmp_path) == found
