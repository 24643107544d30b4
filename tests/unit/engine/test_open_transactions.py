"""How long a run waits for transactions that its pipeline left open; brokers are played, and the clock is real."""

from itertools import chain, repeat

import pytest

from chaos.cluster.protocol import OpenTransaction
from chaos.common.errors import InconclusiveError
from chaos.contract.base import Topic
from chaos.engine import open_transactions
from chaos.engine.open_transactions import wait_until_decided
from tests.unit.engine.played import FakeEnds
from verifiers.base import Bounds

OUTPUT = Topic("copies", 2)
TIMEOUT_MS = 100


def opened(age_ms, state="CompleteAbort", timeout_ms=TIMEOUT_MS, first_offset=3):
    """A transaction whose last batch is so old; its coordinator has this state for it."""
    listed = state == "Ongoing"
    return OpenTransaction(0, 7, 0, first_offset, 1_000_000, 1_000_000 + age_ms, "copy", state, 7, 0, timeout_ms, listed)


def looks(*found):
    """What the brokers say, one look after the other, and the last for ever; and the looks that were taken."""
    answers, taken = chain(found[:-1], repeat(found[-1])), []

    def look():
        answer = next(answers)
        taken.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look, taken


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(open_transactions, "_EVERY_S", 0.01)


@pytest.mark.parametrize(
    ("found", "count"),
    [
        ([[]], 1),
        ([[opened(101)]], 1),  # nothing ends it, and its time is over
        ([[opened(100)], [opened(101)]], 2),  # too young to say so
        ([[opened(500, "Ongoing")], [opened(510, "Ongoing")], []], 3),  # its coordinator ends it
        ([[opened(101), opened(99)], [opened(102), opened(101)]], 2),  # the youngest decides
        ([[opened(50)], [opened(1, first_offset=9)]], 2),  # another program goes on writing
        ([InconclusiveError("no leader now"), []], 2),
        ([[opened(0, timeout_ms=60_001)]], 1),  # nobody waits for that long
    ],
)
def test_a_run_looks_until_all_are_decided(found, count):
    look, taken = looks(*found)

    wait_until_decided(look, within_s=60)

    assert len(taken) == count


@pytest.mark.parametrize("found", [[opened(0)], InconclusiveError("no leader now")])
def test_what_is_never_decided_does_not_keep_a_run(found):
    """The output is read as it is, and the verifier says UNKNOWN."""
    look, taken = looks(found)

    wait_until_decided(look, within_s=0.2)

    assert len(taken) > 1


def test_a_transaction_with_the_timeout_of_most_clients_is_waited_for():
    assert open_transactions.WITHIN_S > 60 + 10


def test_only_partitions_with_an_open_transaction_are_asked_about(monkeypatch):
    asked = []
    monkeypatch.setattr(open_transactions.protocol, "open_transactions", lambda *words: asked.append(words) or [opened(0)])
    ended, open_ = Bounds(0, 5, 5), Bounds(0, 3, 5)

    def found(ends):
        kafka = FakeEnds({"copies": ends})
        kafka.bootstrap = "127.0.0.1:9092"
        return open_transactions.of_output(kafka, OUTPUT)

    assert found({0: ended, 1: open_}) == [opened(0)]
    assert found({0: ended, 1: ended}) == []
    assert asked == [("127.0.0.1:9092", "copies", [1])]
