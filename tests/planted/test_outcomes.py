from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from syrupy.assertion import SnapshotAssertion

from tests.planted.examples import EXAMPLES
from tests.planted.log import BEGAN_MS, Judge, Log, Record, Told
from verifiers import VERIFIERS
from verifiers.base import Bounds, Example, Finding, Verdict

NONE = {"not readable": 0, "in part": 0, "aborted readable": 0}


def log(readable: Sequence[str], **transactions: tuple[str, Sequence[str]]) -> Log:
    """Rows with these keys, at offset 0, 1, … of one partition; and the transactions: name -> what was told, its keys."""
    rows = tuple(Record(0, offset, BEGAN_MS + offset, key, "x") for offset, key in enumerate(readable))
    told = tuple(Told(name, told, key) for name, (told, keys) in transactions.items() for key in keys or [None])
    return Log((), rows, {0: Bounds(0, len(rows), len(rows))}, {}, told_rows=told)


def found(finding: Finding) -> Mapping[str, int]:
    """The anomalies that were counted."""
    assert finding.count == sum(finding.counts.values())
    return {kind: count for kind, count in finding.counts.items() if count}


@pytest.mark.parametrize(
    ("readable", "transactions", "anomalies"),
    [
        ("abcd", {"t": ("committed", "ab"), "s": ("committed", "cd")}, {}),
        ("cd", {"t": ("committed", "ab"), "s": ("committed", "cd")}, {"not readable": 1}),
        ("", {"t": ("committed", "ab"), "s": ("committed", "cd")}, {"not readable": 2}),
        ("acd", {"t": ("committed", "ab"), "s": ("committed", "cd")}, {"in part": 1}),
        ("ac", {"t": ("committed", "ab"), "s": ("committed", "cd")}, {"in part": 2}),
        ("a", {"t": ("committed", "ab"), "s": ("committed", "cd")}, {"not readable": 1, "in part": 1}),
        ("abcd", {"t": ("aborted", "ab"), "s": ("committed", "cd")}, {"aborted readable": 1}),
        ("bcd", {"t": ("aborted", "ab"), "s": ("committed", "cd")}, {"in part": 1}),
        ("cd", {"t": ("aborted", "ab"), "s": ("committed", "cd")}, {}),
        ("abcd", {"t": ("unknown", "ab"), "s": ("committed", "cd")}, {}),
        ("cd", {"t": ("unknown", "ab"), "s": ("committed", "cd")}, {}),
        ("bcd", {"t": ("unknown", "ab"), "s": ("committed", "cd")}, {"in part": 1}),
    ],
)
def test_each_key_in_one_transaction(judge: Judge, readable: str, transactions: dict, anomalies: dict) -> None:
    """All, nothing or a part of each can be read."""
    finding = judge("outcomes", log(readable, **transactions))

    assert found(finding) == anomalies
    assert finding.verdict is (Verdict.INVALID if anomalies else Verdict.VALID)
    assert finding.checked == sum(told != "unknown" for told, _ in transactions.values())


@pytest.mark.parametrize(
    ("readable", "anomalies"),
    [
        ("abcd", {}),
        ("abcdab", {"aborted readable": 1}),
        ("abcdabab", {"aborted readable": 2}),
        ("abcda", {"in part": 1}),
        ("abcdaa", {"in part": 2}),
        ("abcdaab", {"aborted readable": 1, "in part": 1}),
        ("cd", {"in part": 1}),
    ],
)
def test_an_aborted_batch_is_written_again(judge: Judge, readable: str, anomalies: dict) -> None:
    """Aborted twice, then committed in a larger transaction: what is there once is that of the last one."""
    retried = {"t": ("aborted", "ab"), "again": ("aborted", "ab"), "last": ("committed", "abcd")}

    assert found(judge("outcomes", log(readable, **retried))) == anomalies


@pytest.mark.parametrize(
    ("readable", "anomalies"),
    [
        ("ababab", {}),
        ("abab", {"not readable": 1}),
        ("ab", {"not readable": 2}),
        ("ababb", {"in part": 1}),
        ("abb", {"not readable": 1, "in part": 1}),
    ],
)
def test_keys_that_recur(judge: Judge, readable: str, anomalies: dict) -> None:
    """Three transactions of the same keys: which of them is missing cannot be told, how many are can."""
    same = dict.fromkeys("tuv", ("committed", "ab"))

    assert found(judge("outcomes", log(readable, **same))) == anomalies


def test_one_lost_transaction_is_one_although_others_have_its_keys(judge: Judge) -> None:
    """x, y and z of the second are missing; the first and the third have some of them, and are whole."""
    lost = log("xyxyxzz", first=("committed", "xxy"), lost=("committed", "xyz"), third=("committed", "zyxz"))

    finding = judge("outcomes", lost)

    assert found(finding) == {"not readable": 1}
    assert "'lost' (its writer saw it commit)" in finding.examples[0].words


