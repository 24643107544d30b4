"""Anomalies of transactions are found at their exact place, and sound histories raise no alarm.

``PLANTED_EXAMPLES=1000`` tries so many histories of each kind; they are judged without Spark, so a hundred take a second.
"""

import os
import shutil

import pytest

from chaos.common.errors import InconclusiveError
from chaos.judging.accounts import accounted
from tests.planted import histories
from tests.planted.histories import History, history
from verifiers.base import Finding, Verdict
from verifiers.transactions import logs
from verifiers.transactions.logs import OFFSETS, STATES, Logs
from verifiers.transactions.verifier import RowsPerRecord, Transactions

EXAMPLES = int(os.environ.get("PLANTED_EXAMPLES", "25"))
ONE_EACH = RowsPerRecord(1, 1)
LAST = [histories.without_positions, histories.step_back, histories.hanging, histories.never_marked]


def asked(one: History) -> Transactions:
    """With the rows of a record where each makes one."""
    return Transactions(ONE_EACH if one.exact else RowsPerRecord(0, 1))


def places(finding: Finding) -> list[tuple[str, int, int | None]]:
    return [(one.anomaly, one.partition, one.offset) for one in finding.examples]


@pytest.mark.parametrize("plant", histories.WITHOUT_COUNTS + histories.WITH_COUNTS, ids=lambda plant: plant.__name__)
def test_each_is_found_at_its_place(plant):
    """And nothing else is found with it."""
    for seed in range(EXAMPLES):
        one = history(seed)
        one.exact |= plant in histories.WITH_COUNTS
        one.go_on(4)
        app = one.cluster.random.choice(one.apps)
        where = plant(one, app)
        one.go_on(3)

        finding = asked(one).check(one.cluster.logs())

        assert (finding.verdict, places(finding)) == (Verdict.INVALID, [where]), (seed, finding)


def test_sound_histories_raise_no_alarm():
    for seed in range(4 * EXAMPLES):
        one = history(seed)
        one.go_on(8)

        finding = asked(one).check(one.cluster.logs())

        assert (finding.verdict, finding.count, finding.note) == (Verdict.VALID, 0, ""), (seed, finding)
        assert finding.checked == sum(app.ended for app in one.apps) - finding.counts["aborted"]


@pytest.mark.parametrize("plant", [None, histories.without_positions, histories.torn])
def test_what_a_run_has_landed_is_judged_offline(plant, tmp_path):
    """As `chaos judge` does, with the run's topics as sinks that nobody else writes to."""
    one = history(7)
    one.go_on(4)
    app = one.cluster.random.choice(one.apps)
    planted = [plant(one, app)] if plant else []
    one.go_on(3)
    logs.write(tmp_path / "transactions", one.cluster.logs())

    finding = accounted(tmp_path / "transactions")

    assert (finding.verifier, finding.verdict) == ("transactions", Verdict.INVALID if plant else Verdict.VALID)
    assert places(finding) == planted


def test_logs_that_were_landed_before_readers_were_seen_are_read(tmp_path):
    one = history(7)
    one.go_on(2)
    logs.write(tmp_path, one.cluster.logs())
    for name in logs.FROM_THE_WIRE:
        shutil.rmtree(tmp_path / name)

    assert not list(logs.load(tmp_path).rows("starts"))
    with pytest.raises(InconclusiveError, match="starts is missing, though the logs beside it are there"):
        accounted(tmp_path)  # a run has landed them, so they were lost


def test_a_run_may_say_how_many_rows_a_record_makes(tmp_path):
    one = history(7)
    one.exact = True
    one.go_on(4)
    planted = histories.surplus(one, one.apps[0])
    logs.write(tmp_path, one.cluster.logs())

    assert accounted(tmp_path).verdict is Verdict.VALID
    assert places(accounted(tmp_path, ONE_EACH)) == [planted]


def test_logs_that_a_run_has_not_landed(tmp_path):
    """The message says what is missing, and what to do."""
    with pytest.raises(InconclusiveError, match=r"extents is not a Parquet folder .*: land the logs again"):
        accounted(tmp_path)


# where readers began ----------------------------------------------------------------------------------------------------------


def excluded_in_a_transaction(one: History, app, *, rows_later: bool = False, again: bool = True) -> tuple[int, list[int]]:
    """Rows are written, another reader is given the position before them, and then the positions are sent; the records.

    Args:
        rows_later: whether a row is written when the other one has been given its position.
        again: whether that one commits, too.
    """
    source = one.warm(app)
    begin, read = app.at[source], app.read(source)
    end = read[-1] + 1
    app.write(app.sinks[0], len(read))
    one.cluster.start(app.group, source, begin)
    if rows_later:
        app.write(app.sinks[0], 1)
    app.move(source, end)
    app.end("COMMIT")
    if again:
        app.write(app.sinks[1], len(read) + 1)
        app.move(source, end + 1)
        app.end("COMMIT")
    return source[1], read


