import json
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipelines import kafka
from pipelines.messages import ThrottledEvents
from pipelines.transactional import transactions as ctp_transactions
from pipelines.transactional.delivery import Batch, BrokenError, FencedError, Place, RowsError
from pipelines.transactional.options import Options
from pipelines.transactional.transactions import Transactions

BATCH = Batch([(0, b"2", b"4")], {0: 1})
FENCED = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
AFTER_FATAL = KafkaError(KafkaError._FATAL, "fatal")
ABORTABLE = KafkaError(KafkaError.ILLEGAL_GENERATION, "generation", txn_requires_abort=True)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True)
FATAL = KafkaError(KafkaError.INVALID_TXN_STATE, "state", fatal=True)


@dataclass
class Broker:
    """Answers each call as it is told, after a time on a clock of its own, and records which producer was called."""

    errors: dict[str, list[KafkaError]] = field(default_factory=dict)
    takes_s: dict[str, float] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    words: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    hangs: dict[str, Event] = field(default_factory=dict)
    now_s: float = 0.0
    producers: int = 0

    def producer(self, _settings: dict[str, Any]) -> "Producer":
        self.producers += 1
        return Producer(self, self.producers)

    def consumer_group_metadata(self) -> str:
        return "metadata"


@dataclass
class Producer:
    """One of the broker's clients."""

    broker: Broker
    number: int

    def __getattr__(self, name: str) -> Any:
        def call(*words: object, **_options: object) -> None:
            broker = self.broker
            broker.calls.append(f"{name}-{self.number}")
            broker.words[name] = words
            if name in broker.hangs:
                broker.hangs[name].wait(300)
            broker.now_s += broker.takes_s.get(name, 0.001)
            if broker.errors.get(name):
                raise KafkaException(broker.errors[name].pop(0))

        return call


@pytest.fixture
def broker(monkeypatch):
    """A stand-in for a broker, which does not fail on demand."""
    stand_in = Broker()
    monkeypatch.setattr(ctp_transactions, "Producer", stand_in.producer)
    monkeypatch.setattr(ctp_transactions, "monotonic_s", lambda: stand_in.now_s)
    return stand_in


def deliver(broker, stopped=lambda: False, **options):
    """Deliver one batch by a fresh worker; returns the result."""
    chosen = Options(retry_backoff_ms=250, **options)
    transactions = Transactions(0, chosen, Place("link", "source", "sink", "source-ctp"), ThrottledEvents(), stopped)
    transactions.prepare()
    return transactions.deliver(BATCH, broker)


def test_rows_and_positions_are_one_transaction(broker):
    """The group can refuse it, because the member's generation is in it."""
    assert deliver(broker) == ""

    order = "begin_transaction produce flush send_offsets_to_transaction commit_transaction"
    assert broker.calls[-5:] == [f"{name}-1" for name in order.split()]
    [position], metadata, _within_s = broker.words["send_offsets_to_transaction"]
    assert (position.topic, position.partition, position.offset, metadata) == ("source", 0, 1, "metadata")


@pytest.mark.parametrize("call", ["commit_transaction", "send_offsets_to_transaction"])
@pytest.mark.parametrize(("takes_s", "producers"), [(0.198, 1), (0.2, 2)])
def test_what_took_as_long_as_a_retry_costs_the_producer_its_epoch(broker, call, takes_s, producers):
    """250 ms less a fifth: a second request may still be under way. The transaction is committed nevertheless."""
    broker.takes_s[call] = takes_s

    assert deliver(broker) == ""
    assert broker.producers == producers
    assert (broker.calls[-1] == "init_transactions-2") == (producers == 2)


def test_positions_without_a_member_are_those_of_nobody(broker, monkeypatch):
    """Another consumer's metadata has the name of the group and no generation, so the group can refuse nothing."""
    nobody = SimpleNamespace(consumer_group_metadata=lambda: "nobody's metadata")
    made = []
    monkeypatch.setattr(ctp_transactions, "Consumer", lambda settings: made.append(settings) or nobody)

    assert deliver(broker, group_metadata="left_out") == ""

    assert broker.words["send_offsets_to_transaction"][1] == "nobody's metadata"
    assert [settings["group.id"] for settings in made] == ["source-ctp"]


