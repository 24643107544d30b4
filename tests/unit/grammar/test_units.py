import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.grammar.base import WrongValueError
from chaos.grammar.units import per_second, percent, seconds, spoken_seconds, text_of_seconds
from tests.unit.wording import code_of

NUMBERS = st.decimals(min_value=0, max_value=3600, places=3).map(str)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5s", 5.0), ("400ms", 0.4), ("2m", 120.0), ("0s", 0.0), ("1.5s", 1.5), ("0.5ms", 0.0005), ("60m", 3600.0)],
)
def test_a_duration_is_read_in_seconds(text: str, value: float) -> None:
    """Whatever the unit, a model holds seconds."""
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text", ["5", "s", "5 s", "-5s", "5h", "1e3s", "5S", "", "٣s", "5s5s", "nans", 5, 5.0, None, ["5s"]], ids=repr
)
def test_a_duration_without_number_or_unit_is_refused(text: object) -> None:
    """A bare number is the commonest mistake: it does not say whether five means seconds."""
    with pytest.raises(WrongValueError) as refused:
        seconds(text)
    assert code_of(refused.value) == "not-a-duration"


@pytest.mark.parametrize("text", ["3601s", "61m", "999999m"])
def test_no_duration_is_longer_than_an_hour(text: str) -> None:
    """Every wait of a run has a limit."""
    with pytest.raises(WrongValueError) as refused:
        seconds(text)
    assert code_of(refused.value) == "duration-too-long"


@given(number=NUMBERS, unit=st.sampled_from(["ms", "s"]))
def test_a_duration_survives_being_written_down(number: str, unit: str) -> None:
    """A schedule read back from its file waits exactly as long as the one that was written."""
    value = seconds(number + unit)

    assert seconds(text_of_seconds(value)) == value


@given(number=st.decimals(min_value=0, max_value=60, places=3).map(str))
def test_minutes_survive_being_written_down(number: str) -> None:
    """They are written in the smaller units, without a rest."""
    assert seconds(text_of_seconds(seconds(f"{number}m"))) == seconds(f"{number}m")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 s"), (0.4, "400 ms"), (0.0005, "0.5 ms"), (3.0, "3 s"), (1.5, "1.5 s"), (120.0, "120 s")]
)
def test_a_duration_is_spoken_in_the_unit_that_reads_best(value: float, text: str) -> None:
    """No exponent, no zeros at the end, no thousand milliseconds."""
    assert spoken_seconds(value) == text


@pytest.mark.parametrize("text", ["3000", "0/s", "0.000/s", "3000/m", "3000 /s", "-1/s", 3000, None], ids=repr)
def test_a_text_that_is_not_a_rate_is_refused(text: object) -> None:
    """A workload at rate zero would never end."""
    assert per_second("0.5/s") == 0.5
    with pytest.raises(WrongValueError) as refused:
        per_second(text)
    assert code_of(refused.value) == "not-a-rate"


@pytest.mark.parametrize("text", ["0%", "0.9%", "99.1%", "100%", "40", "40 %", 40, 0.4, None], ids=repr)
def test_progress_that_never_comes_is_refused(text: object) -> None:
    """Nought per cent is before the run, a hundred is after it."""
    assert (percent("1%"), percent("99%")) == (1.0, 99.0)
    with pytest.raises(WrongValueError) as refused:
        percent(text)
    assert code_of(refused.value) == "not-a-share"
