"""The grammar told to people and to editors: every fault for `chaos faults`, and a JSON Schema for `chaos schema`.

A scenario with a `matrix` may have a hole, `${axis}`, in the place of any value: its keys are checked by the schema, the rest
by `load`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import getdoc
from typing import Any

from pydantic.fields import FieldInfo

from chaos.faults.base import FaultBase
from chaos.faults.registry import FAULTS
from chaos.grammar.targets import ExecutorTarget, WorkerTarget
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import OF_PIPELINES, Capability
from chaos.scenario.model import ScenarioFileModel
from chaos.scenario.support import ALLOWED, POSSIBLE_OUTSIDE

_OF_ALL = ("kind", "name", "when")
_TARGETS: Mapping[type, str] = {
    ExecutorTarget: "executor(busiest), executor(any), executor(all), executor(N)",
    WorkerTarget: "worker(any), worker(all), worker-N",
}
_BROKERS = "brokers by their role, or broker-N"


@dataclass(frozen=True, slots=True)
class Listed:
    """One kind of fault, told by its class.

    Attributes:
        family: the module that it is in.
        kind: as it is declared.
        targets: what it can be aimed at.
        keys: beside those of every fault, with their defaults; a ``*`` marks what must be there.
        does: the first paragraph of its description.
        provokes: what it is for, with its source.
        proved_by: what its proof shows.
        runs_in: the runtimes that can do it, with what it needs there.
    """

    family: str
    kind: str
    targets: str
    keys: tuple[str, ...]
    does: str
    provokes: str
    proved_by: str
    runs_in: tuple[str, ...]


def listing() -> list[Listed]:
    """All of them, by family and kind."""
    return [_listed(kind, fault) for kind, fault in FAULTS.items()]


def _listed(kind: str, fault: type[FaultBase]) -> Listed:
    keys = tuple(_key(name, field) for name, field in fault.model_fields.items() if name not in (*_OF_ALL, "target", "link"))
    paragraph = (getdoc(fault) or "").split("\n\n")[0].replace("\n", " ")
    family = fault.__module__.rpartition(".")[2]
    return Listed(family, kind, _targets(fault), keys, paragraph, fault.provokes, fault.proved_by, tuple(_runs_in(fault)))


def _targets(fault: type[FaultBase]) -> str:
    if "link" in fault.model_fields:
        return "links FROM->TO: a client, pipeline, * or a broker target at either end"
    if "target" not in fault.model_fields:
        return "the request of its trigger" if fault.settles_request else "–"  # noqa: RUF001 - an empty cell
    default = fault.model_fields["target"].default
    return _TARGETS.get(type(default)) or ", ".join(getattr(fault, "roles", ())) or _BROKERS


def _runs_in(fault: type[FaultBase]) -> Iterator[str]:
    """The runtimes whose systems have all that it needs; of the external one, what may be missing there."""
    needs = fault.needs - OF_PIPELINES
    yield from (runtime for runtime, allowed in ALLOWED.items() if needs <= allowed)
    if needs <= POSSIBLE_OUTSIDE:
        depends = ", ".join(capability.value for capability in Capability if capability in needs)
        yield f"external ({depends})" if depends else "external"


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
