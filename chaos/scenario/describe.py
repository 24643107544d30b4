"""The grammar told to people and to editors: every fault for `chaos faults`, and a JSON Schema for `chaos schema`.

A scenario with a `matrix` may have a hole, `${axis}`, in the place of any value: its keys are checked by the schema, the rest
by `load`.
"""

from dataclasses import dataclass
from inspect import getdoc
from typing import Any, get_args

from pydantic.fields import FieldInfo

from chaos.faults.declared import Fault
from chaos.faults.declared.base import FaultBase
from chaos.grammar.units import spoken_seconds
from chaos.scenario.model import ScenarioFileModel
from chaos.scenario.runtimes import EXTERNAL, RUNTIMES
from chaos.scenario.support import POSSIBLE

_OF_ALL = ("kind", "name", "when")


@dataclass(frozen=True, slots=True)
class Listed:
    """One kind of fault.

    Attributes:
        family: network, broker, …
        kind: as it is declared.
        keys: beside those of every fault, with their defaults; a ``*`` marks what must be there.
        runs_in: the runtimes that can do it.
        does: the first paragraph of its description.
    """

    family: str
    kind: str
    keys: tuple[str, ...]
    runs_in: tuple[str, ...]
    does: str


def listing() -> list[Listed]:
    """All of them, by family and kind."""
    union = get_args(Fault)[0]
    return sorted((_listed(fault) for fault in get_args(union)), key=lambda one: (one.family, one.kind))


def _listed(fault: type[FaultBase]) -> Listed:
    (kind,) = get_args(fault.model_fields["kind"].annotation)
    keys = tuple(_key(name, field) for name, field in fault.model_fields.items() if name not in _OF_ALL)
    paragraph = (getdoc(fault) or "").split("\n\n")[0].replace("\n", " ")
    return Listed(fault.__module__.rpartition(".")[2], str(kind), keys, _runs_in(fault), paragraph)


def _runs_in(fault: type[FaultBase]) -> tuple[str, ...]:
    if fault.needs:
        return (fault.needs,)
    return RUNTIMES if issubclass(fault, POSSIBLE) else tuple(one for one in RUNTIMES if one != EXTERNAL)


def _key(name: str, field: FieldInfo) -> str:
    word = field.alias or name
    if field.is_required():
        return f"{word}*"
    return word if field.default is None else f"{word} ({_shown(name, field.default)})"


def _shown(name: str, default: Any) -> str:
    return spoken_seconds(default) if name.endswith("_s") and isinstance(default, float) else str(default)


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
