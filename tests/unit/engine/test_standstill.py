"""A pipeline that is declared wrongly: each way has a sentence of its own, with what to mend."""

from dataclasses import replace

import pytest

from chaos.engine.standstill import Seen, is_elsewhere, of_table, why

SLOW = Seen("orders-7", "copies-7", written=90, output=30, read=40, group="copy-7")


UNREAD = "nothing of orders-7 was read, by group copy-7, and "
SILENT = (
    "nothing was written to copies-7; does the pipeline read {source} and write {sink} at {bootstrap}? See logs/pipeline.log"
)
ELSEWHERE = "does the pipeline write elsewhere? Its sink is {sink}; see logs/pipeline.log"
OTHER_GROUP = "does the pipeline commit its positions to another group, or not at all? Declare its group, or positions: none"
OTHER_QUERY = "is that of another query? Give the one that reads {source} a place in {checkpoint}, or declare positions: none"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"written": 0}, "the loader has written nothing to orders-7; see logs/loader.log"),
        ({"output": 0, "read": 0}, UNREAD + SILENT),
        ({"output": 0, "read": None, "group": ""}, SILENT),
        (
            {"output": 0},
            f"40 records of orders-7 were read, by group copy-7, and nothing was written to copies-7; {ELSEWHERE}",
        ),
        (
            {"read": 0},
            f"30 records are in copies-7, and group copy-7 says that nothing of orders-7 was read; {OTHER_GROUP}",
        ),
        (
            {"read": 0, "group": ""},
            f"30 records are in copies-7, and its checkpoint says that nothing of orders-7 was read; {OTHER_QUERY}",
        ),
        ({}, "90 records are in orders-7, 40 were read, by group copy-7, and 30 are in copies-7"),
        ({"read": None}, "90 records are in orders-7, and 30 are in copies-7"),
    ],
)
def test_each_way_has_its_sentence(changes, said):
    """One that fits a slow pipeline has the numbers, and blames nobody."""
    assert why(replace(SLOW, **changes)) == said


@pytest.mark.parametrize(
    ("output", "read", "elsewhere"),
    [(30, 40, False), (0, 0, False), (0, None, False), (30, None, False), (0, 40, True), (30, 0, True)],
)
def test_positions_and_output_of_two_pipelines(output, read, elsewhere):
    """One has moved and the other never has; a pipeline that has done nothing yet is not among them."""
    assert is_elsewhere(replace(SLOW, output=output, read=read)) is elsewhere


@pytest.mark.parametrize(
    ("written", "read", "said"),
    [
        (0, 0, "the loader has written nothing to orders-7; see logs/loader.log"),
        (90, 0, "its checkpoint says that nothing of orders-7 was read; does the pipeline read {source} at {bootstrap}"),
        (90, 40, "90 records are in orders-7, and 40 were read, by its checkpoint; its table is /run/large"),
    ],
)
def test_of_a_table_only_the_checkpoint_tells(written, read, said):
    """It is read when the pipeline has ended."""
    assert of_table("orders-7", "/run/large", written, read).startswith(said)
