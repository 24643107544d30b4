"""docs/reference.md: it is what the classes say, all of it, in words, and its links lead somewhere."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.cli.main import app
from chaos.faults.registry import FAULTS
from chaos.grammar.base import Declared
from chaos.scenario.describe import json_schema, schema_of
from chaos.scenario.docstrings import markdown, meaning, prose
from chaos.scenario.reference import in_words, page
from chaos.scenario.verifiers import NAMES, anomalies_of

FILE = Path(__file__).parents[3] / "docs" / "reference.md"
PAGE = page()


def rows_below(heading: str) -> list[list[str]]:
    """The cells of all tables with this heading; a bar within a cell has a backslash before it."""
    tables = (part.partition("\n\n")[0].splitlines()[2:] for part in PAGE.split(heading)[1:])
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for lines in tables for line in lines]


def test_the_file_is_what_the_command_prints() -> None:
    """Who changes a key, a default or a docstring renews the page in the same commit."""
    assert FILE.read_text() == PAGE, "docs/reference.md is not up to date; run: make reference"


def test_the_command_prints_the_page() -> None:
    """To a file or a pager: nothing else is printed."""
    assert CliRunner().invoke(app, ["reference"]).output == PAGE


def test_every_key_is_there_and_says_what_it_means() -> None:
    """Those of the file, its parts, triggers and faults; a key without a meaning is no use to somebody who looks it up."""
    keys = {key for one in json_schema()["$defs"].values() for key in one.get("properties", {})}
    rows = rows_below("| key | value | default | meaning |")

    assert keys - {row[0].strip("`") for row in rows} == {"overrides"}  # it has a paragraph
    assert [row for row in rows if not all((row[0], row[1], row[3]))] == []


def test_every_fault_and_verifier_has_its_place() -> None:
    """The headings are complete, and so is the table."""
    assert [kind for kind in FAULTS if f"\n#### `{kind}`\n" not in PAGE] == []
    assert [name for name in NAMES if f"\n| `{name}` | " not in PAGE] == []


def test_every_anomaly_is_defined() -> None:
    """A report names it, so it can be looked up."""
    rows = rows_below("| verifier | anomaly | meaning |")

    assert [row[1] for row in rows] == [anomaly for name in NAMES for anomaly in anomalies_of(name)]
    assert [row for row in rows if not row[2]] == []


def test_links_lead_to_headings() -> None:
    """An anchor is made of its heading as GitHub does it; two headings of one name would share it."""
    headings = re.findall(r"^##+ (.*)$", PAGE, re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    linked = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))

    assert linked
    assert linked <= set(anchors)
    assert [anchor for anchor in linked if anchors.count(anchor) > 1] == []
    assert [name for name in re.findall(r"\]\(([\w-]+\.md)\)", PAGE) if not (FILE.parent / name).is_file()] == []


def test_the_page_is_in_words() -> None:
    """No word of JSON Schema or of Python's types, and nothing that only a reader of the code knows."""
    assert (
        re.findall(r"anyOf|oneOf|\$ref|\$defs|additionalProperties|Literal|None\b|chaos\.\w+\.\w+|(?<!`)``(?!`)|_s`", PAGE)
        == []
    )


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "whole number from 1 to 5"),
        ({"type": "number", "minimum": 0.5}, "number from 0.5 on"),
        ({"title": "duration", "type": "string", "examples": ["5s"]}, "duration such as `5s`"),
        ({"title": "broker", "type": "string", "examples": ["any"]}, "[broker](#targets) such as `any`"),
        ({"enum": ["all", 1]}, "one of `all`, `1`"),
        ({"const": True}, "`true`"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "`true` or `false`"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "list of `a`, `b`"),
        ({"type": "array", "items": {"$ref": "#/$defs/KillBroker"}}, "list of [faults](#faults)"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "list of lists of texts"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "mapping from names to texts"),
        ({"type": "object", "additionalProperties": False}, "mapping"),
        ({}, "any value"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "list of any value"),
        ({"$ref": "#/$defs/TopicSink"}, "mapping: [`sink`](#sink)"),
        ({"$ref": "#/$defs/OfAnotherPackage"}, "mapping"),
    ],
)
def test_what_may_be_written_is_said_in_words(schema: dict[str, object], words: str) -> None:
    assert in_words(schema) == words


class Above(Declared):
    """What is above."""

    near: int
    """said above."""
    far: int
    """said above, too."""
    time_s: float = 1.0
    """said above, in a line that
    goes on.
    """
    silent: int


class Below(Above):
    """What is below.

    With ``two`` paragraphs, see docs/proofs.md.

    Attributes:
        near: this is no docstring of a field.
    """

    near: int = 1
    far: int = 2
    """said below."""


class Silent(Below):
    pass


def test_the_nearest_docstring_tells_what_a_key_means() -> None:
    """A class says only what is special; what is not said there is said above."""
    told = {key: meaning(Below, key) for key in Below.model_fields}
    assert told == {"near": "said above.", "far": "said below.", "time_s": "said above, in a line that goes on.", "silent": ""}
    assert {key: meaning(Silent, key) for key in Silent.model_fields} == told
    assert {key: one.get("description") for key, one in schema_of(Below)["properties"].items()} == told | {"silent": None}
    assert markdown(prose(Below)) == "What is below.\n\nWith `two` paragraphs, see [proofs.md](proofs.md)."
    assert prose(Silent) == ""


def test_tables_and_examples_of_docstrings_are_those_of_markdown() -> None:
    """A line without a first cell goes on with the row above it; a bar would end a cell."""
    text = "====  ====\none   a | b\n      more\ntwo   c\n====  ====\n\n    key: 1\n      more: 2"

    assert markdown(text) == "|  |  |\n| --- | --- |\n| one | a \\| b more |\n| two | c |\n\n```yaml\nkey: 1\n  more: 2\n```"
