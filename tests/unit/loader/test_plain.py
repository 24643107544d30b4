from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.loader import plain
from chaos.loader.plain import Loader, Producing, due, outcome
from chaos.loader.rows_file import Row
from tests.unit.loader.outbox import Outbox, Report

FAST = 1e9


def lines(ledger: StringIO) -> list[str]:
    """The ledger as it is written."""
    return ledger.getvalue().splitlines()


def load(outbox: Outbox, records: int = 5) -> tuple[Loader, list[str]]:
    """Run a loader on two partitions."""
    ledger = StringIO()
    filling = Loader(outbox, "source", 2, ledger)
    filling.run(records, FAST)
    return filling, lines(ledger)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that stands still until it is moved."""
    now = [0.0]

    def move(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(plain, "monotonic_s", lambda: now[0])
    return move


@pytest.mark.parametrize(
    ("elapsed_s", "expected"),
    [(0.0, 1), (0.24, 1), (0.25, 2), (1.0, 5), (24.75, 100), (1000.0, 100)],
)
def test_records_fall_due_at_the_rate(elapsed_s: float, expected: int) -> None:
    """The first at once, then one every 1/rate seconds, and never more than there are."""
    assert due(100, 4.0, elapsed_s) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._MSG_TIMED_OUT, "unknown"),
        (KafkaError._TIMED_OUT, "unknown"),
        (KafkaError._PURGE_QUEUE, "unknown"),
        (KafkaError._PURGE_INFLIGHT, "unknown"),
        (KafkaError._TRANSPORT, "unknown"),
        (KafkaError.REQUEST_TIMED_OUT, "unknown"),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "unknown"),
        (KafkaError.NOT_ENOUGH_REPLICAS, "unknown"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, "unknown"),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "unknown"),
        (KafkaError._FATAL, "unknown"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "fail"),
        (KafkaError.INVALID_RECORD, "fail"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "fail"),
    ],
)
def test_an_error_is_a_failure_only_if_no_attempt_can_have_written(code: int, expected: str) -> None:
    """The last error of a record says nothing of earlier attempts; a wrong `fail` turns a true record into a phantom."""
    assert outcome(KafkaError(code)) == expected


def test_no_error_is_an_acknowledgement() -> None:
    """The only outcome that makes a record required."""
    assert outcome(None) == "ok"


def test_an_id_is_key_and_value_in_its_own_partition() -> None:
    """Id i goes to partition i mod P: that is the identity the verifiers rest on."""
    outbox = Outbox()

    load(outbox, records=3)

    assert outbox.sent == [(b"0", b"0", 0), (b"1", b"1", 1), (b"2", b"2", 0)]


def test_the_ledger_has_a_line_for_every_id_with_its_offset() -> None:
    """The header first, then each report as it came."""
    _, ledger = load(Outbox(), records=4)

    assert ledger == ["id,outcome,partition,offset", "0,ok,0,0", "1,ok,1,0", "2,ok,0,1", "3,ok,1,1"]


def test_an_error_has_no_offset() -> None:
    """A refused record is not in the log."""
    refused = {b"0": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), b"1": KafkaError(KafkaError._MSG_TIMED_OUT)}

    _, ledger = load(Outbox(answer=refused.get), records=3)

    assert ledger[1:] == ["0,fail,0,", "1,unknown,1,", "2,ok,0,1"]


def test_a_record_the_broker_already_had_is_ok_without_an_offset() -> None:
    """A duplicate that idempotence caught is acknowledged with offset -1, which is not an offset."""
    ledger = StringIO()
    filling = Loader(Outbox(), "source", 2, ledger)

    filling._reported(Row(4, 0, b"4", b"4"), None, Report(b"4", 0, -1))

    assert lines(ledger)[1:] == ["4,ok,0,"]


def test_ids_without_a_report_are_unknown(clock: Callable[[float], None]) -> None:
    """When the last wait is over, what was handed in and never answered may still be in the log."""
    _, ledger = load(Outbox(silent=True, on_poll=lambda: clock(1.0)), records=2)

    assert ledger[1:] == ["0,unknown,,", "1,unknown,,"]


def test_a_full_queue_delays_a_record_and_does_not_drop_it() -> None:
    """A record is refused while the client's queue is full; the same id is tried again."""
    _, ledger = load(Outbox(full=3), records=2)

    assert ledger[1:] == ["0,ok,0,0", "1,ok,1,0"]


def test_the_ledger_is_flushed_while_the_loader_runs(tmp_path: Path) -> None:
    """A loader that is killed must leave its knowledge behind."""
    path = tmp_path / "ledger.csv"
    seen: list[str] = []
    with path.open("w", encoding="utf-8") as ledger:
        outbox = Outbox(full=2)
        outbox.on_poll = lambda: seen.append(path.read_text(encoding="utf-8"))
        Loader(outbox, "source", 2, ledger).run(1, FAST)

    assert seen[1] == "id,outcome,partition,offset\n"


