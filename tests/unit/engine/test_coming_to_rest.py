"""A run waits for each standstill only once."""

from types import SimpleNamespace

import pytest

from chaos.common.errors import DeadlineError, StandstillError
from chaos.common.events import PhaseBegan, PhaseFailed
from chaos.common.history import of_type
from chaos.engine import run

STILL = StandstillError("waited 60 s for output")


@pytest.fixture
def come_to_rest(history, monkeypatch):
    """Runs heal and drain of a stage; what is waited for is written down, and may fail."""

    def carry_out(failed_before=(), **fails):
        done = []

        def step(name):
            def of_run(*_arguments):
                done.append(name)
                if name in fails:
                    raise fails[name]

            return of_run

        for name in ("heal", "recover", "drain"):
            monkeypatch.setattr(run.phases, name, step(name))
        stage = SimpleNamespace(
            plan=None, processes=None, nemesis=None, stands_still=False, is_through=lambda: False, why=lambda: ""
        )
        run._come_to_rest(stage, SimpleNamespace(kafka=None), history, None, list(failed_before))
        return done, stage.stands_still

    return carry_out


def test_a_run_that_goes_on_is_waited_for_twice(come_to_rest):
    """For its output to grow after the faults, and for its end."""
    assert come_to_rest() == (["heal", "recover", "drain"], False)


def test_a_workload_that_stood_still_is_not_waited_for_again(come_to_rest, history):
    """The faults are healed, and the run is observed as it stands."""
    assert come_to_rest([STILL]) == (["heal"], True)
    assert [value.phase for _, value in of_type(history.events(), PhaseBegan)] == ["heal"]


def test_an_output_that_never_grew_again_is_not_waited_for_in_the_drain(come_to_rest, history):
    """It stood still for as long as a standstill may last."""
    assert come_to_rest(recover=STILL) == (["heal", "recover"], True)
    assert [value.phase for _, value in of_type(history.events(), PhaseFailed)] == ["heal"]


@pytest.mark.parametrize("fails", ["heal", "drain"])
def test_other_deadlines_are_no_standstill_of_the_output(come_to_rest, fails):
    """A cluster that is not healthy yet may be so at the end; a drain that fails is the last thing that is waited for."""
    done, stands_still = come_to_rest(**{fails: DeadlineError("waited 30 s for a healthy cluster")})

    assert ("drain" in done, stands_still) == (True, fails == "drain")
    assert come_to_rest([DeadlineError("the trigger: never came")])[0][-1] == "drain"
