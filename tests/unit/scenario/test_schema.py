import json

import pytest
from ruamel.yaml import YAML

from chaos.scenario.describe import json_schema
from tests.unit.scenario.declared import HEAD
from tests.unit.scenario.validator import problems

FAULT = "    faults: [{kind: delay_link, link: '*->*', latency: 4ms, when: {after: 5s}, for: 2m}]\n"


def underlined(text: str) -> list[str]:
    """The errors that an editor would underline."""
    schema = json_schema()
    return sorted(problems(YAML(typ="safe").load(text), schema, schema))


def test_the_schema_says_what_it_is() -> None:
    """Editors choose the draft by `$schema` and show the title; the whole is plain JSON."""
    schema = json.loads(json.dumps(json_schema()))

    assert (schema["$schema"], schema["title"]) == ("https://json-schema.org/draft/2020-12/schema", "scenarios.yaml")


def test_the_schema_knows_what_is_written_not_what_becomes_of_it() -> None:
    """Durations are texts with a unit, keys are YAML's: `for`, not `for_s`."""
    assert underlined(HEAD + FAULT) == []
    delay = json_schema()["$defs"]["DelayLink"]
    assert {"for", "latency", "jitter"} <= set(delay["properties"])
    assert delay["properties"]["jitter"]["default"] == "0s"


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("version: 2", "version: 3", "$.version: const"),
        ("title: A", "titel: A", "$.scenarios[0].titel: unknown"),
        ("name: a", "name: A", "$.scenarios[0].name: pattern"),
        ("{after: 5s}", "{after: 5}", "$.scenarios[0].faults[0]: none of"),
        ("for: 2m", "for: 2h", "$.scenarios[0].faults[0]: none of"),
        ("delay_link", "delay_lnk", "$.scenarios[0].faults[0]: none of"),
        ("faults:", "expect: {gap: valid}\n    faults:", "$.scenarios[0].expect: none of"),
    ],
)
def test_an_editor_sees_mistakes_while_they_are_typed(right: str, wrong: str, complaint: str) -> None:
    """The schema refuses what `load` refuses, as far as a schema can."""
    found = underlined((HEAD + FAULT).replace(right, wrong))
    assert [one for one in found if one.startswith(complaint)]


CROSSED = """\
version: 2
scenarios:
  - name: sweep-${request}-${fault}
    title: "${request} under ${fault.word}"
    tags: "${fault.tags}"
    matrix:
      request: [Produce, EndTxn]
      once: [true, 0.5, 2]
      fault:
        lost: {tags: [quick], do: {kind: lose_request, when: {request: "${request}"}}}
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
    faults: ["${fault.do}"]
    overrides:
      - {at: {request: [Produce]}, set: {expect: not_sent}}
topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}
"""


def test_an_editor_does_not_complain_of_a_matrix() -> None:
    """A hole is filled when the cases are made; until then any place may have one."""
    assert underlined(CROSSED) == []


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("    title:", "    titel:", "$.scenarios[0].titel: unknown"),
        ("[Produce, EndTxn]", "[]", "$.scenarios[0].matrix.request: none of 2"),
        ("[Produce, EndTxn]", "Produce", "$.scenarios[0].matrix.request: none of 2"),
        ("[Produce, EndTxn]", "[Produce, null]", "$.scenarios[0].matrix.request: none of 2"),
        ("set: {", "put: {", "$.scenarios[0].overrides[0].put: unknown"),
        ("at: {request: [Produce]}", "at: {}", "$.scenarios[0].overrides[0].at: minProperties"),
        ("    overrides:", "    override:", "$.scenarios[0].override: unknown"),
    ],
)
def test_an_editor_sees_mistakes_in_a_matrix(right: str, wrong: str, complaint: str) -> None:
    """The keys of a scenario are known with holes in it too, and so is what a matrix is made of."""
    assert complaint in underlined(CROSSED.replace(right, wrong))


NAMED = """\
version: 2
pipelines:
  app: {kind: command, parameters: {size: 3}, run: ["{size}"], group: g, reads: [datasource], sink: {topic: datasink}}
scenarios:
  - {name: a, title: A, pipeline: app}
  - {name: b, title: B, pipeline: {use: app, with: {size: 4}}}
topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("size: 3", "size: [3]", "$.pipelines.app.parameters.size: none of"),
        ("kind: command, ", "", "$.pipelines.app"),
        ("with: {", "wiht: {", "$.scenarios[1].pipeline: none of"),
    ],
)
def test_an_editor_knows_how_a_pipeline_is_named_and_used(right: str, wrong: str, complaint: str) -> None:
    assert underlined(NAMED) == []
    assert [one for one in underlined(NAMED.replace(right, wrong)) if one.startswith(complaint)]


def test_overrides_belong_to_a_matrix() -> None:
    """Without one they would do nothing."""
    assert underlined(HEAD + "    overrides: []\n") == ["$.scenarios[0].overrides: unknown"]


def test_a_topic_may_have_nothing_behind_it() -> None:
    """`orders:` is a topic with defaults; what stands there otherwise is checked."""
    text = NAMED.replace("datasink: {partitions: 3}}", "datasink: }")
    assert underlined(text) == []
    assert underlined(text.replace("datasource: {partitions: 3}", "datasource: 3")) == ["$.topics.datasource: none of 2"]
