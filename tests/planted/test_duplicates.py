from dataclasses import replace

from pyspark.sql import SparkSession

from tests.planted.log import BEGAN_MS, Batch, Judge, Log, Record, clean
from verifiers import VERIFIERS, duplicates
from verifiers.base import Example, Finding, Verdict

RETRY = f"; cause: {duplicates.RETRY}"


def test_a_record_written_twice(judge: Judge) -> None:
    """The second in the log is the one too many, and it says where the first is."""
    log = clean().again(9, 10)

    example = Example("duplicate", 0, 10, 9, BEGAN_MS + 9, "also at offset 3" + RETRY, since_ms=BEGAN_MS + 9)
    assert judge("duplicates", log) == Finding("duplicates", "sink", Verdict.INVALID, 1, 25, {"duplicate": 1}, (example,))


def test_the_producers_of_both_copies_are_named(spark: SparkSession) -> None:
    """Where the batches were landed: the second copy is that of a later epoch, and what has no producer id says nothing."""
    first, second = (
        Batch(0, 0, 9, 7, 1, transactional=True, control=None),
        Batch(0, 10, 10, 7, 2, transactional=True, control=None),
    )
    log = clean().again(9, 10)
    for batches, said in (
        ((first, second), "; written by producer 7 epoch 2, the copy before it by producer 7 epoch 1"),
        ((first, second._replace(producer_epoch=1)), "; both written by producer 7 epoch 1"),
        ((first._replace(producer_id=-1), second), "; written by producer 7 epoch 2"),
        ((first, second._replace(control="COMMIT")), "; the copy before it by producer 7 epoch 1"),
        ((first._replace(partition=1), second._replace(partition=1)), ""),
    ):
        finding = VERIFIERS["duplicates"].check(replace(log, batches=batches).evidence(spark, {"batches"}))

        assert [one.words for one in finding.examples] == ["also at offset 3" + RETRY + said]


def test_the_first_and_the_last_record_of_a_partition(judge: Judge) -> None:
    """The ends of a log are where a check by ranges would miss one; offset 109 is a marker's."""
    finding = judge("duplicates", clean().again(0, 10).again(22, 109))

    assert (finding.count, [(one.id, one.offset, one.words) for one in finding.examples]) == (
        2,
        [(0, 10, "also at offset 0" + RETRY), (22, 109, "also at offset 108" + RETRY)],
    )


def test_three_copies_are_two_too_many(judge: Judge) -> None:
    """Each surplus record is counted and names both others."""
    finding = judge("duplicates", clean().again(9, 10, 12))

    assert (finding.count, finding.checked) == (2, 26)
    assert [one.words for one in finding.examples] == [
        "also at offset 3, offset 12" + RETRY,
        "also at offset 3, offset 10" + RETRY,
    ]


def test_a_copy_in_another_partition(judge: Judge) -> None:
    """It is a duplicate wherever it is, and the other partition is named."""
    finding = judge("duplicates", clean().again(9, 110, partition=1))

    assert [(one.partition, one.offset, one.words) for one in finding.examples] == [
        (1, 110, "also at partition 0 offset 3; cause: other partition")
    ]


def test_the_lower_partition_comes_first(judge: Judge) -> None:
    """Offsets of two partitions cannot be compared: of 0 at 200 and 1 at 100, the one in partition 1 is the surplus."""
    finding = judge("duplicates", clean().again(1, 200, partition=0))

    assert [(one.partition, one.offset, one.words) for one in finding.examples] == [
        (1, 100, "also at partition 0 offset 200; cause: other partition")
    ]


def test_a_record_there_very_often(judge: Judge) -> None:
    """The detail stays one short line however often the record is there."""
    finding = judge("duplicates", clean().again(9, *range(10, 30)))

    assert finding.count == 20
    assert finding.examples[0].words == "also at offset 3, offset 11, offset 12, offset 13, offset 14 and 15 more" + RETRY
    assert finding.examples[-1].detail == "also at offset 25, offset 26, offset 27, offset 28 and 16 more" + RETRY


def test_a_whole_log_written_again(judge: Judge) -> None:
    """All are counted; the examples are the first 32 by place."""
    log = clean(60)
    again = (record._replace(offset=record.offset + 40) for record in log.observed)

    finding = judge("duplicates", log.plus(*again))

    assert (finding.count, finding.checked, len(finding.examples)) == (60, 120, 32)
    places = [(one.partition, one.offset) for one in finding.examples]
    assert (places[0], places[20], places[31]) == ((0, 40), (1, 140), (1, 153))
    assert places == sorted(places)


def test_the_same_value_twice_is_no_duplicate(judge: Judge) -> None:
    """The square of 3 and of -3 is the same: only a key identifies."""
    finding = judge("duplicates", clean().changed(3, value="36"))

    assert finding == Finding("duplicates", "sink", Verdict.VALID, 0, 24, {"duplicate": 0})