def test_examples_by_place(judge: Judge) -> None:
    """Also the one at offset 0, whatever the names of the transactions are."""
    finding = judge("outcomes", log("bc", z=("aborted", "b"), a=("aborted", "c")))

    assert [one.offset for one in finding.examples] == [0, 1]


@pytest.mark.parametrize(
    ("told", "readable", "whole"), [("committed", "abd", "not readable"), ("aborted", "abc", "aborted readable")]
)
def test_a_whole_transaction_explains_before_a_larger_part(judge: Judge, told: str, readable: str, whole: str) -> None:
    """Three keys of the second are wrong, and only two of the first: but these are all that it has."""
    finding = judge("outcomes", log(readable, small=(told, "ab"), large=(told, "abcd")))

    assert found(finding) == {whole: 1, "in part": 1}


def test_of_two_parts_the_larger_explains(judge: Judge) -> None:
    """The second transaction has all readable rows of the first, so it explains them alone."""
    finding = judge("outcomes", log("abc", small=("aborted", "abx"), large=("aborted", "abcy")))

    assert found(finding) == {"in part": 1}
    assert "'large' (its writer saw it abort)" in finding.examples[0].words


def test_a_key_twice_in_a_transaction(judge: Judge) -> None:
    """It must be there twice."""
    twice = {"t": ("committed", "aab"), "u": ("aborted", "cc")}

    counts = {rows: found(judge("outcomes", log(rows, **twice))) for rows in ("aab", "ab", "aabc", "aabcc")}

    assert counts == {"aab": {}, "ab": {"in part": 1}, "aabc": {"in part": 1}, "aabcc": {"aborted readable": 1}}


@pytest.mark.parametrize("readable", ["abcd", "abcdab", "abcdcd", "abcdabcd", "abcdad", "abcdac"])
def test_what_another_unknown_transaction_may_have_put_there_is_no_alarm(judge: Judge, readable: str) -> None:
    """Two of unknown outcome, of other batches than what was committed in the end; a third one has no known end of either."""
    unknown = {
        "t": ("unknown", "ab"),
        "u": ("unknown", "abcd"),
        "v": ("unknown", "cd"),
        "last": ("committed", "abcd"),
        "gone": ("aborted", "abcd"),
    }

    finding = judge("outcomes", log(readable, **unknown))

    assert (found(finding), finding.verdict, finding.note) == ({}, Verdict.VALID, "")


