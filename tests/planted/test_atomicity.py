from dataclasses import replace
from unittest.mock import ANY

import pytest
from pyspark.sql import SparkSession
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Batch, Judge, Log, Record, clean
from verifiers import VERIFIERS
from verifiers.base import Bounds, Example, Finding, Verdict

WRONG = ("torn", "zombie write", "aborted read", "early read", "withheld", "split view", "unaccounted")
NONE = dict.fromkeys((*WRONG, "aborted", "open", "not ended", "undecided"), 0)


def shown(log: Log, *ids: int) -> Log:
    """A read_committed reader is given rows of aborted transactions."""
    rows = tuple(row for row in log.hidden if row.key in {str(id_) for id_ in ids})
    return replace(log, batches=log.all_batches(), uncommitted=log.all_rows()).plus(*rows)


def fixed(log: Log) -> Log:
    """Views and batches stay what they are, whatever is done to the committed view."""
    return replace(log, batches=log.all_batches(), uncommitted=log.all_rows())


def markers(*marked: tuple[int, int, int, int, str], written_under: int) -> Log:
    """Transactions that each wrote one row: partition, number in it, producer, epoch of the marker, its kind."""
    rows, batches, ends = [], [], dict.fromkeys(range(3), 0)
    for partition, number, producer, epoch, control in marked:
        at = 2 * number
        row = Record(partition, at, BEGAN_MS, str(at), "x")
        rows.append((row, control))
        batches.append(Batch(partition, at, at, producer, written_under, transactional=True, control=None))
        batches.append(Batch(partition, at + 1, at + 1, producer, epoch, transactional=True, control=control))
        ends[partition] = max(ends[partition], at + 2)
    return Log(
        expected=(),
        observed=tuple(row for row, control in rows if control == "COMMIT"),
        bounds={home: Bounds(0, end, end) for home, end in ends.items()},
        positions={},
        hidden=tuple(row for row, control in rows if control == "ABORT"),
        batches=tuple(batches),
    )


def wrote(*homes: str, producer: int = 7) -> Log:
    """One producer's rows in each partition, an offset for each word: 5 is a row of epoch 5 in a transaction.

    ``5p`` is one in none, ``5C`` a COMMIT, ``5A`` an ABORT. A reader is given what is committed.
    """
    batches, given, kept, bounds = [], list[Record](), list[Record](), {}
    for home, words in enumerate(written.split() for written in homes):
        open_from = len(words)
        for at, word in enumerate(words):
            control = {"C": "COMMIT", "A": "ABORT"}.get(word[-1])
            batches.append(Batch(home, at, at, producer, int(word.rstrip("ACp")), "p" not in word, control))
            ending = "C" if "p" in word else next((later[-1] for later in words[at:] if later[-1] in "AC"), "none")
            open_from = min(open_from, at) if ending == "none" else open_from
            if not control:
                (given if ending == "C" else kept).append(Record(home, at, BEGAN_MS, str(at), "x"))
        bounds[home] = Bounds(0, open_from, len(words))
    return Log((), tuple(given), bounds, {}, hidden=tuple(kept), batches=tuple(batches))


def test_an_aborted_row_that_is_read(judge: Judge) -> None:
    """The reader is given one of three rows whose transaction was aborted."""
    log = shown(clean().with_aborted(0, 24, 27, 30), 27)

    example = Example("aborted read", 0, 11, 27, BEGAN_MS + 27, "its transaction was aborted")
    counts = NONE | {"aborted read": 1, "aborted": 2}
    assert judge("atomicity", log) == Finding("atomicity", "sink", Verdict.INVALID, 1, 27, counts, (example,))


def test_first_and_last_of_an_aborted_block_and_beside_markers(judge: Judge) -> None:
    """Blocks at the end of two partitions; each row of one that borders on a marker."""
    log = shown(clean().with_aborted(0, 24, 27, 30).with_aborted(0, 33).with_aborted(2, 26, 29), 24, 30, 33, 26, 29)

    finding = judge("atomicity", log)

    assert (finding.count, finding.counts) == (5, NONE | {"aborted read": 5, "aborted": 1})
    assert [(one.partition, one.offset) for one in finding.examples] == [(0, 10), (0, 12), (0, 14), (2, 210), (2, 211)]


def test_aborted_rows_that_no_reader_sees(judge: Judge) -> None:
    """As it should be; they are counted."""
    log = clean().with_aborted(0, 3, 6, 24).with_aborted(1, 25)

    assert judge("atomicity", log) == Finding("atomicity", "sink", Verdict.VALID, 0, 28, NONE | {"aborted": 4})


