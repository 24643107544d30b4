"""The grammar as a JSON Schema, for completion and checks in an editor.

A scenario with a `matrix` may have a hole, `${axis}`, in the place of any value: its keys are checked here, the rest by `load`.
"""

from typing import Any

from chaos.scenario.model import ScenarioFileModel

_WORD = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
_NAMES = {"type": "object", "minProperties": 1}
_AXIS = {"anyOf": [{"type": "array", "items": _WORD, "minItems": 1}, _NAMES]}
_OVERRIDE = {
    "type": "object",
    "properties": {"at": _NAMES, "set": _NAMES},
    "required": ["at", "set"],
    "additionalProperties": False,
}


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a scenarios file."""
    schema = ScenarioFileModel.model_json_schema(mode="serialization")  # the other mode writes defaults without units
    schema["$defs"]["CrossedScenario"] = _crossed(schema["$defs"]["Scenario"])
    schema["properties"]["scenarios"]["items"] = {
        "if": {"required": ["matrix"]},
        "then": {"$ref": "#/$defs/CrossedScenario"},
        "else": {"$ref": "#/$defs/Scenario"},
    }
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "scenarios.yaml"}


def _crossed(scenario: dict[str, Any]) -> dict[str, Any]:
    """The same keys, and those of a matrix."""
    matrix = {**_NAMES, "additionalProperties": _AXIS}
    overrides = {"type": "array", "items": _OVERRIDE}
    keys: dict[str, Any] = {key: {} for key in scenario["properties"]}
    return {
        "type": "object",
        "description": "One declaration, crossed into many scenarios.",
        "properties": {**keys, "matrix": matrix, "overrides": overrides},
        "required": ["name", "matrix"],
        "additionalProperties": False,
    }