def test_rows_may_come_late(broker):
    """Their sequence numbers distinguish them from new ones."""
    broker.takes_s["flush"] = 3.0

    deliver(broker)

    assert broker.producers == 1


def test_one_producer_per_process_resumes_what_timed_out(broker):
    """As librdkafka demands; so the epoch of the late request stays valid."""
    broker.errors["commit_transaction"] = [TIMED_OUT, TIMED_OUT]
    broker.takes_s["commit_transaction"] = 6.0

    assert deliver(broker, producer_per="process") == ""
    assert broker.calls.count("commit_transaction-1") == 3
    assert broker.producers == 1


def test_a_commit_with_no_answer_is_settled_by_the_next_producer(broker):
    """Its outcome is open, so the batch is read again from the position that the group has then."""
    broker.errors["commit_transaction"] = [TIMED_OUT]

    assert deliver(broker).startswith("its outcome was open: ")
    assert broker.calls[-1] == "init_transactions-2"
    assert "abort_transaction-1" not in broker.calls


def test_a_producer_that_hangs_is_left_to_itself(broker, monkeypatch):
    """The library may not return for minutes; the next producer fences the one that hangs."""
    never = Event()
    monkeypatch.setattr(broker, "hangs", {"send_offsets_to_transaction": never})
    monkeypatch.setattr(kafka, "_GRACE_S", -5.95)

    failed = deliver(broker)
    never.set()

    assert failed.startswith("send_offsets_to_transaction did not return within 0.05 s")
    assert broker.calls[-1] == "init_transactions-2"
    assert not {"commit_transaction-1", "abort_transaction-1"} & set(broker.calls)


def test_an_abortable_error_is_aborted_with_the_same_producer(broker):
    """For example, if the group gave the partitions to another member."""
    broker.errors["send_offsets_to_transaction"] = [ABORTABLE]

    assert "generation" in deliver(broker)
    assert (broker.calls[-1], broker.producers) == ("abort_transaction-1", 1)


def test_an_abort_that_took_long_costs_the_epoch_too(broker):
    """An abort is an EndTxn as well: a late one rolls the next transaction back."""
    broker.errors["send_offsets_to_transaction"] = [ABORTABLE]
    broker.takes_s["abort_transaction"] = 1.0

    deliver(broker)

    assert broker.producers == 2


def test_a_fatal_error_needs_a_new_producer(broker):
    """A client instance never recovers from one."""
    broker.errors["commit_transaction"] = [FATAL]

    assert deliver(broker, producer_per="process").startswith("its outcome was open: ")
    assert broker.producers == 2


@pytest.mark.parametrize("call", ["begin_transaction", "flush", "commit_transaction"])
def test_a_worker_that_is_fenced_does_not_fence_back(broker, call):
    """A new producer would take the epoch away from its successor."""
    broker.errors[call] = [FENCED]

    with pytest.raises(FencedError):
        deliver(broker)

    assert broker.producers == 1


def test_after_produce_only_the_next_call_tells_that_it_was_fenced(broker):
    """The error of `produce` says only that there was a fatal error."""
    broker.errors["produce"] = [AFTER_FATAL]
    broker.errors["abort_transaction"] = [FENCED]

    with pytest.raises(FencedError):
        deliver(broker)

    assert broker.producers == 1


def test_it_gives_up_after_many_producers(broker):
    """If no producer can be initialised, people have to know."""
    broker.errors["init_transactions"] = [TIMED_OUT] * 100

    with pytest.raises(BrokenError, match="10 new producers in a row"):
        deliver(broker)

    assert broker.producers == 11


def test_a_failure_by_chance_is_written_first_and_then_aborted(broker):
    """A reader of uncommitted data must find it."""
    assert deliver(broker, transaction_failure_probability=1.0) == "chance"
    assert [call.rpartition("-")[0] for call in broker.calls[-3:]] == ["produce", "flush", "abort_transaction"]


def stated(capsys):
    """The reports about transactions, each line once."""
    return [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "event" not in line]


