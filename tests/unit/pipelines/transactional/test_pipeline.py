import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from chaos.subject.base import Endpoints, Topics
from pipelines.transactional.options import Options
from pipelines.transactional.pipeline import ConsumeTransformProduce

TOPICS = Topics("datasource-7", "datasink-7", 3)
ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092")


def test_the_process_is_told_all_options_and_nothing_of_the_audit_listener() -> None:
    """The process makes the declared options of its one argument."""
    pipeline = ConsumeTransformProduce("at_least_once", workers=2, batch_records=9, seed=4)

    argv = pipeline.command(ENDPOINTS, TOPICS, Path("/run")).argv

    assert argv[:9] == (
        *(sys.executable, "-m", "pipelines.transactional.process"),
        *("--kafka", "link:9092", "--source", "datasource-7", "--sink", "datasink-7"),
    )
    assert asdict(Options(**json.loads(argv[10]))) == asdict(pipeline)
    assert "broker:9092" not in argv


@pytest.mark.parametrize(
    ("workers", "owners"), [(1, "000"), (2, "001"), (3, "012"), (4, "012")]
)  # seen on a real group, see tests/integration
def test_a_transactional_id_stands_at_the_index_of_its_partition(workers: int, owners: str) -> None:
    """As the range assignor shares partitions among members in the order of their names."""
    ids = ConsumeTransformProduce(workers=workers).transactional_ids(TOPICS)

    assert ids == tuple(f"datasource-7-ctp-{owner}" for owner in owners)


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_without_transactions_there_is_no_coordinator_to_aim_at(delivery: str) -> None:
    """Only one of the three deliveries uses transactions."""
    assert ConsumeTransformProduce(delivery).transactional_ids(TOPICS) == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"delivery": "exactly_twice"},
            "must be one of exactly_once, at_least_once, at_most_once, not 'exactly_twice'",
        ),
        ({"producer_per": "day"}, "producer_per must be one of unanswered, process, not 'day'"),
        ({"auto_offset_reset": "none"}, "auto_offset_reset must be one of error, earliest, latest, not 'none'"),
        ({"workers": 0}, "workers must be 1 to 9, not 0"),
        ({"workers": 10}, "workers must be 1 to 9, not 10"),
        ({"batch_records": 0}, "batch_records must be 1 or more, not 0"),
        ({"transaction_failure_probability": 1.1}, "must be 0 to 1, not 1.1"),
        ({"transaction_failure_probability": 0.1, "delivery": "at_least_once"}, "at_least_once has no transactions"),
    ],
)
def test_impossible_values_are_refused(options: dict[str, object], words: str) -> None:
    """Where they are declared, not in a process that dies of them."""
    with pytest.raises(ValueError, match=words):
        ConsumeTransformProduce(**options)


def test_all_options_are_plain_values() -> None:
    """They are passed on as JSON."""
    assert json.loads(json.dumps(asdict(ConsumeTransformProduce()))) == asdict(ConsumeTransformProduce())
