"""`pipelines:`: the pipelines under test, each declared once and named.

    pipelines:
      enrich:
        parameters: {batch_records: 3000}               # with defaults; every text of the declaration may use them
        kind: command
        run: ["{python}", "-m", "shop.enrich", "--batch-records={batch_records}"]
        group: "enrich-{suffix}"

    scenarios:
      - {name: …, pipeline: enrich}
      - {name: …, pipeline: {use: enrich, with: {batch_records: 50}}}

A scenario may also declare its pipeline itself, or have ``none``: then the loader alone is under test. A text that is nothing
but a parameter becomes its value, with its type: ``restarts: "{restarts}"`` may be a number. The run replaces all other
placeholders. Values keep their places in the file.
"""

from collections.abc import Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from chaos.contract.placeholders import alone, partly_substituted, spelled
from chaos.grammar.base import Location, Message, Mistake, did_you_mean, shown
from chaos.grammar.yaml_source import copied

NONE = "none"
_KEYS = ("use", "with")
_NO_NAME = Message("pipeline-called-none", "none says that no pipeline is under test; choose another name")
_OF_RUNS = "is a placeholder of every run; choose another name for this parameter"


class PipelineProblem(Exception):  # noqa: N818 - never leaves this package: `load` turns it into a ScenarioError
    """A named pipeline has an error, or a scenario that uses one."""

    def __init__(self, location: Location, message: Message, *, at_key: bool = False) -> None:
        super().__init__(message)
        self.mistake = Mistake(location, message, at_key)


def resolve(tree: Any, taken: frozenset[str]) -> Any:
    """Put the whole declaration of its pipeline into every scenario, and defaults into named pipelines.

    Args:
        taken: placeholders of runs, whose names no parameter may have.

    Raises:
        PipelineProblem: a parameter or a use of a pipeline has an error.
    """
    named = tree.get("pipelines")
    pipelines = named if isinstance(named, CommentedMap) else CommentedMap()
    for name, declared in pipelines.items():
        if name == NONE:
            raise PipelineProblem(("pipelines", NONE), _NO_NAME, at_key=True)
        _check(declared, ("pipelines", str(name)), taken)
    resolved = tree.copy()
    if isinstance(named, CommentedMap):
        resolved["pipelines"] = CommentedMap((name, _filled(declared, {})) for name, declared in pipelines.items())
        resolved["pipelines"]._yaml_line_col = named.lc  # noqa: SLF001 - ruamel copies places in `copy` only, which is shallow
    listed = tree.get("scenarios")
    if isinstance(listed, CommentedSeq):
        scenarios = CommentedSeq()
        for number, raw in enumerate(listed):
            scenarios.append(_with_pipeline(raw, pipelines, ("scenarios", number)))
            scenarios.lc.add_idx_line_col(number, listed.lc.data[number])
        resolved["scenarios"] = scenarios
    return resolved


def _with_pipeline(raw: Any, pipelines: Mapping[str, Any], here: Location) -> Any:
    if not isinstance(raw, CommentedMap) or not _refers(raw.get("pipeline")):
        return raw
    scenario = raw.copy()
    scenario["pipeline"] = _used(raw["pipeline"], pipelines, (*here, "pipeline"))
    return scenario


def _refers(pipeline: Any) -> bool:
    return isinstance(pipeline, str) or (isinstance(pipeline, Mapping) and "use" in pipeline)


def _check(declared: Any, here: Location, taken: frozenset[str]) -> None:
    """Check the parameters of a pipeline, which its model never sees."""
    parameters = declared.get("parameters", {}) if isinstance(declared, Mapping) else {}
    if not isinstance(parameters, Mapping):
        text = f"{shown(parameters)} is not a mapping; write the parameters with their defaults: {{batch_records: 3000}}"
        raise PipelineProblem((*here, "parameters"), Message("parameters-not-a-mapping", text))
    for name, value in parameters.items():
        place = (*here, "parameters", str(name))
        if str(name) in taken:
            raise PipelineProblem(place, Message("parameter-of-runs", f"{{{name}}} {_OF_RUNS}"), at_key=True)
        if not isinstance(name, str) or not alone(f"{{{name}}}"):
            text = f"{shown(name)} is not a placeholder; write lower-case letters and _"
            raise PipelineProblem(place, Message("not-a-placeholder", text), at_key=True)
        _scalar(value, place)