@pytest.mark.parametrize(
    ("errors", "options", "told"),
    [
        ({}, {}, "committed"),
        ({}, {"transaction_failure_probability": 1.0}, "aborted"),
        ({"commit_transaction": [TIMED_OUT]}, {}, "unknown"),
        ({"commit_transaction": [TIMED_OUT]}, {"producer_per": "process"}, "committed"),
        ({"commit_transaction": [FATAL]}, {}, "unknown"),
        ({"commit_transaction": [ABORTABLE]}, {}, "aborted"),
        ({"send_offsets_to_transaction": [ABORTABLE]}, {}, "aborted"),
        ({"send_offsets_to_transaction": [ABORTABLE], "abort_transaction": [TIMED_OUT]}, {}, "unknown"),
        ({"abort_transaction": [TIMED_OUT]}, {"transaction_failure_probability": 1.0}, "unknown"),
    ],
)
def test_it_states_what_it_was_told_and_no_more(broker, capsys, errors, options, told):
    """An outcome that the next producer settles stays unknown, because init_transactions does not report it."""
    broker.errors |= errors

    deliver(broker, **options)

    name = "worker-0"
    assert stated(capsys) == [
        {"begin": 1, "by": name, "ids": ["2"]},
        {"told": told, "transaction": 1, "by": name},
    ]


def test_a_worker_that_is_fenced_states_that_it_knows_nothing(broker, capsys):
    broker.errors["commit_transaction"] = [FENCED]

    with pytest.raises(FencedError):
        deliver(broker)

    assert [line.get("told") for line in stated(capsys)] == [None, "unknown"]


def test_a_transaction_is_stated_before_anything_of_it_is_sent(broker, capsys, monkeypatch):
    """It may be killed at once."""
    seen = []
    monkeypatch.setattr(ctp_transactions, "enqueue", lambda *_words: seen.extend(stated(capsys)))

    deliver(broker)

    assert seen == [{"begin": 1, "by": "worker-0", "ids": ["2"]}]


class Halves:
    """Rows that end in the middle."""

    def __len__(self) -> int:
        return 1

    def __iter__(self):
        yield 0, b"2", b"4"
        raise RowsError("row 2 is not one")


def deliver_halves(broker):
    transactions = Transactions(0, Options(), Place("link", "source", "sink", "source-ctp"), ThrottledEvents(), lambda: False)
    transactions.prepare()
    return transactions.deliver(Batch(Halves(), {0: 1}), broker)


def test_rows_that_cannot_be_made_to_their_end_are_rolled_back(broker):
    """Their first rows are in an open transaction, which the next batch must not find."""
    assert deliver_halves(broker) == "row 2 is not one"

    assert broker.calls[-3:] == ["begin_transaction-1", "produce-1", "abort_transaction-1"]


def test_a_rollback_that_fails_costs_the_producer_its_epoch(broker):
    """Whatever is left of the transaction, the next producer's first call ends it."""
    broker.errors["abort_transaction"] = [TIMED_OUT]

    assert deliver_halves(broker) == "row 2 is not one"
    assert broker.calls[-1] == "init_transactions-2"


def test_workers_may_share_one_transactional_id_by_mistake():
    """Each then fences the one before it."""
    assert [Options(transactional_ids="shared").transactional_id("g", number) for number in range(2)] == ["g-0", "g-0"]
    assert [Options().transactional_id("g", number) for number in range(2)] == ["g-0", "g-1"]


def test_what_is_beside_the_rows_is_read_after_them_and_in_their_transaction(broker):
    """In a topic of its own: it may be about the rows, which are known only then."""
    read = []

    def noted(name):
        read.append(name)
        yield 0, None, name.encode()

    class Late(Halves):
        def __init__(self, name):
            self.name = name

        def __iter__(self):
            return noted(self.name)

    transactions = Transactions(0, Options(), Place("link", "source", "sink", "source-ctp"), ThrottledEvents(), lambda: False)
    transactions.prepare()

    assert transactions.deliver(Batch(Late("rows"), {0: 1}, {"beside": Late("summary")}), broker) == ""
    assert read == ["rows", "summary"]
    assert broker.words["produce"] == ("beside",)
    order = "begin_transaction produce produce flush send_offsets_to_transaction commit_transaction"
    assert broker.calls[-6:] == [f"{name}-1" for name in order.split()]