def test_keys_that_are_not_ids_are_not_copies(judge: Judge) -> None:
    """Two records without a key have no identity that could be there twice."""
    log = clean().changed(3, key=None).changed(6, key=None).changed(9, key="x").changed(12, key="x")

    assert judge("duplicates", log) == Finding("duplicates", "sink", Verdict.VALID, 0, 20, {"duplicate": 0})


def rewritten(log: Log, later_ms: int, **places: int) -> Log:
    """Records are there again, ``id9=12`` at offset 12, written later."""
    return log.plus(
        *(log.record(int(id_[2:]))._replace(offset=offset, timestamp_ms=BEGAN_MS + later_ms) for id_, offset in places.items())
    )


def test_a_batch_written_again_in_the_only_partition(judge: Judge) -> None:
    """The neighbours of 5 are 4 and 6, not 3 and 7."""
    finding = judge("duplicates", rewritten(clean(8, 1), 500, id5=10, id6=11))

    assert [one.words for one in finding.examples] == [
        "also at offset 6; cause: replay (also of id 6, +495 ms)",
        "also at offset 7; cause: replay (also of id 5, +494 ms)",
    ]


def test_copies_without_timestamps(judge: Judge) -> None:
    """Timestamps that are both unknown are not equal ones: not a producer retry; neighbours still show a replay."""
    log = rewritten(clean(), 500, id3=10, id15=11, id18=12)
    timeless = replace(log, observed=tuple(row._replace(timestamp_ms=None) for row in log.observed))

    finding = judge("duplicates", timeless)

    assert [one.words for one in finding.examples] == [
        "also at offset 1; cause: unknown (without timestamps)",
        "also at offset 6; cause: replay (also of id 18, without timestamps)",
        "also at offset 7; cause: replay (also of id 15, without timestamps)",
    ]


def test_a_batch_written_again_is_a_replay(judge: Judge) -> None:
    """Another timestamp, and the neighbours in the source's order are there again: a task or a batch was done twice."""
    finding = judge("duplicates", rewritten(clean(), 500, id15=10, id18=11, id21=12))

    assert [one.words for one in finding.examples] == [
        "also at offset 6; cause: replay (also of id 18, +485 ms)",
        "also at offset 7; cause: replay (also of id 15 and 21, +482 ms)",
        "also at offset 8; cause: replay (also of id 18, +479 ms)",
    ]


def test_a_cause_that_nothing_tells(judge: Judge) -> None:
    """One record, later, alone: its neighbour is there again too, but in another partition."""
    log = rewritten(clean(), 500, id15=10).again(18, 110, partition=1)

    finding = judge("duplicates", log)

    assert [one.words for one in finding.examples] == [
        "also at offset 6; cause: unknown (+485 ms)",
        "also at partition 0 offset 7; cause: other partition",
    ]


def test_the_copy_before_decides_the_cause(judge: Judge) -> None:
    """The last of three copies is a retry of the second, which nothing explains."""
    log = rewritten(clean(), 500, id9=10)

    finding = judge("duplicates", log.plus(log.observed[-1]._replace(offset=11)))

    assert [one.words.partition("; ")[2] for one in finding.examples] == [
        "cause: unknown (+491 ms)",
        RETRY.removeprefix("; "),
    ]


def test_the_largest_id_twice(judge: Judge) -> None:
    """The one after it would be no long any more."""
    largest = Record(0, 20, BEGAN_MS, str(2**63 - 1), "9")

    finding = judge("duplicates", clean().plus(largest, largest._replace(offset=21, timestamp_ms=BEGAN_MS + 1)))

    assert (finding.verdict, finding.count) == (Verdict.INVALID, 1)
    assert [(one.id, one.offset) for one in finding.examples] == [(2**63 - 1, 21)]


def test_what_is_beside_the_largest_id(judge: Judge) -> None:
    """A record that is there again as well, as of any other id."""
    once = [Record(0, 20 + place, BEGAN_MS, str(id_), "9") for place, id_ in enumerate((2**63 - 4, 2**63 - 1))]
    again = [row._replace(offset=row.offset + 2, timestamp_ms=BEGAN_MS + 1) for row in once]

    finding = judge("duplicates", clean().plus(*once, *again))

    assert [one.words for one in finding.examples] == [
        f"also at offset 20; cause: replay (also of id {2**63 - 1}, +1 ms)",
        f"also at offset 21; cause: replay (also of id {2**63 - 4}, +1 ms)",
    ]


def test_one_place_twice(judge: Judge) -> None:
    """No log holds two records at an offset: the same rows were landed twice."""
    log = clean()

    finding = judge("duplicates", log.plus(log.record(9)))

    assert (finding.verdict, finding.count) == (Verdict.INVALID, 1)
    assert finding.examples[0].words == f"also at offset 3; cause: {duplicates.LANDED_TWICE}"