def _scalar(value: Any, here: Location) -> None:
    if not isinstance(value, str | int | float | bool):
        text = f"{shown(value)} cannot be inserted into a text; write a word or a number"
        raise PipelineProblem(here, Message("parameter-not-a-word", text))


def _used(reference: Any, pipelines: Mapping[str, Any], here: Location) -> Any:
    """Return the declaration that a scenario refers to, with its parameters replaced."""
    if reference == NONE:
        return CommentedMap(kind=NONE)
    if isinstance(reference, str):
        return _filled(named_in(pipelines, reference, here), {})
    unknown = next((key for key in reference if key not in _KEYS), None)
    if unknown is not None:
        text = f"{shown(unknown)} is not a key beside `use`; write with: {{…}} for parameters"
        raise PipelineProblem((*here, str(unknown)), Message("key-beside-use", text), at_key=True)
    declared, values = named_in(pipelines, reference["use"], (*here, "use")), reference.get("with", {})
    if not isinstance(values, Mapping):
        text = f"{shown(values)} is not a mapping; write with: {{parameter: value}}"
        raise PipelineProblem((*here, "with"), Message("with-not-a-mapping", text))
    known = declared.get("parameters") if isinstance(declared, Mapping) else None
    known = known if isinstance(known, Mapping) else {}
    for key, value in values.items():
        if key not in known:
            there = f"there are: {', '.join(known)}" if known else "it has none"
            text = f"{shown(key)} is not a parameter of {reference['use']}{did_you_mean(key, known)}; {there}"
            raise PipelineProblem((*here, "with", str(key)), Message("unknown-parameter", text), at_key=True)
        _scalar(value, (*here, "with", str(key)))
    return _filled(declared, values)


def named_in(pipelines: Mapping[str, Any], name: Any, here: Location) -> Any:
    """Find the pipeline of this name.

    Raises:
        PipelineProblem: there is none.
    """
    if not isinstance(name, str) or name not in pipelines:
        known = ", ".join(map(str, pipelines)) or "none; declare it under `pipelines:`"
        text = f"there is no pipeline {shown(name)}{did_you_mean(name, pipelines)}; there are: {known}"
        raise PipelineProblem(here, Message("no-such-pipeline", text))
    return pipelines[name]


def _filled(declared: Any, values: Mapping[str, Any]) -> Any:
    """Replace the parameters of a declaration in its texts."""
    if not isinstance(declared, CommentedMap):
        return declared
    whole = copied(declared)
    return _substituted(whole, {**whole.pop("parameters", {}), **values}, values)


def _substituted(node: Any, values: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Replace parameters by their values.

    Args:
        given: the values of the scenario, which keep the places where they were written.
    """
    if isinstance(node, str):
        texts = {name: spelled(value) for name, value in values.items()}
        return values[alone(node)] if alone(node) in values else partly_substituted(node, texts)
    if isinstance(node, CommentedMap):
        places = (given.lc.data or {}) if isinstance(given, CommentedMap) else {}  # it lacks the places of keys from `<<`
        for key, inner in list(node.items()):
            node[key] = _substituted(inner, values, given)
            if isinstance(inner, str) and alone(inner) in places:
                node.lc.add_kv_line_col(key, places[alone(inner)])
    elif isinstance(node, CommentedSeq):
        for number, inner in enumerate(node):
            node[number] = _substituted(inner, values, given)
    return node