def test_it_sends_no_faster_than_the_rate(clock: Callable[[float], None]) -> None:
    """Two records a second: the fifth goes out after two seconds, not before."""
    elapsed = [0.0]

    def tick() -> None:
        clock(0.25)
        elapsed[0] += 0.25

    outbox = Outbox(on_poll=tick)
    Loader(outbox, "source", 2, StringIO()).run(5, 2.0)

    assert elapsed[0] == pytest.approx(2.25)  # 2 s for the pace, one turn for the last report


def test_a_stop_ends_the_sending_and_keeps_the_ledger_whole(clock: Callable[[float], None]) -> None:
    """Ids that were never sent are not in it: there is nothing to say about them."""
    outbox = Outbox()
    filling = Loader(outbox, "source", 2, ledger := StringIO())
    polls: list[int] = []

    def tick() -> None:
        clock(0.5)
        polls.append(len(outbox.sent))
        if len(outbox.sent) == 3:
            filling.stop()

    outbox.on_poll = tick
    filling.run(1000, 2.0)

    assert polls == [1, 2, 3]  # and not one turn for each of the others
    assert filling.sent == 3
    assert lines(ledger)[1:] == ["0,ok,0,0", "1,ok,1,0", "2,ok,0,1"]


def test_a_stop_is_heard_while_the_queue_is_full() -> None:
    """With every broker gone the queue stays full for a minute; a stop must not wait so long."""
    outbox = Outbox(full=10**9)
    filling = Loader(outbox, "source", 2, ledger := StringIO())
    outbox.on_poll = filling.stop

    filling.run(5, FAST)

    assert (filling.sent, lines(ledger)[1:]) == (0, [])


def test_a_stop_shortens_the_last_wait(clock: Callable[[float], None]) -> None:
    """SIGKILL follows a SIGTERM that is not obeyed, and would take the ledger's end with it."""
    waited = [0.0]
    outbox = Outbox(silent=True)
    filling = Loader(outbox, "source", 2, StringIO())

    def tick() -> None:
        clock(1.0)
        waited[0] += 1.0
        filling.stop()

    outbox.on_poll = tick
    filling.run(1, FAST)

    assert 1.0 < waited[0] < 8.0


def test_a_producer_beyond_repair_leaves_a_whole_ledger() -> None:
    """After a fatal error nothing more can be sent, and what was sent must still be accounted for."""

    def broken(key: bytes) -> None:
        if key == b"2":
            raise KafkaException(KafkaError(KafkaError._FATAL))

    ledger = StringIO()
    outbox = Outbox(answer=broken, silent=True)

    with pytest.raises(KafkaException):
        Loader(outbox, "source", 2, ledger).run(5, FAST)
    assert lines(ledger)[1:] == ["0,unknown,,", "1,unknown,,"]


def test_a_fatal_error_is_told_by_its_cause() -> None:
    """Later refusals say only that there was a fatal error; the next poll raises the error itself."""

    def broken(_key: bytes) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def tell() -> None:
        if outbox.sent:
            raise KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER))

    outbox = Outbox(answer=broken, on_poll=tell)

    with pytest.raises(KafkaException, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        Loader(outbox, "source", 2, StringIO()).run(5, FAST)


@pytest.mark.parametrize("idempotence", [True, False])
def test_idempotence_is_the_only_difference(idempotence: bool) -> None:  # noqa: FBT001
    """A control must differ from what it controls in one thing."""
    with_it, chosen = (Producing(one).settings("broker:9092") for one in (True, idempotence))

    assert chosen == with_it | {"enable.idempotence": idempotence}
    assert chosen["acks"] == "all"


def test_rows_of_ones_own_are_sent_as_they_are() -> None:
    """Key, value and partition of each; the ledger names a row by its number, whatever its key."""
    outbox, ledger = Outbox(), StringIO()
    filling = Loader(outbox, "source", 2, ledger)

    filling.run(2, FAST, [Row(0, 1, b"a", b"\xff"), Row(1, 1, b"a", None)])

    assert outbox.sent == [(b"a", b"\xff", 1), (b"a", None, 1)]
    assert lines(ledger)[1:] == ["0,ok,1,0", "1,ok,1,1"]


def test_what_a_broker_refused_is_counted() -> None:
    """It was sent, and will not pass: a run must not wait for it."""
    outbox, ledger = Outbox(lambda key: KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if key == b"1" else None), StringIO()
    filling = Loader(outbox, "source", 2, ledger)

    filling.run(3, FAST)

    assert (filling.sent, filling.refused) == (3, 1)
    assert lines(ledger)[2] == "1,fail,1,"