def test_what_two_readers_commit_is_found_record_by_record():
    for seed in range(2 * EXAMPLES):
        one = history(seed)
        one.go_on(4)
        app = one.cluster.random.choice(one.apps)
        partition, read = excluded_in_a_transaction(one, app)

        finding = Transactions().check(one.cluster.logs())

        assert places(finding) == [("committed twice", partition, offset) for offset in read], (seed, finding)
        assert (finding.verdict, finding.count, finding.counts["committed twice"]) == (Verdict.INVALID, len(read), len(read))
        assert f"was committed by transaction {app.ended - 1} of '{app.name}', " in finding.examples[0].words
        assert f"and again by transaction {app.ended} of '{app.name}', " in finding.examples[0].words
        assert "a reader ('reader', generation 3) began at " in finding.examples[0].words


def test_a_second_commit_that_goes_less_far_repeats_less():
    """And is a step back."""
    one = history(5)
    app = one.apps[0]
    source = one.warm(app)
    begin = app.at[source]
    read = [offset for offset in one.cluster.visible[source] if offset >= begin][:6]
    app.write(app.sinks[0], 6)
    one.cluster.start(app.group, source, begin)
    app.move(source, read[-1] + 1)
    app.end("COMMIT")
    app.write(app.sinks[0], 2)
    app.move(source, read[1] + 1)
    app.end("COMMIT")

    finding = Transactions().check(one.cluster.logs())

    twice = [("committed twice", source[1], offset) for offset in read[:2]]
    assert sorted(places(finding)) == [*twice, ("step back", source[1], read[1] + 1)]


@pytest.mark.parametrize("case", ["fenced", "rows later", "not again", "again by the next reader", "aborted"])
def test_what_may_have_been_read_once_is_no_alarm(case):
    """Also where it looks alike."""
    for seed in range(EXAMPLES):
        one = history(seed)
        one.go_on(3)
        app = one.apps[0]
        if case == "aborted":
            source = one.warm(app)
            before, read = app.at[source], app.read(source)
            app.write(app.sinks[0], len(read))
            one.cluster.start(app.group, source, before)
            app.move(source, read[-1] + 1)
            app.end("ABORT")
            app.at[source] = before
        else:
            excluded_in_a_transaction(
                one, app, rows_later=case == "rows later", again=case not in {"not again", "again by the next reader"}
            )
        if case == "fenced":
            one.cluster.unfenced.clear()
        if case == "again by the next reader":
            one.go_on(2, [app])

        finding = Transactions().check(one.cluster.logs())

        assert (finding.verdict, places(finding)) == (Verdict.VALID, []), (seed, finding)


def test_what_a_reader_skips_is_found_record_by_record():
    """It is given a position that is not in force."""
    for seed in range(EXAMPLES):
        one = history(seed)
        one.go_on(3)
        app = one.cluster.random.choice(one.apps)
        source = one.warm(app)
        passed = [offset for offset in one.cluster.visible[source] if offset >= app.at[source]][:3]
        one.cluster.start(app.group, source, passed[-1] + 1)

        finding = Transactions().check(one.cluster.logs())

        assert places(finding) == [("skipped", source[1], offset) for offset in passed], (seed, finding)


# what may have been removed, or not have happened yet ------------------------------------------------------------------------


