"""Describes the grammar: a list of all faults for `chaos faults`, and a JSON Schema for `chaos schema` and the reference.

A scenario with a `matrix` may have `${axis}` in place of any value, so the schema checks only its keys, and `load` the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from chaos.faults.base import FaultBase
from chaos.faults.registry import FAULTS, PLUGINS
from chaos.grammar.targets import ExecutorTarget, WorkerTarget
from chaos.grammar.units import spoken_seconds, text_of_size
from chaos.runtime.capabilities import OF_PIPELINES, OFFERED, Capability
from chaos.scenario.docstrings import meaning, prose
from chaos.scenario.model import ScenarioFileModel
from chaos.scenario.support import POSSIBLE_OUTSIDE

_OF_ALL = ("kind", "name", "when")
_TARGETS: Mapping[type, str] = {
    ExecutorTarget: "executor(busiest), executor(any), executor(all), executor(N)",
    WorkerTarget: "worker(any), worker(all), worker-N",
}
_BROKERS = "brokers by their role, or broker-N"


@dataclass(frozen=True, slots=True)
class Listed:
    """One kind of fault.

    Attributes:
        family: the name of its module, or the package that adds it.
        keys: its own keys, beside those of every fault, with defaults; required ones are marked with ``*``.
        does: the first paragraph of its docstring.
        provokes: the effect that it is meant to provoke, with the source.
        proved_by: the facts that its proof shows.
        needs: the capabilities that it needs of the pipeline.
        runs_in: the runtimes where it is possible, with the capabilities that it needs there.
    """

    family: str
    kind: str
    targets: str
    keys: tuple[str, ...]
    does: str
    provokes: str
    proved_by: str
    needs: tuple[str, ...]
    runs_in: tuple[str, ...]


def listing() -> list[Listed]:
    """List all faults in the order of the registry: by family and kind."""
    return [_listed(kind, fault) for kind, fault in FAULTS.items()]


def _listed(kind: str, fault: type[FaultBase]) -> Listed:
    keys = tuple(_key(name, field) for name, field in fault.model_fields.items() if name not in (*_OF_ALL, "target", "link"))
    paragraph = prose(fault).split("\n\n")[0].replace("\n", " ")
    family = PLUGINS.origins.get(kind) or fault.__module__.rpartition(".")[2]
    needs = tuple(capability.value for capability in Capability if capability in fault.needs & OF_PIPELINES)
    return Listed(
        family, kind, _targets(fault), keys, paragraph, fault.provokes, fault.proved_by, needs, tuple(_runs_in(fault))
    )


def _targets(fault: type[FaultBase]) -> str:
    if "link" in fault.model_fields:
        return "links FROM->TO: a client, pipeline, * or a broker target at either end"
    if "target" not in fault.model_fields:
        return "the request of its trigger" if fault.settles_request else ""
    default = fault.model_fields["target"].default
    return _TARGETS.get(type(default)) or ", ".join(getattr(fault, "roles", ())) or _BROKERS


def _runs_in(fault: type[FaultBase]) -> Iterator[str]:
    """Find the runtimes that offer what the fault needs; for the external one, list what its system must offer."""
    needs = fault.needs - OF_PIPELINES
    yield from (runtime for runtime, allowed in OFFERED.items() if needs <= allowed)
    if needs <= POSSIBLE_OUTSIDE:
        depends = ", ".join(capability.value for capability in Capability if capability in needs)
        yield f"external ({depends})" if depends else "external"


def _key(name: str, field: FieldInfo) -> str:
    key = field.alias or name
    if field.is_required():
        return f"{key}*"
    return key if field.default in (None, ()) else f"{key} ({_default_in_words(name, field.default)})"


def _default_in_words(name: str, default: Any) -> str:
    if name.endswith("_bytes"):
        return text_of_size(default)
    return spoken_seconds(default) if name.endswith("_s") and isinstance(default, float) else str(default)


_SCALAR = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
_NAMES = {"type": "object", "minProperties": 1}
_AXIS = {"anyOf": [{"type": "array", "items": _SCALAR, "minItems": 1}, _NAMES]}
_USE = {
    "type": "object",
    "properties": {"use": {"type": "string"}, "with": {"type": "object", "additionalProperties": _SCALAR}},
    "required": ["use"],
    "additionalProperties": False,
}
_NAMED_PIPELINE = {  # its parameters get values when it is used; until then every text may have one
    "type": "object",
    "properties": {"kind": {"type": "string"}, "parameters": {"type": "object", "additionalProperties": _SCALAR}},
    "required": ["kind"],
}
_OVERRIDE = {
    "type": "object",
    "properties": {"at": _NAMES, "set": _NAMES},
    "required": ["at", "set"],
    "additionalProperties": False,
}


class _Described(GenerateJsonSchema):
    """Takes the description of each key from its docstring; only types have titles."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        declared: type[BaseModel] = schema["cls"]
        described = super().model_schema(schema)
        for name, field in declared.model_fields.items():
            key = described.get("properties", {}).get(field.alias or name)
            if key is not None and (text := meaning(declared, name)):
                key["description"] = text
        described.pop("description", None)
        return {**described, **({"description": prose(declared)} if prose(declared) else {})}

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature is pydantic's
        return False


def schema_of(declared: type[BaseModel]) -> dict[str, Any]:
    """Make the JSON Schema of one declaration, as in YAML."""
    # in the other mode, defaults have no units
    return declared.model_json_schema(mode="serialization", schema_generator=_Described)


def json_schema() -> dict[str, Any]:
    """Make the JSON Schema 2020-12 of a scenarios file."""
    schema = schema_of(ScenarioFileModel)
    pipeline = schema["$defs"]["Scenario"]["properties"]["pipeline"]
    named = {"anyOf": [{"type": "string"}, _USE, {key: pipeline[key] for key in pipeline if key != "description"}]}
    schema["$defs"]["Scenario"]["properties"]["pipeline"] = {**named, "description": pipeline.get("description", "")}
    schema["properties"]["pipelines"] = {"type": "object", "additionalProperties": _NAMED_PIPELINE}
    schema["$defs"]["CrossedScenario"] = _crossed(schema["$defs"]["Scenario"])
    schema["properties"]["scenarios"]["items"] = {
        "if": {"required": ["matrix"]},
        "then": {"$ref": "#/$defs/CrossedScenario"},
        "else": {"$ref": "#/$defs/Scenario"},
    }
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "scenarios.yaml"}


def _crossed(scenario: dict[str, Any]) -> dict[str, Any]:
    """Make the schema of a scenario with a matrix: keys of a scenario with any value, and those of a matrix."""
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