def test_an_unknown_transaction_in_part_beside_another(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Its a can only be its own, its d is nowhere; of b and c the other one may be the writer."""
    finding = judge("outcomes", log("ab", t=("unknown", "abcd"), u=("unknown", "bc"), s=("aborted", "d")))

    assert found(finding) == {"in part": 1}
    assert finding.examples[0].words == snapshot


def test_a_transaction_that_never_said_its_keys_leaves_a_surplus_undecided(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Rows that look aborted may be its own; missing rows still count."""
    silent = {"t": ("aborted", "ab"), "gone": ("unknown", ""), "s": ("committed", "cd")}

    findings = [judge("outcomes", log(rows, **silent)) for rows in ("cd", "abcd", "abc", "c")]

    note = findings[1].note
    assert note == snapshot
    assert [(one.verdict, found(one), one.note) for one in findings] == [
        (Verdict.VALID, {}, ""),
        (Verdict.UNKNOWN, {}, note),
        (Verdict.INVALID, {"in part": 1}, note),
        (Verdict.INVALID, {"in part": 1}, ""),
    ]


def test_what_an_open_transaction_hides_is_not_missing(judge: Judge) -> None:
    """It may be above the last stable offset; what was aborted and can be read is certain."""
    told = {"t": ("committed", "ab"), "s": ("aborted", "cd"), "r": ("unknown", "ef")}
    hiding = [replace(log(rows, **told), bounds={0: Bounds(0, 9, 10)}) for rows in ("a", "ae", "acd")]

    findings = [judge("outcomes", one) for one in hiding]

    assert [(one.verdict, found(one)) for one in findings] == [
        (Verdict.UNKNOWN, {}),
        (Verdict.UNKNOWN, {}),
        (Verdict.INVALID, {"aborted readable": 1}),
    ]
    assert {one.note for one in findings} == {"an open transaction hides the end of partition 0 (read to offset 9 of 10)"}


def test_what_no_transaction_wrote_is_not_compared(judge: Judge) -> None:
    """Rows of others, rows without a key, and a copy too many of a committed one: other verifiers look at them."""
    more = log("abb?", t=("committed", "ab"))

    assert found(judge("outcomes", more.plus(Record(0, 9, BEGAN_MS, None, "x")))) == {}


def test_only_transactions_of_unknown_outcome_prove_nothing(judge: Judge) -> None:
    """Nothing was promised."""
    finding = judge("outcomes", log("ab", t=("unknown", "ab"), u=("aborted", "")))

    assert (finding.verdict, finding.checked, finding.note) == (Verdict.UNKNOWN, 0, "nothing was compared")


def test_examples_name_transaction_keys_and_places(judge: Judge) -> None:
    """A present row has the place of its last copy, a missing row has none."""
    wrong = log(
        "ayzaybc", lost=("committed", "mnop"), half=("committed", "zqq"), bad=("aborted", "ay"), right=("committed", "aybc")
    )

    finding = judge("outcomes", wrong)

    assert finding == Finding(
        "outcomes",
        "sink",
        Verdict.INVALID,
        3,
        4,
        {"not readable": 1, "in part": 1, "aborted readable": 1},
        (
            Example(
                "not readable",
                -1,
                None,
                None,
                None,
                "transaction 'lost' (its writer saw it commit): 4 of its 4 keys are missing; missing: 'm', 'n', 'o'",
            ),
            Example(
                "in part",
                0,
                2,
                None,
                BEGAN_MS + 2,
                "transaction 'half' (its writer saw it commit): 2 of its 3 keys are missing; "
                "readable: 'z' (partition 0 offset 2); missing: 'q'",
            ),
            Example(
                "aborted readable",
                0,
                3,
                None,
                BEGAN_MS + 3,
                "transaction 'bad' (its writer saw it abort): 2 of its 2 keys can be read; "
                "readable: 'a' (partition 0 offset 3), 'y' (partition 0 offset 4)",
            ),
        ),
    )


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, 32 are shown."""
    many = {f"t{number:02}": ("committed", [f"k{number}"]) for number in range(40)}

    finding = judge("outcomes", log((), **many))

    assert (finding.count, len(finding.examples)) == (40, 32)


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, tuple[str, list[str]]], list[str]]:
    """Transactions of few keys or of many, retried until one is committed, each told its outcome or not; and what is there."""
    keys = st.integers(0, draw(st.sampled_from([3, 40]))).map(lambda number: f"customer-{number}")
    transactions, readable = {}, []
    for number in range(draw(st.integers(0, 8))):
        batch = draw(st.lists(keys, max_size=6))
        attempts = draw(st.integers(0, 2))
        for attempt, outcome in enumerate([*["aborted"] * attempts, draw(st.sampled_from(["committed", "aborted"]))]):
            told = draw(st.sampled_from([outcome, outcome, "unknown"]))
            transactions[f"t{number}-{attempt}"] = (told, batch)
            readable += batch if outcome == "committed" else []
            batch = batch[: draw(st.integers(0, len(batch)))] + draw(st.lists(keys, max_size=2))
    return transactions, draw(st.permutations(readable))


@EXAMPLES
@given(history=histories())
def test_whatever_a_sound_broker_does_is_no_alarm(spark: SparkSession, history: tuple) -> None:
    """Whether the writer learned of it or not, and however often keys recur."""
    transactions, readable = history

    finding = VERIFIERS["outcomes"].check(log(readable, **transactions).evidence(spark, {"told"}))

    assert (finding.count, found(finding)) == (0, {})


@st.composite
def lies(draw: st.DrawFn) -> tuple[dict[str, tuple[str, list[str]]], list[str]]:
    """Transactions that share no key, told anything, with any part of them there."""
    transactions, readable = {}, []
    for number in range(draw(st.integers(1, 8))):
        batch = [f"{number}-{place}" for place in range(draw(st.integers(1, 4)))]
        transactions[f"t{number}"] = (draw(st.sampled_from(["committed", "aborted", "unknown"])), batch)
        readable += batch[: draw(st.sampled_from([0, len(batch), draw(st.integers(0, len(batch)))]))]
    return transactions, readable


@EXAMPLES
@given(history=lies())
def test_without_shared_keys_every_count_is_exact(spark: SparkSession, history: tuple) -> None:
    """Judged a second time by plain Python, word by word."""
    transactions, readable = history
    there = defaultdict(int, Counter(key.split("-")[0] for key in readable))
    expected = Counter[str]()
    for name, (told, keys) in transactions.items():
        share = there[name[1:]]
        if 0 < share < len(keys):
            expected["in part"] += 1
        elif told == "committed" and not share:
            expected["not readable"] += 1
        elif told == "aborted" and share:
            expected["aborted readable"] += 1

    finding = VERIFIERS["outcomes"].check(log(readable, **transactions).evidence(spark, {"told"}))

    assert dict(finding.counts) == NONE | expected
