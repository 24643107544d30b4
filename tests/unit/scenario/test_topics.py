"""`topics:`, and which of them a scenario reads, fills, writes and aims at."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.contract.base import Topic
from chaos.engine.pipelines import topics_of
from chaos.scenario.load import load_text
from chaos.scenario.model import Scenario
from tests.unit.scenario.declared import errors_of, loaded
from tests.unit.wording import mistakes_in

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

    assert mistakes_in(caught.value) == [("1:1", "topics-missing")]


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        (
            "reads: [orders]",
            "reads: [order]",
            ("10:13", "not-a-topic"),
        ),
        (
            "{topic: enriched}",
            "{topic: enrichd}",
            ("11:19", "not-a-topic"),
        ),
        (
            "{topic: enriched}",
            "{topic: orders}",
            ("11:19", "reads-own-sink"),
        ),
        ("reads: [orders]", "reads: [orders, orders]", ("10:21", "topic-read-twice")),
        (
            "reads: [orders]",
            "reads: [orders, unused]",
            ("15:5", "filled-topic-open"),
        ),
        (
            "pipeline: copy}",
            "pipeline: copy, workload: {into: unused}}",
            ("15:58", "topic-not-read"),
        ),
        (
            "{topic: enriched}",
            "{topic: unused, routing: same}",
            ("11:36", "partitions-too-few"),
        ),
        ("leader(enriched, 4)", "leader(enriched, 5)", ("19:42", "no-such-partition")),
        (
            "leader(enriched, 4)",
            "leader(enrichd, 4)",
            ("19:42", "not-a-topic"),
        ),
        (
            "leader(enriched, 4)",
            "leader(unused, 0)",
            ("19:42", "topic-not-used"),
        ),
        ('"{orders}", ', '"{order}", ', ("12:17", "unknown-placeholder")),
        ("partitions: 2", "partitions: 0", ("3:24", "too-small")),
        ("partitions: 2", "partition: 2", ("3:12", "unknown-key")),
        ("  unused:", "  un used:", ("6:3", "not-a-topic-name")),
        ("  unused:", "  7:", ("6:3", "topic-not-text")),
        ("  unused:", "  bootstrap:", ("6:3", "topic-name-taken")),
        ("compression.type: zstd", "min.insync.replicas: 1", ("5:37", "setting-refused")),
        (
            "compression.type: zstd",
            "cleanup.policy: compact",
            ("11:19", "compacted-log"),
        ),
        ("partitions: 2", "config: {cleanup.policy: 'compact,delete'}", ("10:13", "compacted-source")),
        ("compression.type: zstd", "retention.ms: 1000", ("5:37", "setting-refused")),
        (
            "  unused:",
            "  page-views_v1:",
            ("3:3", "topics-of-one-metric"),
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(right: str, wrong: str, error: tuple[str, str]) -> None:
    """With what to write instead; once, however many scenarios have the pipeline."""
    assert right in FILE
    found = errors_of(FILE.replace(right, wrong, 1))

    assert found[0] == error
    assert len({code for _, code in found}) == 1


def test_a_loader_needs_a_topic() -> None:
    """One that it could fill."""
    text = "version: 2\ntopics: {}\nscenarios:\n  - {name: a, title: A, pipeline: none}\n"

    assert [code for _, code in errors_of(text)] == ["no-topics"]


def test_without_a_pipeline_one_of_several_topics_is_named() -> None:
    """Any of them; one alone need not be."""
    text = FILE.replace("pipeline: copy}", "pipeline: none}")

    assert errors_of(text) == [("15:5", "filled-topic-open")]
    assert scenario(text.replace("pipeline: none}", "pipeline: none, workload: {into: unused}}")).used == ("unused",)
