import sys
from pathlib import Path

import pytest

from chaos.subject.base import Endpoints, Topics
from pipelines.spark_square.driver import _parsed
from pipelines.spark_square.pipeline import SparkSquare

ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092", spark_master="spark://master:7077")


@pytest.mark.parametrize("speculation", [True, False])
def test_the_driver_is_told_whether_slow_tasks_get_a_copy(speculation: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """A flag that the driver did not know would end it before it says a word."""
    argv = SparkSquare(speculation=speculation).command(ENDPOINTS, Topics("source", "sink", 3), Path("/run")).argv
    monkeypatch.setattr(sys, "argv", list(argv[2:]))

    assert _parsed().speculation is speculation
