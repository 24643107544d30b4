"""A pipeline that is declared wrongly: each way has a sentence of its own, with what to mend."""

from dataclasses import replace

import pytest

from chaos.engine.standstill import Seen, is_elsewhere, of_table, why
from tests.unit.wording import keep

SLOW = Seen("orders-7", "copies-7", written=90, output=30, read=40, group="copy-7")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"written": 0}, "orders-7 logs/loader.log"),
        ({"output": 0, "read": 0}, "orders-7 copy-7 copies-7 {source} {sink} {bootstrap} logs/pipeline.log"),
        ({"output": 0, "read": None, "group": ""}, "copies-7 {source} {sink} {bootstrap} logs/pipeline.log"),
        ({"output": 0}, "40 orders-7 copy-7 copies-7 {sink} logs/pipeline.log"),
        ({"read": 0}, "30 copies-7 copy-7 orders-7 group none"),
        ({"read": 0, "group": ""}, "30 copies-7 checkpoint orders-7 {source} {checkpoint} none"),
        ({}, "90 orders-7 40 copy-7 30 copies-7"),
        ({"read": None}, "90 orders-7 30 copies-7"),
    ],
)
def test_each_way_has_its_sentence(changes, names):
    """One that fits a slow pipeline has the numbers, and blames nobody."""
    said = keep(why(replace(SLOW, **changes)))

    assert all(name in said for name in names.split())
    assert ("?" in said) is ("{" in names or "none" in names)


@pytest.mark.parametrize(
    ("output", "read", "elsewhere"),
    [(30, 40, False), (0, 0, False), (0, None, False), (30, None, False), (0, 40, True), (30, 0, True)],
)
def test_positions_and_output_of_two_pipelines(output, read, elsewhere):
    """One has moved and the other never has; a pipeline that has done nothing yet is not among them."""
    assert is_elsewhere(replace(SLOW, output=output, read=read)) is elsewhere


@pytest.mark.parametrize(
    ("written", "read", "names"),
    [
        (0, 0, "orders-7 logs/loader.log"),
        (90, 0, "checkpoint orders-7 {source} {bootstrap}"),
        (90, 40, "90 orders-7 40 checkpoint /run/large"),
    ],
)
def test_of_a_table_only_the_checkpoint_tells(written, read, names):
    """It is read when the pipeline has ended."""
    said = keep(of_table("orders-7", "/run/large", written, read))

    assert all(name in said for name in names.split())
