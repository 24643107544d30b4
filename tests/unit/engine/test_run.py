"""What a run asks of itself before it is judged."""

from types import SimpleNamespace

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.engine import run as runner
from chaos.engine.run import Run


def a_run(*, sent=None, positions=()):
    """As much of a run as is asked: what its loader said, and the pipeline's positions, one answer after the other."""
    answers = iter(positions)
    said = None if sent is None else SimpleNamespace(content={"records": sent})
    loader = SimpleNamespace(process=SimpleNamespace(exit_code=lambda: 1))
    run = SimpleNamespace(
        _history=SimpleNamespace(last_said=lambda *_: said), _total=100, _subjects=[loader], _pipeline=object()
    )
    run._positions = lambda: next(answers)
    run._names = lambda: ["sink"]
    run._system = SimpleNamespace(kafka=SimpleNamespace(settled_offsets=lambda topic, _: f"ends of {topic}"))
    return run


@pytest.mark.parametrize(("sent", "told"), [(None, "some"), (40, "40")])
def test_a_loader_that_ended_early(sent, told):
    """The pipeline had less to do than was asked."""
    with pytest.raises(InconclusiveError, match=f"the loader ended with 1 after {told} of 100 records"):
        Run._all_loaded(a_run(sent=sent))


def test_a_loader_that_handed_in_all():
    """Nothing to say."""
    Run._all_loaded(a_run(sent=100))


def test_ends_and_positions_are_of_one_moment():
    """What was committed while the ends were asked for may be above them: they are asked for again."""
    run = a_run(positions=[{0: 1}, {0: 2}, {0: 2}, {0: 2}])

    assert Run._settled(run) == ({"sink": "ends of sink"}, {0: 2})


def test_a_pipeline_that_never_rests(monkeypatch):
    """It cannot be observed, and that is said."""
    monkeypatch.setattr(runner, "_SETTLES_WITHIN_S", 0.2)

    with pytest.raises(DeadlineError, match="the pipeline's position to rest"):
        Run._settled(a_run(positions=[{0: number} for number in range(1000)]))
