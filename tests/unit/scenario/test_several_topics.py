"""Several topics that are filled: what a scenario says of them, and what is refused, with its place."""

from pathlib import Path
from typing import Any

import pytest

from chaos.contract.base import Topic
from chaos.engine.pipelines import topics_of
from chaos.expectation import model as models
from chaos.expectation.definitions import Query
from chaos.expectation.model import Model
from chaos.expectation.sources import SeveralTopics
from chaos.scenario.model import Scenario
from tests.unit.scenario.declared import errors_of, loaded

FILE = """\
version: 2
topics: {orders: {partitions: 2}, customers: {partitions: 5}, prices: {}, enriched: {partitions: 2}}
pipelines:
  join:
    kind: command
    reads: [customers, orders, prices]
    sink: {topic: enriched}
    run: [join, "{orders}", "{customers}"]
    group: "{enriched}-join"
    expected: {sql: "SELECT o.key, c.value FROM orders o JOIN customers c USING (key)"}
scenarios:
  - name: a
    title: A
    pipeline: join
    workload:
      into: orders
      records: 8000
      rate: 1000/s
      also:
        - {into: customers, records: 90, rate: 5/s}
"""


def scenario(text: str = FILE) -> Scenario:
    """The first one."""
    return loaded(text).scenarios[0]


def test_each_topic_is_filled_with_what_is_said_of_it() -> None:
    """The first one is the source; records are those of all, and all loaders work at once."""
    one = scenario()

    assert {topic: (filling.records, filling.rate_per_s) for topic, filling in one.filled.items()} == {
        "orders": (8000, 1000.0),
        "customers": (90, 5.0),
    }
    assert (one.source, one.workload.total, one.workload.loading_s) == ("orders", 8090, 18.0)
    assert one.subjects == {"orders": "source", "customers": "source-customers"}


def test_a_run_has_all_of_them() -> None:
    """Topics are filled in the declared order, whatever the order in which they are read."""
    topics = topics_of(scenario(), "", "7")

    assert topics.filled == (Topic("orders-7", 2), Topic("customers-7", 5))
    assert topics.sources == (Topic("customers-7", 5), Topic("orders-7", 2), Topic("prices-7", 3))
    assert topics.of_one(topics.filled[1]).input == Topic("customers-7", 5)


def test_of_one_topic_nothing_has_changed() -> None:
    """It is the source, and what is called so."""
    one = scenario(FILE[: FILE.index("      also:")])

    assert (one.subjects, one.workload.total, one.workload.loading_s) == ({"orders": "source"}, 8000, 8.0)
    query = Query("SELECT o.key, c.value FROM orders o JOIN customers c USING (key)")
    assert models.of_scenario(one) == Model(query, integers="orders")


def test_what_a_run_wrote_down_has_them_too() -> None:
    """It is judged again without the file."""
    assert Scenario.of_run(scenario().to_run()) == scenario()


def test_a_record_need_not_keep_its_partition() -> None:
    """Each of the topics has a partition with this number."""
    assert not scenario().keeps_partitions
    assert scenario(FILE[: FILE.index("      also:")]).keeps_partitions


@pytest.mark.parametrize("expected", [{}, {"expected": "source"}, {"identity": "value"}])
def test_a_copy_of_several_topics_is_a_multiset(expected: dict[str, Any]) -> None:
    """Each has the integers from 0 on, so keys recur."""
    pipeline = scenario().pipeline.model_copy(update={"expected": None, **expected})
    model = models.of_scenario(scenario().model_copy(update={"pipeline": pipeline}))

    assert model == Model(sources=SeveralTopics({"orders": 0, "customers": 2}), identity=expected.get("identity", ""))
    assert model.said.is_copy
    assert not model.is_source_itself


def test_only_the_first_is_made_longer() -> None:
    """A table of customers does not grow with the minutes of a soak."""
    longer = scenario().lasting(1)

    assert [one.records for one in longer.workload.fillings] == [60_000, 90]


def test_paths_of_further_topics_begin_at_the_folder_of_the_file(tmp_path: Path) -> None:
    """And a file says how many records there are."""
    (tmp_path / "customers.jsonl").write_text('{"value": "a"}\n{"value": "b"}\n', encoding="utf-8")
    text = FILE.replace("records: 90, rate: 5/s", "rows: {file: customers.jsonl}")

    (one,) = loaded(text, tmp_path / "scenarios.yaml").scenarios

    (also,) = one.workload.also
    assert also.rows is not None
    assert (also.rows.file, also.records) == (str(tmp_path / "customers.jsonl"), 2)


@pytest.mark.parametrize(
    ("right", "wrong", "errors"),
    [
        ("{into: customers, ", "{", [("20:11", "missing-key")]),
        ("into: customers", "into: customer", [("20:18", "not-a-topic")]),
        (
            "into: customers",
            "into: enriched",
            [("20:18", "topic-not-read")],
        ),
        ("into: customers", "into: orders", [("20:18", "topic-filled-twice")]),
        (
            "rate: 5/s}",
            "rate: 5/s}\n        - {into: customers}",
            [("21:18", "topic-filled-twice")],
        ),
        ("records: 90", "records: 9000", [("20:11", "workload-too-long")]),
        ("records: 90", "recods: 90", [("20:29", "unknown-key")]),
        (
            "records: 90, rate: 5/s",
            "rows: {file: nowhere.jsonl}",
            [("20:42", "unusable-file")],
        ),
        (
            "rate: 5/s}",
            'rate: 5/s, rows: {command: [load, "{order}"]}}',
            [("20:76", "unknown-placeholder")],
        ),
        (
            "pipeline: join",
            "pipeline: none",
            [("20:18", "also-without-pipeline")],
        ),
        (
            "{topic: enriched}",
            "{topic: enriched, routing: same}",
            [("7:38", "routing-of-several")],
        ),
        (
            'group: "{enriched}-join"',
            "positions: none",
            [("9:16", "several-without-positions")],
        ),
        (
            "    workload:",
            "    faults: [{kind: delete_group_offsets, repair: seeded, when: {after: 1s}}]\n    workload:",
            [("15:51", "repair-of-several")],
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(right: str, wrong: str, errors: list[tuple[str, str]]) -> None:
    """With what to write instead."""
    assert right in FILE
    found = errors_of(FILE.replace(right, wrong, 1))

    assert sorted(found) == sorted(errors)
