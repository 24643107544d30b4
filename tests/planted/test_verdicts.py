from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from unittest.mock import ANY

import pytest
from pyspark.sql import SparkSession
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Commit, Judge, Log, Open, clean
from verifiers import VERIFIERS
from verifiers.base import Bounds, Finding, Verdict

LOOKED = (  # partition, its number, end, asked, answered
    (0, 0, 0, BEGAN_MS + 200, BEGAN_MS),
    (0, 1, 10**4, BEGAN_MS + 900, BEGAN_MS + 260),
    *((home, 0, 10**4, BEGAN_MS, BEGAN_MS) for home in (1, 2)),
)
REACHED = (  # partition, position, committed, producer: the one past record 0 comes before its row
    (0, 1, BEGAN_MS + 140, -1),
    (0, 10**6, BEGAN_MS + 300, -1),
    *((home, 10**6, BEGAN_MS + 1, -1) for home in (1, 2)),
)
PLANTED = {
    "duplicates": lambda log: log.again(21, 9),
    "gaps": lambda log: log.without(9),
    "ordering": lambda log: log.swapped(13, 16),
    "values": lambda log: log.changed(5, value="x"),
    "atomicity": lambda log: replace(log, uncommitted=(*log.all_rows()[:-1], log.all_rows()[-1]._replace(value="y"))),
    "offsets": lambda log: log.with_positions({**log.positions, 2: 7}),
    "ledger": lambda log: log.told(16, "ok", 1, 99),
    "stability": lambda log: replace(log, again_read=log.observed[1:]),
    "hanging": lambda log: replace(log, open_transactions=(Open(0, timeout_ms=999, coordinator_state="Empty", listed=False),)),
    "outcomes": lambda log: log.with_told(12, "aborted"),
    "deliveries": lambda log: log.not_delivered(15),
    "commits": lambda log: replace(log, committed=(Commit(0, 1, 9), Commit(0, 2, 8))),
    "precedence": lambda log: replace(log, looked=LOOKED, reached=REACHED),
}


def compared(name: str, records: int) -> int:
    """The findings of a clean log; `hanging` looks at partitions that are not empty."""
    return min(records, 3) if name == "hanging" else records


@pytest.mark.parametrize("name", VERIFIERS)
@pytest.mark.parametrize("records", [24, 2, 1])
def test_a_clean_log_is_valid(judge: Judge, name: str, records: int) -> None:
    """Markers make holes in its offsets, it does not begin at 0, and with few records some partitions are empty."""
    finding = judge(name, clean(records))

    assert (finding.verifier, finding.subject, finding.verdict, finding.note) == (name, "sink", Verdict.VALID, "")
    assert (finding.count, finding.checked) == (0, compared(name, records))
    assert (set(finding.counts.values()), finding.examples) == ({0}, ())
    assert set(VERIFIERS[name].anomalies) <= set(finding.counts)


@pytest.mark.parametrize("name", VERIFIERS)
def test_nothing_at_all_proves_nothing(judge: Judge, name: str) -> None:
    """A run in which nothing was demanded and nothing was written is not green."""
    finding = judge(name, clean(0))

    assert (finding.verdict, finding.checked, finding.note) == (Verdict.UNKNOWN, 0, "nothing was compared")


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_log_without_partitions_proves_nothing(judge: Judge, name: str) -> None:
    """Nothing was written, and there is nowhere that it could be."""
    finding = judge(name, Log((), (), {}, {}, lines=()))

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.UNKNOWN, 0, 0)


@pytest.mark.parametrize(("name", "view"), [(name, view) for name, one in VERIFIERS.items() for view in sorted(one.views)])
def test_a_view_that_was_not_landed(spark: SparkSession, name: str, view: str, snapshot: SnapshotAssertion) -> None:
    """A verifier that needs it says so and proves nothing; the others never see it."""
    finding = VERIFIERS[name].check(clean().evidence(spark, VERIFIERS[name].views - {view}))

    assert finding == Finding(name, "sink", Verdict.UNKNOWN, 0, 0, note=ANY)
    assert finding.note == snapshot


