import json
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.loader import plain, transactions
from chaos.loader.plain import Producing
from chaos.loader.transactions import TransactionalLoader, transactional
from tests.unit.loader.outbox import Report

ABORTABLE = KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "abortable", txn_requires_abort=True)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True)
FATAL = KafkaError(KafkaError.INVALID_TXN_STATE, "state", fatal=True)


@dataclass
class Broker:
    """Answers each call as it is told, on a clock of its own, and records the calls."""

    errors: dict[str, list[KafkaError | None]] = field(default_factory=dict)
    takes_s: dict[str, float] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    on_call: Callable[[str], None] = lambda _name: None
    now_s: float = 0.0
    producers: int = 0
    refuses: dict[bytes, KafkaError] = field(default_factory=dict)

    def producer(self) -> "Producer":
        self.producers += 1
        return Producer(self, self.producers)


@dataclass
class Producer:
    """One of the broker's clients; its records get offsets from 0 on."""

    broker: Broker
    number: int
    offset: int = 0

    def produce(self, _topic: str, *, key: bytes, partition: int, on_delivery: Callable[..., None], **_: Any) -> None:
        refusal = self.broker.refuses.get(key)
        on_delivery(refusal, Report(key, partition, None if refusal else self.offset))
        self.offset += refusal is None

    def flush(self, _within_s: float) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        def call(*_words: object, **_options: object) -> None:
            broker = self.broker
            broker.calls.append(f"{name}-{self.number}")
            broker.on_call(name)
            broker.now_s += broker.takes_s.get(name, 0.001)
            error = broker.errors[name].pop(0) if broker.errors.get(name) else None
            if error:
                raise KafkaException(error)

        return call


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """One that does not fail."""
    stand_in = Broker()
    for module in (plain, transactions):
        monkeypatch.setattr(module, "monotonic_s", lambda: stand_in.now_s)
    return stand_in


def load(broker: Broker, records: int = 5) -> tuple[TransactionalLoader, list[str]]:
    """Two ids in each transaction, on two partitions; the loader and the lines of its ledger."""
    ledger = StringIO()
    loader = TransactionalLoader(broker.producer, "source", 2, ledger, 2)
    loader.run(records, 1e9)
    return loader, ledger.getvalue().splitlines()[1:]


def told(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int]]:
    """The reported outcome of each transaction; each has begun before, with its ids."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    begun = [line["begin"] for line in lines if "begin" in line]
    assert begun == [line["transaction"] for line in lines if "told" in line]
    return [(line["told"], line["transaction"]) for line in lines if "told" in line]


def test_so_many_ids_are_a_transaction(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one has fewer. All is acknowledged where it is, by one producer."""
    loader, ledger = load(broker)

    assert ledger == ["0,ok,0,0", "1,ok,1,1", "2,ok,0,2", "3,ok,1,3", "4,ok,0,4"]
    assert told(capsys) == [("committed", 1), ("committed", 2), ("committed", 3)]
    assert (loader.sent, broker.producers) == (5, 1)


