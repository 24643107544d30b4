import json

import pytest
from ruamel.yaml import YAML

from chaos.scenario.schema import json_schema
from tests.unit.scenario.declared import HEAD
from tests.unit.scenario.validator import problems

FAULT = "    faults: [{kind: delay_link, link: '*->*', latency: 4ms, when: {after: 5s}, for: 2m}]\n"


def underlined(text: str) -> list[str]:
    """What an editor would complain of."""
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
        ("version: 1", "version: 2", "$.version: const"),
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
    (found,) = underlined((HEAD + FAULT).replace(right, wrong))
    assert found.startswith(complaint)
