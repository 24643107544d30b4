"""The two orders without transactions: what their producers promise."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.messages import ThrottledEvents
from pipelines.transactional import delivery
from pipelines.transactional.delivery import Batch, Place, PositionsFirst, RowsFirst
from pipelines.transactional.options import Options

PLACE = Place("link:9092", "in", "out", "g")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The settings of each producer that is made."""
    listed: list[Mapping[str, Any]] = []
    monkeypatch.setattr(delivery, "Producer", listed.append)
    return listed


@pytest.mark.parametrize(
    ("options", "idempotence", "acks"),
    [
        (Options(delivery="at_least_once"), True, "all"),
        (Options(delivery="at_least_once", idempotence=False), False, "all"),
        (Options(delivery="at_least_once", idempotence=False, acks="0"), False, "0"),
    ],
)
def test_rows_first_is_idempotent_unless_it_is_told_otherwise(
    made: list[Mapping[str, Any]], options: Options, *, idempotence: bool, acks: str
) -> None:
    """It retries in any case, for longer than the election of a leader takes."""
    RowsFirst(options, PLACE)

    assert (made[0]["enable.idempotence"], made[0]["acks"]) == (idempotence, acks)
    assert "retries" not in made[0]
    assert made[0]["message.timeout.ms"] == options.transaction_timeout_ms


@pytest.mark.parametrize(("positions", "committed"), [("application", [[("in", 0, 1)]]), ("client", [])])
def test_positions_are_left_to_a_client_that_commits_them_itself(
    monkeypatch: pytest.MonkeyPatch, positions: str, committed: list[object]
) -> None:
    """Two would commit, and the one that is later would be right."""
    asked: list[object] = []
    monkeypatch.setattr(delivery, "Producer", lambda _settings: object())
    monkeypatch.setattr(delivery, "written", lambda *_words: [])
    consumer: Any = SimpleNamespace(
        commit=lambda *, offsets, **_options: asked.append([(one.topic, one.partition, one.offset) for one in offsets])
    )

    rows_first = RowsFirst(Options(delivery="at_least_once", positions=positions), PLACE)

    assert rows_first.deliver(Batch([(0, b"2", b"4")], {0: 1}), consumer) == ""
    assert asked == committed


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_positions_first_never_sends_a_row_again(made: list[Mapping[str, Any]], acks: str) -> None:
    PositionsFirst(0, Options(delivery="at_most_once", acks=acks, linger_ms=1000), PLACE, ThrottledEvents())

    wanted = {"enable.idempotence": False, "retries": 0, "acks": acks, "linger.ms": 1000}
    assert {name: made[0][name] for name in wanted} == wanted
