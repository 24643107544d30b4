"""The grammar as a JSON Schema, for completion and checks in an editor."""

from typing import Any

from chaos.scenario.model import ScenarioFileModel


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a scenarios file."""
    schema = ScenarioFileModel.model_json_schema(mode="serialization")  # the other mode writes defaults without units
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "scenarios.yaml"}