def test_a_transaction_that_is_not_ended(judge: Judge) -> None:
    """It hides the end, so nothing is decided; one that hangs in two partitions is two."""
    finding = judge("atomicity", clean().with_open_transaction(0).with_open_transaction(2))

    assert (finding.verdict, finding.checked, finding.counts) == (Verdict.UNKNOWN, 24, NONE | {"open": 2, "not ended": 2})


def test_a_producer_that_hangs_in_two_partitions_hangs_twice(judge: Judge) -> None:
    """Two rows of it in one partition are one; each partition has a last stable offset of its own."""
    places = ((0, 0), (0, 1), (1, 0))
    rows = tuple(Record(*place, BEGAN_MS, "0", "x") for place in places)
    batches = tuple(Batch(home, at, at, 7, 0, transactional=True, control=None) for home, at in places)
    log = Log((), (), {0: Bounds(0, 0, 2), 1: Bounds(0, 0, 1)}, {}, uncommitted=rows, batches=batches)

    assert judge("atomicity", log).counts == NONE | {"open": 3, "not ended": 2}


def test_anomalies_of_all_kinds_are_shown_in_the_order_of_the_log(judge: Judge) -> None:
    """Torn, unaccounted and wrong rows are found by different queries, and told together."""
    log = markers((0, 0, 7, 5, "COMMIT"), (2, 0, 7, 5, "ABORT"), written_under=4)
    log = fixed(log).plus(*log.hidden)
    log = replace(log, bounds={0: Bounds(0, 2, 2), 1: Bounds(4, 5, 5), 2: Bounds(0, 3, 3)})

    finding = judge("atomicity", log)

    assert [(one.partition, one.offset, one.anomaly) for one in finding.examples] == [
        (1, 4, "unaccounted"),
        (2, 0, "aborted read"),
        (2, 1, "torn"),
        (2, 2, "unaccounted"),
    ]


def test_an_open_row_that_is_read(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """The last stable offset is beyond it, though nothing ended its transaction."""
    log = fixed(clean().with_open_transaction(1))
    row = next(row for row in log.all_rows() if row.key == "open")
    log = replace(log.plus(row), bounds=clean().bounds)

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.counts) == (Verdict.INVALID, NONE | {"early read": 1, "not ended": 1})
    assert finding.examples == (Example("early read", 1, 109, None, BEGAN_MS, ANY),)
    assert finding.examples[0].words == snapshot


def test_committed_rows_behind_an_open_transaction_are_not_decided(judge: Judge) -> None:
    """Rows above the last stable offset are open, whichever producer wrote them."""
    log = fixed(clean()).without(16, 19, 22)
    log = replace(log, bounds={**log.bounds, 1: replace(log.bounds[1], lso=106)})

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.checked, finding.counts) == (Verdict.UNKNOWN, 21, NONE | {"open": 3})


def test_the_last_row_below_the_last_stable_offset_is_decided(judge: Judge) -> None:
    """Id 13 is at 105, the last stable offset is 106: nothing hides it."""
    log = fixed(clean()).without(13, 16, 19, 22)
    log = replace(log, bounds={**log.bounds, 1: replace(log.bounds[1], lso=106)})

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.counts) == (Verdict.INVALID, NONE | {"withheld": 1, "open": 3})


