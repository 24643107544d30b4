"""`topics:`, and which of them a scenario reads, fills, writes and aims at."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.engine.pipelines import topics_of
from chaos.scenario.load import load_text
from chaos.scenario.model import Scenario
from chaos.subject.base import Topic
from tests.unit.scenario.declared import errors_of, loaded

FILE = """\
version: 2
topics:
  orders: {partitions: 2}
  page-views.v1:
  enriched: {partitions: 5, config: {compression.type: zstd, segment.bytes: 1048576}}
  unused: {partitions: 1}
pipelines:
  copy:
    kind: command
    reads: [orders]
    sink: {topic: enriched}
    run: [copy, "{orders}", "{enriched}"]
    group: "{orders}-copy"
scenarios:
  - {name: a, title: A, pipeline: copy}
  - name: b
    title: B
    pipeline: copy
    faults: [{kind: kill_broker, target: "leader(enriched, 4)", when: {after: 1s}}]
"""


def scenario(text: str = FILE) -> Scenario:
    """The first one."""
    return loaded(text).scenarios[0]


def test_a_run_has_topics_of_its_own() -> None:
    """Those that are read, filled and written, each with its partitions; none that nobody uses."""
    topics = topics_of(scenario(), "chaos-a-", "7-a")

    assert topics.names == {"orders": "chaos-a-orders-7-a", "enriched": "chaos-a-enriched-7-a"}
    assert (topics.input, topics.output) == (Topic("chaos-a-orders-7-a", 2), Topic("chaos-a-enriched-7-a", 5))
    assert (topics.prefix, topics.suffix) == ("chaos-a-", "7-a")


def test_a_topic_that_a_pipeline_only_names_is_made_too() -> None:
    """Where it puts what it cannot read, for example."""
    used = scenario(FILE.replace('"{enriched}"]', '"{enriched}", "--dead={page-views.v1}"]')).used

    assert used == ("orders", "enriched", "page-views.v1")


def test_of_several_topics_one_is_filled() -> None:
    """`{source}` is the first; the others are made, and their positions are seeded too."""
    text = FILE.replace("reads: [orders]", "reads: [unused, orders]").partition("  - name: b")[0]
    text = text.replace("pipeline: copy}", "pipeline: copy, workload: {into: orders}}")
    topics = topics_of(scenario(text), "", "7")

    assert (topics.source, topics.sources) == ("orders-7", (Topic("unused-7", 1), Topic("orders-7", 2)))


def test_a_topic_without_anything_has_defaults_and_settings_are_texts() -> None:
    topics = scenario().topics

    assert (topics["page-views.v1"].partitions, topics["page-views.v1"].config) == (3, {})
    assert topics["enriched"].config == {"compression.type": "zstd", "segment.bytes": "1048576"}


@pytest.mark.parametrize(
    ("enriched", "routing", "keeps"),
    [(2, "", True), (2, ", routing: any", False), (5, "", False), (5, ", routing: same", True)],
)
def test_a_record_keeps_its_partition_where_there_are_as_many(enriched: int, routing: str, keeps: bool) -> None:  # noqa: FBT001
    """Unless the pipeline says what it does."""
    text = FILE.replace("partitions: 5", f"partitions: {enriched}").replace("enriched, 4", "enriched, 0")

    assert scenario(text.replace("{topic: enriched}", f"{{topic: enriched{routing}}}")).keeps_partitions == keeps


def test_a_scenario_may_have_topics_of_its_own() -> None:
    """In place of those of the file, so that a matrix can cross their partitions."""
    own = "topics: {orders: {partitions: 7}, enriched: {partitions: 7}}"
    cases = loaded(FILE.replace("pipeline: copy}", f"pipeline: copy, {own}}}")).scenarios

    assert [one.topics["orders"].partitions for one in cases] == [7, 2]


def test_what_a_run_wrote_down_has_its_topics() -> None:
    """It is judged again without the file."""
    assert Scenario.of_run(scenario().to_run()) == scenario()


def test_a_file_without_topics_is_shown_what_to_add() -> None:
    """And nothing else: all that follows from it would hide it."""
    text = FILE.partition("topics:")[0] + FILE[FILE.index("pipelines:") :]
    with pytest.raises(ScenarioError) as caught:
        load_text(text, Path("scenarios.yaml"))

    assert str(caught.value) == (
        "scenarios.yaml:1:1: topics: is missing; declare the topics, and say which a pipeline reads and writes, e.g. "
        "topics: {orders: {partitions: 3}, enriched: {partitions: 3}}, and in the pipeline "
        "reads: [orders], sink: {topic: enriched}"
    )


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        (
            "reads: [orders]",
            "reads: [order]",
            "10:13: 'order' is not a topic (did you mean orders?); the topics are orders, page-views.v1, enriched, unused",
        ),
        (
            "{topic: enriched}",
            "{topic: enrichd}",
            "11:19: 'enrichd' is not a topic (did you mean enriched?); the topics are orders, page-views.v1, enriched, unused",
        ),
        (
            "{topic: enriched}",
            "{topic: orders}",
            "11:19: orders is read by this pipeline too, so it would read what it writes; name another topic for its sink",
        ),
        ("reads: [orders]", "reads: [orders, orders]", "10:21: orders is here twice; keep one"),
        (
            "reads: [orders]",
            "reads: [orders, unused]",
            "15:5: this pipeline reads several topics: orders, unused; say which one is filled: workload: {into: orders}",
        ),
        (
            "pipeline: copy}",
            "pipeline: copy, workload: {into: unused}}",
            "15:58: this pipeline does not read unused; it reads orders",
        ),
        (
            "{topic: enriched}",
            "{topic: unused, routing: same}",
            "11:36: unused has 1 partitions and orders has 2, so",
        ),
        ("leader(enriched, 4)", "leader(enriched, 5)", "19:42: enriched has no partition 5; it has 0 to 4"),
        (
            "leader(enriched, 4)",
            "leader(enrichd, 4)",
            "19:42: 'enrichd' is not a topic (did you mean enriched?); the topics are orders, page-views.v1, enriched, unused",
        ),
        (
            "leader(enriched, 4)",
            "leader(unused, 0)",
            "19:42: nothing reads or writes unused in this scenario; its topics are: orders, enriched",
        ),
        ('"{orders}", ', '"{order}", ', "12:17: {order} in '{order}' is not a placeholder; there are "),
        ("partitions: 2", "partitions: 0", "3:24: 0 is too small; the least is 1"),
        ("partitions: 2", "partition: 2", "3:12: 'partition' is not known here (did you mean partitions?)"),
        ("  unused:", "  un used:", "6:3: 'un used' is not the name of a topic; write letters, digits, dots, underscores and"),
        ("  unused:", "  7:", "6:3: 7 is not the name of a topic; write it in quotes"),
        ("  unused:", "  bootstrap:", "6:3: {bootstrap} stands for something else in a pipeline; choose another name"),
        ("compression.type: zstd", "min.insync.replicas: 1", "5:37: min.insync.replicas is 2 in every topic of a run, and by"),
        (
            "compression.type: zstd",
            "cleanup.policy: compact",
            "11:19: enriched is compacted (cleanup.policy), so Kafka removes records of it before they are judged as a log",
        ),
        ("partitions: 2", "config: {cleanup.policy: 'compact,delete'}", "10:13: orders is compacted"),
        ("compression.type: zstd", "retention.ms: 1000", "5:37: retention.ms removes records before they are judged"),
        (
            "  unused:",
            "  page-views_v1:",
            "3:3: page-views_v1 and page-views.v1 are one name to Kafka's metrics",
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(right: str, wrong: str, error: str) -> None:
    """With what to write instead; once, however many scenarios have the pipeline."""
    assert right in FILE
    found = errors_of(FILE.replace(right, wrong, 1))

    assert found[0].startswith(f"scenarios.yaml:{error}")
    assert len({one.partition(": ")[2] for one in found}) == 1


def test_without_a_pipeline_one_of_several_topics_is_named() -> None:
    """Any of them; one alone need not be."""
    text = FILE.replace("pipeline: copy}", "pipeline: none}")

    (error,) = errors_of(text)
    assert error.startswith("scenarios.yaml:15:5: there is no pipeline, and the file has several topics: orders,")
    assert scenario(text.replace("pipeline: none}", "pipeline: none, workload: {into: unused}}")).used == ("unused",)
