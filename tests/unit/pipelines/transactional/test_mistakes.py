"""The mistakes that the application can be told to make, each beside the right way."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pipelines.messages import ThrottledEvents
from pipelines.transactional import delivery as ctp_delivery
from pipelines.transactional import worker as ctp_worker
from pipelines.transactional.delivery import Batch, Place, RowsFirst, common
from pipelines.transactional.options import Options
from pipelines.transactional.worker import Worker
from tests.unit.pipelines.transactional.test_transactions import ABORTABLE, TIMED_OUT, broker, deliver, stated
from tests.unit.pipelines.transactional.test_worker import Reader
from tests.unit.wording import raised

__all__ = ["broker"]  # a fixture, used by its name below
PLACE = Place("link", "datasource-7", "sink", "g")
IN_STEPS = "at_least_once"


@pytest.mark.parametrize(
    ("mistake", "sought", "stated_again"),
    [
        pytest.param({}, [(0, 7)], [[0, 7]], id="the group is asked: it has committed the batch"),
        pytest.param({"open_outcome": "rolled_back"}, [(0, 5)], [[0, 5]], id="the batch is written again"),
        pytest.param({"failed_batch": "forgotten"}, [], [], id="nobody reads it again"),
    ],
)
def test_where_a_batch_is_read_from_that_was_not_delivered(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mistake: dict[str, str],
    sought: list[tuple[int, int]],
    stated_again: list[list[int]],
) -> None:
    """A worker also states where it begins, so that a record that comes again is no surprise to the judge."""
    reader = Reader([([0], []), ([], [(0, 5), (0, 6)]), ([], [])], position=7)
    failing = SimpleNamespace(prepare=lambda: None, deliver=lambda *_: "an error")
    monkeypatch.setattr(ctp_worker, "Consumer", lambda _settings: reader)
    monkeypatch.setattr(ctp_worker, "delivery", lambda *_: failing)

    Worker(0, Options(**mistake), PLACE, ThrottledEvents(), lambda: not reader.turns).run()  # type: ignore[arg-type]

    lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "event" not in line]
    assert reader.sought == sought
    assert lines[2:] == [{"start": [["datasource-7", *place]], "by": "worker-0"} for place in stated_again]


@pytest.mark.parametrize(("stored", "position"), [("next", 7), ("last", 6)])
def test_the_position_of_a_batch(monkeypatch: pytest.MonkeyPatch, stored: str, position: int) -> None:
    """Whoever begins at the offset of the last record reads it again."""
    reader = Reader([([], [(0, 5), (0, 6)])])
    ends: list[Any] = []
    delivered = SimpleNamespace(prepare=lambda: None, deliver=lambda batch, _consumer: ends.append(batch.ends) or "")
    monkeypatch.setattr(ctp_worker, "Consumer", lambda _settings: reader)
    monkeypatch.setattr(ctp_worker, "delivery", lambda *_: delivered)

    Worker(0, Options(stored_offset=stored), PLACE, ThrottledEvents(), lambda: not reader.turns).run()

    assert ends == [{0: position}]


@pytest.mark.parametrize(("failed_batch", "why", "commits"), [("again", "1 rows were not written", 0), ("forgotten", "", 1)])
def test_who_does_not_look_commits_the_position_of_rows_that_were_refused(
    monkeypatch: pytest.MonkeyPatch,
    failed_batch: str,
    why: str,
    commits: int,
) -> None:
    """Without transactions nothing else stands between a refusal and the position."""
    asked: list[object] = []
    monkeypatch.setattr(ctp_delivery, "Producer", lambda _settings: object())
    monkeypatch.setattr(ctp_delivery, "written", lambda *_words: [KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)])
    consumer: Any = SimpleNamespace(commit=lambda **words: asked.append(words))

    rows_first = RowsFirst(Options(delivery=IN_STEPS, failed_batch=failed_batch), PLACE)

    assert rows_first.deliver(Batch([(0, b"2", b"4")], {0: 1}), consumer).partition(":")[0] == why
    assert len(asked) == commits


@pytest.mark.parametrize(
    ("error", "how", "told"),
    [
        (TIMED_OUT, "asked", "unknown"),
        (TIMED_OUT, "rolled_back", "aborted"),
        (ABORTABLE, "rolled_back", "aborted"),
    ],
)
def test_who_takes_an_error_for_an_abort_says_so(broker, capsys, error, how, told):
    """So the judge can say that it was mistaken."""
    broker.errors["commit_transaction"] = [error]

    assert deliver(broker, open_outcome=how)

    assert stated(capsys)[1]["told"] == told


def test_a_request_has_at_most_so_many_rows() -> None:
    """Where a scenario needs to know how many rows a broker has been sent."""
    assert common(Options(request_records=20), PLACE)["batch.num.messages"] == 20
    assert "batch.num.messages" not in common(Options(), PLACE)


@pytest.mark.parametrize(
    ("mistake", "names"),
    [
        ({"delivery": IN_STEPS, "open_outcome": "rolled_back"}, ("at_least_once", "outcome")),
        ({"delivery": "at_most_once", "failed_batch": "forgotten"}, ("at_most_once", "failed batch")),
        ({"stored_offset": "first"}, ("stored_offset", "next, last", "'first'")),
        ({"request_records": -1}, ("request_records", "0", "-1")),
    ],
)
def test_mistakes_that_nobody_can_make_are_refused(mistake: dict[str, Any], names: tuple[str, ...]) -> None:
    """The error names the option; an option that does not go with the delivery, the delivery."""
    with raised(ValueError, *names):
        Options(**mistake)
