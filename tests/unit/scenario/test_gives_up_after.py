"""How long a run waits where nothing moves."""

import pytest
from pydantic import ValidationError

from chaos.grammar.error_messages import mistakes
from chaos.scenario.model import Scenario
from tests.unit.wording import codes_of


def declared(**keys: str) -> Scenario:
    return Scenario.model_validate({"name": "a", "title": "A", "pipeline": {"kind": "none"}, **keys})


def test_a_run_waits_as_long_as_it_may_take_to_recover() -> None:
    """The default is the product's own; what is declared goes to the run directory and back."""
    one = declared(recovery_slo="20s", gives_up_after="20s")

    assert declared().gives_up_after_s is None
    assert Scenario.of_run(one.to_run()).gives_up_after_s == 20


def test_giving_up_before_a_recovery_is_too_slow_is_refused() -> None:
    """Such a run would never see one; the default of recovery_slo counts as well."""
    for keys in ({"gives_up_after": "20s"}, {"gives_up_after": "20s", "recovery_slo": "30s"}):
        with pytest.raises(ValidationError) as refused:
            declared(**keys)
        (found,) = mistakes(refused.value, Scenario)
        assert codes_of([found.message]) == ["gives-up-too-early"]
