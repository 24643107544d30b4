"""Pipelines that are declared once and used by name, with parameters."""

import pytest

from chaos.common.errors import ScenarioError
from chaos.scenario.pipelines import CommandPipeline
from tests.unit.scenario.declared import loaded
from tests.unit.wording import mistakes_in

FILE = """\
version: 2
pipelines:
  app:
    parameters: {size: 3, who: me, loud: true}
    kind: command
    run: ["app", "--size={size}", "{who}", "{{size}}", "--loud={loud}", "{bootstrap}"]
    group: "{who}-{suffix}"
    restarts: "{size}"
    <<: {reads: [datasource], sink: {topic: datasink}}
scenarios:
  - {name: a, title: A, pipeline: app}
  - {name: b, title: B, pipeline: {use: app, with: {size: 5}}}
  - {name: c, title: C, pipeline: {kind: command, run: [own], group: g, reads: [datasource], sink: {topic: datasink}}}
"""


def load(text=FILE):
    return loaded(text)


def test_a_scenario_uses_a_pipeline_by_name():
    """Placeholders of the run, and words in double braces, are left to the run."""
    first, second, third = (scenario.pipeline for scenario in load().scenarios)

    run = ("app", "--size=3", "me", "{{size}}", "--loud=true", "{bootstrap}")
    assert first == CommandPipeline(
        kind="command", reads=["datasource"], sink={"topic": "datasink"}, run=run, group="me-{suffix}", restarts=3
    )
    assert second == first.model_copy(update={"run": ("app", "--size=5", *run[2:]), "restarts": 5})
    assert third.run == ("own",)


def test_parameters_may_come_from_an_anchor():
    """Scenarios that differ in one of many parameters share the others."""
    first = "{name: b, title: B, pipeline: {use: app, with: &others {size: 5}}}"
    second = "{name: d, title: D, pipeline: {use: app, with: {<<: *others, who: you}}}"
    assert first.replace("&others ", "") in FILE
    text = FILE.replace(first.replace("&others ", ""), f"{first}\n  - {second}")

    merged = load(text).scenario("d").pipeline
    assert (merged.restarts, merged.group) == (5, "you-{suffix}")


def test_a_matrix_may_use_them():
    text = FILE.partition("scenarios:")[0] + (
        "scenarios:\n"
        "  - name: m\n    title: T\n    matrix: {size: [1, 2], pipeline: {app: {use: app, with: {size: '${size}'}}}}\n"
        "    pipeline: ${pipeline}\n"
    )

    assert [scenario.pipeline.restarts for scenario in load(text).scenarios] == [1, 2]


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        ("pipeline: app}", "pipeline: ap}", ("11:35", "no-such-pipeline")),
        ("use: app,", "use: [app],", ("12:41", "no-such-pipeline")),
        ("with: {size", "wiht: {size", ("12:46", "key-beside-use")),
        ("with: {size: 5}", "with: 5", ("12:52", "with-not-a-mapping")),
        ("size: 5", "siz: 5", ("12:53", "unknown-parameter")),
        ("size: 5", "size: [5]", ("12:59", "parameter-not-a-word")),
        ("size: 5", "size: -5", ("12:59", "too-small")),
        ("size: 3", "size: {}", ("4:24", "parameter-not-a-word")),
        ("who: me", "sink: me", ("4:27", "parameter-of-runs")),
        ("who: me", "Who: me", ("4:27", "not-a-placeholder")),
        ("{size: 3, who: me, loud: true}", "3", ("4:17", "parameters-not-a-mapping")),
        ('restarts: "{size}"', "restarts: x", ("8:15", "not-a-whole-number")),
        ("{who}-{suffix}", "{whoo}-{suffix}", ("7:12", "unknown-placeholder")),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(right, wrong, error):
    """A pipeline is checked where it is declared, however many scenarios use it."""
    assert right in FILE
    with pytest.raises(ScenarioError) as caught:
        load(FILE.replace(right, wrong))

    assert mistakes_in(caught.value)[0] == error


def test_a_pipeline_that_no_scenario_uses_is_checked_too():
    head, _, scenarios = FILE.partition("scenarios:")
    own = scenarios.splitlines()[-1]

    with pytest.raises(ScenarioError) as caught:
        load(f"{head.replace('kind: command', 'kind: x')}scenarios:\n{own}\n")
    assert ("5:11", "unknown-kind") in mistakes_in(caught.value)


def test_none_is_a_word_and_no_name_of_a_pipeline():
    with pytest.raises(ScenarioError) as caught:
        load(FILE.replace("  app:", "  none:", 1))
    assert mistakes_in(caught.value) == [("3:3", "pipeline-called-none")]


def test_without_a_section_it_is_said_where_to_write_one():
    text = "version: 2\nscenarios:\n  - {name: a, title: A, pipeline: app}\n"

    with pytest.raises(ScenarioError) as caught:
        load(text)
    assert mistakes_in(caught.value) == [("3:35", "no-such-pipeline")]