def test_what_was_aborted_is_sent_again_in_the_next_transaction(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """Its places are those of the attempt that was committed, and the ledger has each id once."""
    broker.errors["commit_transaction"] = [None, ABORTABLE]

    _, ledger = load(broker)

    assert ledger == ["0,ok,0,0", "1,ok,1,1", "2,ok,0,4", "3,ok,1,5", "4,ok,0,6"]
    assert told(capsys) == [("committed", 1), ("aborted", 2), ("committed", 3), ("committed", 4)]


@pytest.mark.parametrize("errors", [{"commit_transaction": [FATAL]}, {"begin_transaction": [FATAL]}])
def test_an_outcome_that_was_never_learned_is_unknown(
    broker: Broker, capsys: pytest.CaptureFixture[str], errors: dict[str, list[KafkaError | None]]
) -> None:
    """Its ids are not sent again, they may be there; the next producer settles it before anything more is sent."""
    broker.errors |= errors

    _, ledger = load(broker, records=4)

    assert ledger == ["0,unknown,,", "1,unknown,,", "2,ok,0,0", "3,ok,1,1"]
    assert told(capsys) == [("unknown", 1), ("committed", 2)]
    assert broker.calls[broker.calls.index("init_transactions-2") + 1] == "begin_transaction-2"


def test_an_abort_that_fails_leaves_the_outcome_open(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.errors = {"commit_transaction": [ABORTABLE], "abort_transaction": [FATAL]}

    _, ledger = load(broker, records=2)

    assert (ledger, told(capsys), broker.producers) == (["0,unknown,,", "1,unknown,,"], [("unknown", 1)], 2)


def test_a_call_that_times_out_is_made_again(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """As librdkafka demands; for a minute, then nobody knows."""
    broker.errors["commit_transaction"] = [TIMED_OUT] * 3
    assert load(broker, records=2)[1] == ["0,ok,0,0", "1,ok,1,1"]

    broker.errors["commit_transaction"] = [TIMED_OUT] * 1000
    broker.takes_s["commit_transaction"] = 0.5
    assert load(broker, records=2)[1] == ["0,unknown,,", "1,unknown,,"]
    assert told(capsys) == [("committed", 1), ("unknown", 1)]
    assert 110 < len(broker.errors["commit_transaction"]) < 1000
    assert broker.now_s == pytest.approx(60, abs=2)


@pytest.mark.parametrize(("takes_s", "producers"), [(0.19, 1), (0.21, 2)])
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
def test_an_end_that_may_have_been_asked_for_twice_costs_the_producer_its_epoch(
    broker: Broker, call: str, takes_s: float, producers: int
) -> None:
    """The second request may arrive in the middle of the next transaction."""
    broker.errors["commit_transaction"] = [ABORTABLE] if call == "abort_transaction" else []
    broker.takes_s[call] = takes_s

    _, ledger = load(broker, records=2)

    assert (len(ledger), broker.producers) == (2, producers)


def test_a_stop_begins_nothing_more(broker: Broker) -> None:
    """The loader ends its open transaction first."""
    ledger = StringIO()
    loader = TransactionalLoader(broker.producer, "source", 2, ledger, 2)
    broker.on_call = lambda name: loader.stop() if name == "commit_transaction" else None

    loader.run(100, 1e9)

    assert (ledger.getvalue().splitlines()[1:], loader.sent) == (["0,ok,0,0", "1,ok,1,1"], 2)


def test_a_stop_shortens_the_wait_for_an_answer(broker: Broker) -> None:
    """SIGKILL follows a SIGTERM that is not obeyed, and would take the ledger's end with it."""
    ledger = StringIO()
    loader = TransactionalLoader(broker.producer, "source", 2, ledger, 2)
    broker.errors["commit_transaction"] = [TIMED_OUT] * 1000
    broker.takes_s["commit_transaction"] = 0.5
    broker.on_call = lambda name: loader.stop() if name == "commit_transaction" else None

    loader.run(100, 1e9)

    assert ledger.getvalue().splitlines()[1:] == ["0,unknown,,", "1,unknown,,"]
    assert broker.now_s < 7


def test_a_transaction_waits_for_its_last_id(broker: Broker) -> None:
    """Two records a second: the fourth is due after one and a half."""
    broker.takes_s["poll"] = 0.01
    begun: list[float] = []
    broker.on_call = lambda name: begun.append(broker.now_s) if name == "begin_transaction" else None

    TransactionalLoader(broker.producer, "source", 2, StringIO(), 2).run(4, 2.0)

    assert begun == pytest.approx([0.5, 1.5], abs=0.05)


def test_no_record_waits_longer_than_its_transaction() -> None:
    """Kafka's client refuses other settings."""
    chosen = transactional(Producing().settings("broker:9092"), "source-loader")

    assert chosen["transactional.id"] == "source-loader"
    assert chosen["delivery.timeout.ms"] <= chosen["transaction.timeout.ms"]
    assert (chosen["acks"], chosen["enable.idempotence"]) == ("all", True)


def test_what_a_broker_refused_is_left_out_of_the_next_attempt(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """Its transaction is aborted; sent again, it would be aborted for ever."""
    refusal = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    broker.errors = {"commit_transaction": [ABORTABLE]}
    broker.refuses = {b"1": refusal}

    loader, lines = load(broker, records=4)

    assert told(capsys) == [("aborted", 1), ("committed", 2), ("committed", 3)]
    assert lines == ["1,fail,1,", "0,ok,0,1", "2,ok,0,2", "3,ok,1,3"]
    assert (loader.sent, loader.refused) == (4, 1)