def test_a_log_with_aborted_blocks_and_an_expired_begin_is_valid(judge: Judge) -> None:
    """Aborted ids that are committed elsewhere, a partition that begins with markers, another in which all expired."""
    log = clean().with_aborted(0, 3, 6, 24).with_aborted(0, 9).with_aborted(2, 26)
    log = replace(log, bounds={**log.bounds, 1: replace(log.bounds[1], low=97), 3: Bounds(500, 500, 500)})

    found = {name: judge(name, log) for name in VERIFIERS if name != "ordering"}  # P would be 4

    assert {name: (finding.verdict, finding.count) for name, finding in found.items()} == dict.fromkeys(
        found, (Verdict.VALID, 0)
    )
    assert found["atomicity"].counts["aborted"] == 5


@pytest.mark.parametrize("name", ["duplicates", "ordering", "values", "atomicity", "stability", "deliveries", "commits"])
def test_an_empty_log_has_nothing_to_compare(judge: Judge, name: str) -> None:
    """That records are missing is for gaps to say."""
    assert judge(name, clean().without(*range(24))).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("name", VERIFIERS)
def test_an_open_transaction_hides_the_end(judge: Judge, name: str) -> None:
    """Rows above the last stable offset were not read, so right visible rows are not enough."""
    finding = judge(name, clean().with_open_transaction(2).with_open_transaction(1))

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.UNKNOWN, 0, compared(name, 24))
    assert finding.note == (
        "an open transaction hides the end of partition 1 (read to offset 109 of 110), partition 2 (read to offset 209 of 210)"
    )


@pytest.mark.parametrize("name", VERIFIERS)
def test_what_was_seen_stays_seen(judge: Judge, name: str) -> None:
    """An anomaly below the last stable offset is one, whatever is above: INVALID is not softened to UNKNOWN."""
    finding = judge(name, PLANTED[name](clean()).with_open_transaction(2))

    assert (finding.verdict, finding.count) == (Verdict.INVALID, 1)
    assert sum(finding.counts[anomaly] for anomaly in VERIFIERS[name].anomalies) == 1
    assert str(finding.note).startswith("an open transaction")


def planted(names: Iterable[str]) -> Log:
    """A log with these anomalies."""
    log = clean()
    for name in names:
        log = PLANTED[name](log)
    return log


ALSO = {"gaps": {"offsets"}}  # by definition: what is lost is behind the position


@pytest.mark.parametrize("names", [*((name,) for name in PLANTED), tuple(PLANTED)], ids=" and ".join)
def test_one_anomaly_and_all_at_once(judge: Judge, names: tuple[str, ...]) -> None:
    """Each verifier counts its own and nothing of the others'."""
    log = planted(names)

    counts = {name: judge(name, log).count for name in VERIFIERS}

    assert counts == {name: (name in names) + sum(name in ALSO.get(other, ()) for other in names) for name in VERIFIERS}


@pytest.mark.nightly  # the gate plants each of them alone, and all at once
@pytest.mark.parametrize("names", list(combinations(PLANTED, 2)), ids=" and ".join)
def test_two_anomalies_at_once(judge: Judge, names: tuple[str, ...]) -> None:
    """Neither hides the other."""
    log = planted(names)

    counts = {name: judge(name, log).count for name in names}

    assert counts == {name: 1 + sum(name in ALSO.get(other, ()) for other in names) for name in names}


def test_all_reasons_are_told(judge: Judge) -> None:
    """Nothing compared and a transaction open: a reader must know both."""
    log: Log = replace(clean(24).without(*range(24)), expected=()).with_open_transaction(0)

    finding = judge("values", log)

    assert finding.note == "nothing was compared; an open transaction hides the end of partition 0 (read to offset 9 of 10)"
