import pytest

from chaos.grammar.base import WrongValueError
from chaos.grammar.units import size, speed, text_of_size, text_of_speed
from tests.unit.wording import code_of


@pytest.mark.parametrize(("text", "value"), [("1B", 1), ("100B", 100), ("4KB", 4000), ("1MB", 1_000_000), ("999KB", 999_000)])
def test_a_size_is_read_and_written_as_it_was(text: str, value: int) -> None:
    """A KB is 1000 bytes, as in Toxiproxy; what a schedule holds can be read again."""
    assert size(text) == value
    assert text_of_size(value) == text


def test_the_same_size_in_other_words() -> None:
    """It is written in the largest unit that divides it."""
    assert text_of_size(size("4000B")) == "4KB"


@pytest.mark.parametrize("wrong", ["0B", "4", "4kb", "4 KB", "-4KB", "4.5KB", "1000001B", "2MB", 4000, None, "٤KB"])
def test_a_text_that_is_not_a_size_is_refused(wrong: object) -> None:
    """No unit, nothing, too much, or no text at all."""
    with pytest.raises(WrongValueError) as refused:
        size(wrong)
    assert code_of(refused.value) == ("size-too-large" if wrong == "2MB" else "not-a-size")


def test_a_speed_is_whole_kilobytes_per_second() -> None:
    """From the least that Toxiproxy can do to what still takes a time that can be measured."""
    assert [speed("1KB/s"), speed("1000KB/s")] == [1, 1000]
    assert text_of_speed(64) == "64KB/s"


@pytest.mark.parametrize("wrong", ["0KB/s", "1001KB/s", "64", "64KB", "64kb/s", "1MB/s", 8])
def test_a_text_that_is_not_a_speed_is_refused(wrong: object) -> None:
    """A limit too fast to be noticed would prove nothing."""
    with pytest.raises(WrongValueError) as refused:
        speed(wrong)
    assert code_of(refused.value) == "not-a-speed"