def test_a_committed_row_that_is_withheld(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """The first and the last row of a log."""
    finding = judge("atomicity", fixed(clean()).without(0, 23))

    assert finding.counts == NONE | {"withheld": 2}
    assert [(one.partition, one.offset, one.id) for one in finding.examples] == [(0, 0, 0), (2, 208, 23)]
    assert finding.examples[0].words == snapshot


def test_the_two_views_differ(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """In key, value or time, or in being there; null is equal to null."""
    log = clean().changed(0, key=None, value=None)
    log = fixed(log).changed(9, value="82").changed(11, timestamp_ms=0).changed(10, key="11")
    log = log.plus(Record(1, 104, BEGAN_MS, "1", "1"))

    finding = judge("atomicity", log)

    assert (finding.checked, finding.counts) == (25, NONE | {"split view": 4})
    assert [(one.partition, one.offset) for one in finding.examples] == [(0, 3), (1, 103), (1, 104), (2, 203)]
    assert [one.words for one in finding.examples] == snapshot


def test_offsets_that_are_neither_row_nor_marker(judge: Judge) -> None:
    """At the begin, in the middle with a marker between, and at the end; each stretch is one example."""
    log = fixed(clean())
    log = replace(log, batches=tuple(batch._replace(producer_epoch=0) for batch in log.all_batches()))  # none that was fenced
    gone = {(0, 0), (1, 103), (1, 104), (1, 105)}
    log = replace(
        log,
        observed=tuple(row for row in log.observed if (row.partition, row.offset) not in gone),
        uncommitted=tuple(row for row in log.all_rows() if (row.partition, row.offset) not in gone),
        batches=tuple(batch for batch in log.all_batches() if (batch.partition, batch.first_offset) not in gone),
        bounds={**log.bounds, 2: replace(log.bounds[2], lso=212, hw=212)},
    )

    finding = judge("atomicity", log)

    assert (finding.count, finding.counts) == (6, NONE | {"unaccounted": 6})
    assert [(one.partition, one.offset, one.words[:6]) for one in finding.examples] == [
        (0, 0, "1 from"),
        (1, 103, "3 from"),
        (2, 210, "2 from"),
    ]


def test_a_partition_that_is_gone(judge: Judge) -> None:
    """Its offsets are unaccounted though nothing of it was read at all."""
    log = clean(1)
    log = replace(log, bounds={**log.bounds, 7: Bounds(40, 50, 50)}, batches=log.all_batches())

    finding = judge("atomicity", log)

    assert [(one.partition, one.offset, one.words[:7]) for one in finding.examples] == [(7, 40, "10 from")]


def test_a_torn_transaction(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Its epoch was raised to end it, so both markers are of one transaction: one half of it was committed."""
    log = markers((0, 0, 7, 5, "COMMIT"), (2, 0, 7, 5, "ABORT"), written_under=4)

    finding = judge("atomicity", log)

    example = Example("torn", 2, 1, None, None, ANY)
    counts = NONE | {"torn": 1, "aborted": 1}
    assert finding == Finding("atomicity", "sink", Verdict.INVALID, 1, 2, counts, (example,))
    assert finding.examples[0].words == snapshot


@pytest.mark.parametrize("second", [(2, 0, 8, 5, "ABORT"), (2, 0, 7, 6, "ABORT"), (2, 0, 7, 5, "COMMIT")])
def test_two_transactions_are_not_a_torn_one(judge: Judge, second: tuple[int, int, int, int, str]) -> None:
    """The second transaction has another producer, has the next epoch, or ends like the first."""
    log = markers((0, 0, 7, 5, "COMMIT"), second, written_under=4)

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.counts["torn"], finding.note) == (Verdict.VALID, 0, "")


def test_a_producer_that_kept_its_epoch_cannot_be_judged(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """It may have committed one transaction and aborted the next: nothing is claimed, and that is said."""
    log = markers((0, 0, 7, 4, "COMMIT"), (2, 0, 7, 4, "ABORT"), written_under=4)

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.counts) == (Verdict.VALID, NONE | {"aborted": 1, "undecided": 1})
    assert finding.note == snapshot


def test_where_a_writer_said_what_it_was_told_another_verifier_decides(
    spark: SparkSession, snapshot: SnapshotAssertion
) -> None:
    """The note says which."""
    log = markers((0, 0, 7, 4, "COMMIT"), (2, 0, 7, 4, "ABORT"), written_under=4)

    finding = VERIFIERS["atomicity"].check(log.evidence(spark, {"uncommitted", "batches", "told"}))

    assert finding.counts["undecided"] == 0
    assert str(finding.note) == snapshot


def test_each_doubt_is_told(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """One after the other, each once."""
    log = markers((0, 0, 7, 4, "COMMIT"), (2, 0, 7, 4, "ABORT"), written_under=4).with_open_transaction(0)

    finding = judge("atomicity", log)

    assert finding.note == snapshot


def test_in_one_partition_nothing_can_be_torn(judge: Judge) -> None:
    """A producer that kept its epoch committed and aborted there: two transactions, and nothing to note."""
    log = markers((0, 0, 7, 4, "COMMIT"), (0, 1, 7, 4, "ABORT"), written_under=4)

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.counts, finding.note) == (Verdict.VALID, NONE | {"aborted": 1}, "")


@pytest.mark.parametrize("empty", ["5C", "5A"])
def test_a_torn_transaction_with_an_empty_partition(judge: Judge, empty: str, snapshot: SnapshotAssertion) -> None:
    """Nothing was appended to a partition that it had, or retention removed it: the marker is of that transaction too."""
    finding = judge("atomicity", wrote("4 5C", empty, "4 5A"))

    assert (finding.verdict, finding.counts, finding.note) == (Verdict.INVALID, NONE | {"torn": 1, "aborted": 1}, "")
    first = {"5C": (2, 1), "5A": (1, 0)}[empty]
    assert finding.examples == (Example("torn", *first, None, None, ANY),)
    assert finding.examples[0].words == snapshot


@pytest.mark.parametrize("homes", [("5C", "5A"), ("5 5C", "5A"), ("4 5C", "5 5A", "5C")])
def test_empty_partitions_decide_nothing(judge: Judge, homes: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    """No marker has rows, or one ends rows of its own epoch: there may have been two transactions."""
    finding = judge("atomicity", wrote(*homes))

    assert (finding.counts["torn"], finding.counts["undecided"]) == (0, 1)
    assert finding.note == snapshot


def test_a_zombie_write(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Its successor has committed, and commits what the zombie writes after that."""
    finding = judge("atomicity", wrote("5 5C 4 5 5C"))

    example = Example("zombie write", 0, 2, None, None, ANY)
    assert finding == Finding("atomicity", "sink", Verdict.INVALID, 1, 3, NONE | {"zombie write": 1}, (example,))
    assert finding.examples[0].words == snapshot


def test_a_zombie_s_open_transaction_that_its_successor_commits(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Nothing aborted it when the zombie was fenced (before KIP-890)."""
    finding = judge("atomicity", wrote("4 6 6C"))

    example = Example("zombie write", 0, 0, None, None, ANY)
    assert finding == Finding("atomicity", "sink", Verdict.INVALID, 1, 2, NONE | {"zombie write": 1}, (example,))
    assert all(name in finding.examples[0].words for name in ("producer 7 epoch 4", " epoch 6"))
    assert finding.examples[0].words == snapshot


def test_a_zombie_that_has_written_before(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Its own epoch is the highest before its second row, and fences no other writer."""
    finding = judge("atomicity", wrote("4 4 6 6C"))

    assert [one.offset for one in finding.examples] == [0, 1]
    assert all("producer 7 epoch 4" in one.words and " epoch 6" in one.words for one in finding.examples)
    assert [one.words for one in finding.examples] == snapshot


@pytest.mark.parametrize(
    ("homes", "places"),
    [
        (("4 5A 4 6C",), [(0, 2)]),
        (("5A 4 6C",), [(0, 1)]),
        (("6 6A 4 6C",), [(0, 2)]),
        (("5 5C 4 4 5C",), [(0, 2), (0, 3)]),
        (("5 4 5C",), [(0, 1)]),
        (("4 6 4 7C",), [(0, 0), (0, 2)]),
        (("1p 0p",), [(0, 1)]),
        (("5 5C 4p 4 5A",), [(0, 2)]),
        (("3 4 6 7C 7 8C 6 8C", "", "2 2C 1 2C"), [(0, 0), (0, 1), (0, 6), (2, 2)]),
    ],
)
def test_each_write_of_a_zombie(judge: Judge, homes: tuple[str, ...], places: list[tuple[int, int]]) -> None:
    """After a marker or rows that were aborted, of a newer epoch; within a transaction; in none; each counted once."""
    finding = judge("atomicity", wrote(*homes))

    assert (finding.verdict, finding.count, finding.counts["zombie write"]) == (Verdict.INVALID, len(places), len(places))
    assert [(one.partition, one.offset) for one in finding.examples] == places


def test_all_rows_of_a_zombie_are_counted(judge: Judge) -> None:
    """A batch of three is one example, at its first row."""
    log = wrote("5 5C 4 4 4 5C")
    log = replace(log, batches=(*log.all_batches()[:2], log.all_batches()[2]._replace(last_offset=4), log.all_batches()[5]))

    finding = judge("atomicity", log)

    assert (finding.count, finding.checked, len(finding.examples)) == (3, 4, 1)
    assert (finding.examples[0].offset, finding.examples[0].words[:11]) == (2, "3 rows from")


@pytest.mark.parametrize(
    "homes",
    [
        ("4 4 4C 4 4C 4 5A 6 6C", "4 5A 6 6C"),  # fenced while it wrote: the coordinator's ABORT is above its rows
        ("4 4C", "6 6C", "4 5A 6 6C"),  # instances that each wrote to other partitions first
        ("4 5C 5 6C 6 6 7A 7 8C", "5 6C", "7 8C"),  # transactions v2
        ("4 5A 6C 6 7C",),  # markers without rows
        ("5 6A 6 6 6C",),  # from v2 back to v1
        ("5 4C",),  # a marker has no rows, so it is never a zombie's
        ("0p 1p 1p 2p",),  # KIP-360
        ("5 5C 4 5A", "5 5C 4 4 5A 6 6C", "4 6 6A 6 6C"),  # zombies that were aborted
    ],
)
def test_no_zombie_write(judge: Judge, homes: tuple[str, ...]) -> None:
    """Epochs rise when transactions end, and what a zombie wrote may be aborted."""
    finding = judge("atomicity", wrote(*homes))

    assert (finding.verdict, finding.count, finding.counts["zombie write"]) == (Verdict.VALID, 0, 0)


@pytest.mark.parametrize("written", ["5 5C 4", "4 6"])
def test_what_a_zombie_wrote_is_open(judge: Judge, written: str) -> None:
    """Nobody is given it yet."""
    finding = judge("atomicity", wrote(written))

    assert (finding.verdict, finding.count, finding.counts["not ended"]) == (Verdict.UNKNOWN, 0, 1)


def test_epochs_of_other_producers_do_not_fence(judge: Judge) -> None:
    """Another producer's, and those of rows that have none."""
    log = wrote("5 5C 4 4C 5 5C")
    other = tuple(batch._replace(producer_id=8) if batch.producer_epoch == 4 else batch for batch in log.all_batches())

    for sound in (replace(log, batches=other), wrote("5p 4p", producer=-1)):
        assert (judge("atomicity", sound).verdict, judge("atomicity", sound).count) == (Verdict.VALID, 0)


def test_two_producers_take_turns(judge: Judge) -> None:
    """Their rows alternate in one partition; a marker ends the rows of its own producer only."""
    rows = tuple(Record(0, place, BEGAN_MS, str(place), "x") for place in range(4))
    written = tuple(Batch(0, place, place, 7 + place % 2, 0, transactional=True, control=None) for place in range(4))
    ended = tuple(
        Batch(0, 4 + place, 4 + place, 7 + place, 0, transactional=True, control=control)
        for place, control in enumerate(["ABORT", "COMMIT"])
    )
    log = Log((), rows[1::2], {0: Bounds(0, 6, 6)}, {}, hidden=rows[::2], batches=written + ended)

    assert judge("atomicity", log).counts == NONE | {"aborted": 2}
    assert judge("atomicity", shown(log, 2)).counts == NONE | {"aborted": 1, "aborted read": 1}
    assert judge("atomicity", fixed(log).without(3)).counts == NONE | {"aborted": 2, "withheld": 1}


def test_a_block_longer_than_a_bucket(judge: Judge) -> None:
    """An aborted batch of ten thousand offsets hides all of its rows, whichever bucket they fall in."""
    places = (4094, 4095, 4096, 8191, 8192, 9999)
    rows = tuple(Record(0, place, BEGAN_MS, str(place), "x") for place in places)
    batches = (
        Batch(0, 0, 9999, 7, 0, transactional=True, control=None),
        Batch(0, 10_000, 10_000, 7, 0, transactional=True, control="ABORT"),
    )
    log = Log((), rows, {0: Bounds(0, 10_001, 10_001)}, {}, uncommitted=rows, batches=batches)

    finding = judge("atomicity", log)

    assert (finding.counts["aborted read"], finding.counts["unaccounted"]) == (6, 9994)


def test_a_log_without_transactions(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Rows that are in no transaction are committed at once: nothing could be torn, and that is said."""
    rows = tuple(Record(0, place, BEGAN_MS, str(place), "x") for place in range(4))
    batches = tuple(Batch(0, place, place, -1, -1, transactional=False, control=None) for place in range(4))
    log = Log((), rows, {0: Bounds(0, 4, 4)}, {}, batches=batches)

    finding = judge("atomicity", log)

    assert (finding.verdict, finding.counts) == (Verdict.VALID, NONE)
    assert finding.note == snapshot
    assert judge("atomicity", fixed(log).without(2)).counts == NONE | {"withheld": 1}


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by place are shown."""
    finding = judge("atomicity", fixed(clean(120)).without(*range(120)))

    places = [(one.partition, one.offset) for one in finding.examples]
    assert (finding.count, len(places), places) == (120, 32, sorted(places))