def some_time(one: History) -> int:
    """An offset of the log of positions, about its middle."""
    end = one.cluster.end((OFFSETS, 0))
    return one.cluster.random.randint(end // 4, 3 * end // 4)


def compact(one: History) -> None:
    """The positions that the cleaner leaves before some offset: the last of each, and some of the markers."""
    cluster, log, until = one.cluster, (OFFSETS, 0), some_time(one)
    ended: dict[int, list] = {}
    for batch in reversed(cluster.batches[log]):
        ended.setdefault(batch.producer_id, []).append(batch)
    last = {}
    for at in cluster.positions:
        if at.log_partition == log[1] and at.offset < until and is_committed(cluster.batches[log], at.offset):
            last[at.consumer_group, at.topic, at.partition] = at.offset
    kept = set(last.values())
    cluster.batches[log] = [
        batch
        for batch in cluster.batches[log]
        if batch.first_offset >= until or batch.first_offset in kept or (batch.control and cluster.random.random() < 0.3)
    ]
    cluster.positions = [
        at for at in cluster.positions if at.log_partition != log[1] or at.offset >= until or at.offset in kept
    ]


def is_committed(batches, offset):
    """By the next marker of its producer."""
    producer_id = next(one.producer_id for one in batches if one.first_offset == offset)
    return producer_id < 0 or next(
        one.control == "COMMIT"
        for one in batches
        if one.first_offset > offset and one.producer_id == producer_id and one.control
    )


def expire(one: History) -> None:
    """Retention removes the first batches of every sink partition."""
    cluster = one.cluster
    for log in [log for log in cluster.batches if log[0] in histories.SINKS]:
        gone = cluster.random.randint(0, len(cluster.batches[log]) // 2)
        cluster.batches[log] = cluster.batches[log][gone:]
        cluster.low[log] = cluster.batches[log][0].first_offset if cluster.batches[log] else 0


def forget(one: History) -> None:
    """The first half of what coordinators said is gone."""
    one.cluster.low[STATES, 0] = one.cluster.random.randint(1, one.cluster.states_end // 2)


def purge(one: History) -> None:
    """Records that were read are removed from the sources."""
    for log in [log for log in one.cluster.batches if log[0] in histories.SOURCES]:
        one.cluster.batches[log] = one.cluster.batches[log][3:]
        one.cluster.low[log] = one.cluster.batches[log][0].first_offset


@pytest.mark.parametrize("removed", [compact, expire, forget, purge], ids=lambda removed: removed.__name__)
def test_what_was_removed_raises_no_alarm_and_is_told(removed):
    """Most histories have lost something that had to be judged; whether a single one has is left to chance."""
    unknown = 0
    for seed in range(2 * EXAMPLES):
        one = history(seed)
        one.go_on(8)
        removed(one)

        finding = asked(one).check(one.cluster.logs())

        assert finding.verdict < Verdict.INVALID, (seed, finding)
        assert (finding.verdict is Verdict.UNKNOWN) == bool(finding.note), (seed, finding)
        unknown += finding.verdict is Verdict.UNKNOWN
    assert unknown > EXAMPLES


@pytest.mark.parametrize("removed", [compact, expire, forget], ids=lambda removed: removed.__name__)
@pytest.mark.parametrize("plant", LAST, ids=lambda plant: plant.__name__)
def test_what_is_left_is_judged(removed, plant):
    """A step back can be seen at the end of any history, output without positions where its logs are whole."""
    for seed in range(EXAMPLES):
        one = history(seed)
        one.go_on(6)
        removed(one)
        one.go_on(1)
        where = plant(one, one.cluster.random.choice(one.apps))

        finding = asked(one).check(one.cluster.logs())

        assert places(finding) == [where], (seed, finding)


def test_what_is_in_flight_is_not_judged():
    """A transaction may be decided while the logs are read, so that only some of its markers are there."""
    for seed in range(2 * EXAMPLES):
        one = history(seed)
        one.go_on(4)
        app, *others = one.apps
        one.cluster.settled = one.cluster.states_end
        one.go_on(2, others)
        for log in app.sinks[:2]:
            app.write(log, 2)
        if seed % 3:
            app.move(app.reads[0], app.at.get(app.reads[0], 0) + 5)
            app.decide("COMMIT")
        if seed % 3 == 2:
            one.cluster.append(app.sinks[0], 1, app.producer, "COMMIT")
        if seed % 3 and seed % 2:
            app.complete("COMMIT")  # its markers are behind the ends of the logs that were read

        finding = asked(one).check(one.cluster.logs())

        assert (finding.verdict, finding.count) == (Verdict.VALID, 0), (seed, finding)
        assert finding.counts["in flight"] == bool(seed % 3)


def test_a_torn_transaction_whose_coordinator_is_in_doubt_is_not_matched_at_random():
    """Two markers for one transaction, both with rows: nobody can say which one the coordinator meant."""
    one = history(3)
    one.go_on(2)
    app = one.apps[0]
    log = app.sinks[0]
    app.write(log, 2)
    app.move(app.reads[0], app.at.get(app.reads[0], 0) + 1)
    app.decide("COMMIT")
    for named in app.named:
        one.cluster.append(named, 1, app.producer, "COMMIT")
    one.cluster.append(log, 2, app.producer)
    one.cluster.append(log, 1, app.producer, "COMMIT")
    app.complete("COMMIT")

    finding = Transactions().check(one.cluster.logs())

    assert finding.verdict is Verdict.UNKNOWN
    assert f"partition {log[1]} of {log[0]}: producer {app.producer_id} has" in finding.note


# what else there may be ----------------------------------------------------------------------------------------------------


def others_write(one: History) -> None:
    """An application of another group writes to the same sink, one that has no group, and one without transactions."""
    sink = one.apps[0].sinks[0]
    stranger = histories.App(one.cluster, "stranger", 900, "elsewhere", [("other", 0)], [sink], v2=True)
    stranger.write(sink, 3)
    stranger.end("COMMIT")
    one.cluster.append(sink, 2, None)


def test_rows_of_others_in_the_same_sink_are_unknown_unless_it_is_said_that_others_write_there():
    """They may be the application's own: nobody but the user knows."""
    one = history(1)
    one.go_on(3)
    others_write(one)
    sink = one.apps[0].sinks[0][0]

    unknown = Transactions().check(one.cluster.logs())
    shared = Transactions(shared=frozenset({sink})).check(one.cluster.logs())

    assert (unknown.verdict, unknown.count, shared.verdict) == (Verdict.UNKNOWN, 0, Verdict.VALID)
    for finding in (unknown, shared):
        assert f"{sink} has 2 rows " in finding.note
        assert " 1 transactions of other producers" in finding.note


def test_where_nobody_else_may_write_others_have_output_without_positions():
    one = history(1)
    one.go_on(3)
    others_write(one)

    finding = Transactions(alone=frozenset({one.apps[0].sinks[0][0]})).check(one.cluster.logs())

    counts = {kind: finding.counts[kind] for kind in ("output without positions", "output outside")}
    assert (finding.verdict, counts) == (Verdict.INVALID, {"output without positions": 1, "output outside": 1})
    assert "producer 900 epoch 1" in finding.examples[0].words


def test_a_transactional_id_keeps_its_group_with_a_new_producer_id():
    """Kafka gives it one when its epochs are exhausted."""
    one = history(1)
    app = one.apps[0]
    one.warm(app)
    app.producer_id, app.epoch = 777, 0
    log = app.sinks[0]
    first = app.write(log, 2)
    app.end("COMMIT")

    finding = Transactions().check(one.cluster.logs())

    assert places(finding) == [("output without positions", log[1], first)]


def test_timers_excuse_rows_that_moved_nothing():
    one = history(1)
    one.go_on(3)
    histories.standing_still(one, one.apps[0])
    histories.without_positions(one, one.apps[0])
    histories.surplus(one, one.apps[0])

    finding = Transactions(RowsPerRecord(0, 1), timers=True).check(one.cluster.logs())

    assert (finding.verdict, finding.count) == (Verdict.VALID, 0)
    assert "timers" in finding.note


def test_what_is_read_again_after_a_position_expired_is_a_step_back():
    """Records before it stay read; the topic is the same, because a broker had written there before."""
    one = history(1)
    one.go_on(3)
    app = one.apps[0]
    source = one.warm(app)
    one.cluster.send(app.group, source, None, None)
    app.at[source] = 0
    one.go_on(2, [app])

    finding = Transactions().check(one.cluster.logs())

    assert (finding.verdict, finding.counts["removed"]) == (Verdict.INVALID, 1)
    assert {anomaly for anomaly, _, _ in places(finding)} == {"step back"}


def test_a_group_that_commits_outside_transactions_cannot_be_asked():
    one = history(1)
    one.cluster.send("a", ("orders", 0), 5, None)
    one.cluster.send("a", ("orders", 0), 3, None)

    finding = Transactions().check(one.cluster.logs())

    assert (finding.verdict, finding.checked) == (Verdict.UNKNOWN, 0)
    assert finding.note.startswith("the group sent no position in a transaction")


def test_a_finding_names_producer_epoch_transaction_and_offsets():
    one = history(1)
    app = one.apps[0]
    where = histories.without_positions(one, app)

    (example,) = Transactions().check(one.cluster.logs()).examples

    name = f"transaction 2 of 'app-0', producer {app.producer_id} epoch {app.epoch}, decided "
    assert name in example.words
    assert f"[{where[2]}, " in example.words


# as it is landed -----------------------------------------------------------------------------------------------------------


def test_frames_and_files_are_judged_as_tables_are(spark, tmp_path):
    """Whatever the order in which Spark gives its rows."""
    one = history(2)
    one.go_on(3)
    histories.step_back(one, one.apps[0])
    expected = Transactions(ONE_EACH).check(one.cluster.logs())
    logs.write(tmp_path, one.cluster.logs())

    frames = {name: spark.read.parquet(str(tmp_path / name)).repartition(3) for name in logs.SCHEMAS}

    assert expected.count
    assert Transactions(ONE_EACH).check(logs.load(tmp_path)) == expected
    assert Transactions(ONE_EACH).check(Logs.of_frames(frames)) == expected


def test_other_columns_are_refused(spark, tmp_path):
    logs.write(tmp_path, history(2).cluster.logs())
    frames = {name: spark.read.parquet(str(tmp_path / name)) for name in logs.SCHEMAS}

    with pytest.raises(logs.LogsError, match=r"batches: wrong or missing columns: records int32 \(found: int64\); select"):
        Logs.of_frames(frames | {"batches": frames["batches"].withColumn("records", frames["batches"]["records"].cast("long"))})
    with pytest.raises(logs.LogsError, match=r"nowhere/extents .*\(FileNotFoundError\)"):
        logs.load(tmp_path / "nowhere")
