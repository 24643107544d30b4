"""Reads a scenarios file, or reports all its errors at once, each as `file:line:col: message (did you mean …) [code]`."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from chaos.common.errors import ScenarioError
from chaos.external.declaration import External
from chaos.grammar.base import Location, Message, Mistake, Problem, did_you_mean, within
from chaos.grammar.error_messages import mistakes
from chaos.grammar.yaml_source import read, tree_of, wrong_at
from chaos.scenario import checks, declared, support, topics
from chaos.scenario.matrix import MatrixProblem, expand
from chaos.scenario.model import VERSION, Scenario, ScenarioFileModel
from chaos.scenario.pipelines import NoPipeline, Pipeline
from chaos.scenario.services import ServiceSpec
from chaos.scenario.system import MOST_BROKERS, MOST_WORKERS, KafkaSpec, SparkSpec, SystemSpec

_TOPICS: TypeAdapter[topics.TopicSpecs] = TypeAdapter(topics.TopicSpecs)
_FORMER_VERSIONS = (1,)
_FORMER_GRAMMAR = Message(
    "former-grammar",
    f"version 1 of the grammar is no longer supported; convert the file to version: {VERSION}, see "
    "docs/guides/from-version-1.md, or `chaos schema`",
)
_NOTHING = Message("no-scenarios", f"this file has no scenarios; begin with `version: {VERSION}` and `scenarios:`")


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A scenarios file without errors.

    Attributes:
        path: the path as given.
        topics: the topics of scenarios that do not declare their own.
        pipelines: the named pipelines; their paths begin at the folder of the file.
        tree: the values of the file with their places, with matrices expanded.
    """

    path: Path
    system: SystemSpec
    topics: Mapping[str, topics.TopicSpec]
    scenarios: tuple[Scenario, ...]
    pipelines: Mapping[str, Pipeline]
    tree: Any = field(repr=False, compare=False)

    def scenario(self, name: str) -> Scenario:
        """Find the scenario of this name.

        Raises:
            ScenarioError: there is no such scenario.
        """
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        names = [scenario.name for scenario in self.scenarios]
        message = f"there is no scenario {name!r}{did_you_mean(name, names)}; there are: {', '.join(names)}"
        raise ScenarioError(f"{self.path}: {message}")

    def pipeline(self, name: str) -> Pipeline:
        """Find the pipeline of this name, with its parameters as declared, or ``none``.

        Raises:
            ScenarioError: there is no such pipeline.
        """
        if name == declared.NONE:
            return NoPipeline(kind="none")
        try:
            found: Pipeline = declared.named_in(self.pipelines, name, ("pipelines",))
        except declared.PipelineProblem as problem:
            raise ScenarioError(f"{self.path}: {problem}") from None
        return found.below(self.path.parent)


def load(path: Path, runtime: str = "") -> ScenarioFile:
    """Read a file.

    Args:
        runtime: the runtime of the run, so that faults which are impossible there are refused; "" if the file is only read.

    Raises:
        ScenarioError: the file cannot be read, or has errors; one line for each.
    """
    return load_text(read(path), path, runtime)


def load_text(text: str, path: Path, runtime: str = "") -> ScenarioFile:
    """Read the text of a file; errors are those of `load`, and name `path`."""
    tree = tree_of(text, path, _NOTHING)
    version = tree.get("version")
    if version in _FORMER_VERSIONS and not isinstance(version, bool):
        raise wrong_at([Mistake(("version",), _FORMER_GRAMMAR)], tree, path)
    if version == VERSION and not _has_topics(tree):
        raise wrong_at([Mistake(("topics",), topics.MISSING)], tree, path)
    try:
        tree = declared.resolve(expand(tree), topics.PLACEHOLDERS | _names_of_topics(tree) | _names_of_services(tree))
    except (MatrixProblem, declared.PipelineProblem) as problem:
        raise wrong_at([problem.mistake], tree, path) from None
    try:
        model = ScenarioFileModel.model_validate(tree)
    except ValidationError as error:
        found = (*mistakes(error, ScenarioFileModel), *_checked(_readable(tree), _system(tree), runtime))
        raise wrong_at(found, tree, path) from None
    scenarios = [scenario.among(model.topics) for scenario in model.scenarios]
    wrong = [*_checked(dict(enumerate(scenarios)), model.system, runtime), *_missing(scenarios, path.parent)]
    wrong += _of_pipelines(model, scenarios)
    if wrong:
        raise wrong_at(wrong, tree, path)
    located = tuple(scenario.below(path.parent) for scenario in scenarios)
    return ScenarioFile(path, model.system.below(path.parent), model.topics, located, model.pipelines, tree)


def refused(file: ScenarioFile, names: Collection[str], external: External) -> ScenarioError | None:
    """Report parts of these scenarios that are impossible on an external system, one line for each; None without any."""
    wrong = [
        Mistake(("scenarios", number, *location), Message(message.code, f"{scenario.name}: {message}"))
        for number, scenario in enumerate(file.scenarios)
        if scenario.name in names
        for location, message in support.impossible_outside(scenario, external, (scenario.system or file.system).services)
    ]
    return wrong_at(wrong, file.tree, file.path) if wrong else None


def problems(scenario: Scenario, folder: Path, system: SystemSpec, runtime: str, external: External | None) -> list[Problem]:
    """Find mistakes in a scenario that is in no file.

    Args:
        folder: the folder at which its paths begin.
        runtime: as for `load`; "" with an external system.
    """
    found = [*_checked({0: scenario}, system, runtime), *_missing([scenario], folder)]
    services = (scenario.system or system).services
    outside = support.impossible_outside(scenario, external, services) if external else ()
    return [*((mistake.location[2:], mistake.message) for mistake in found), *outside]


def _checked(scenarios: Mapping[int, Scenario], system: SystemSpec, runtime: str) -> list[Mistake]:
    problems = [*checks.check(scenarios, system), *within(("system",), support.unavailable(system, runtime))]
    for number, scenario in scenarios.items():
        if scenario.system:
            problems += within(("scenarios", number, "system"), support.unavailable(scenario.system, runtime))
        problems += within(("scenarios", number), support.impossible(scenario, runtime))
    return [Mistake(location, message) for location, message in problems]


def _has_topics(tree: Mapping[str, Any]) -> bool:
    """Whether every scenario has topics: those of the file, or its own. A file without scenarios lacks something else."""
    listed = tree.get("scenarios")
    scenarios = listed if isinstance(listed, list) else []
    return "topics" in tree or all(isinstance(raw, Mapping) and "topics" in raw for raw in scenarios)


def _names_of_topics(tree: Mapping[str, Any]) -> frozenset[str]:
    declared_ = tree.get("topics")
    return frozenset(map(str, declared_)) if isinstance(declared_, Mapping) else frozenset()


def _names_of_services(tree: Mapping[str, Any]) -> frozenset[str]:
    system = tree.get("system")
    declared_ = system.get("services") if isinstance(system, Mapping) else None
    return frozenset(map(str, declared_)) if isinstance(declared_, Mapping) else frozenset()


def _of_pipelines(model: ScenarioFileModel, scenarios: Iterable[Scenario]) -> Iterator[Mistake]:
    """Find mistakes in named pipelines, also in those that no scenario uses."""
    there = {**model.topics, **{name: spec for scenario in scenarios for name, spec in scenario.topics.items()}}
    systems = [model.system, *(scenario.system for scenario in scenarios if scenario.system)]
    services = {name for system in systems for name in system.services}
    for name, pipeline in model.pipelines.items():
        for location, message in checks.of_pipeline(pipeline, there, services):
            yield Mistake(("pipelines", name, *location), message)


def _missing(scenarios: Iterable[Scenario], folder: Path) -> Iterator[Mistake]:
    for number, scenario in enumerate(scenarios):
        yield from _at(("scenarios", number, "pipeline"), scenario.pipeline.missing(folder))
        for place, filling in checks.fillings(scenario.workload):
            if filling.rows is not None:
                yield from _at(("scenarios", number, *place, "rows"), filling.rows.problems(folder))


def _at(place: Location, problems: Iterable[Problem]) -> Iterator[Mistake]:
    return (Mistake(location, message) for location, message in within(place, problems))


def _readable(tree: Mapping[str, Any]) -> dict[int, Scenario]:
    """Read the scenarios without errors from a file with errors, for further checks; none if its topics are wrong."""
    listed = tree.get("scenarios")
    found = {}
    with suppress(ValidationError):
        there = _TOPICS.validate_python(tree.get("topics", {}))
        for number, raw in enumerate(listed if isinstance(listed, list) else []):
            with suppress(ValidationError):
                found[number] = Scenario.model_validate(raw).among(there)
    return found


def _system(tree: Mapping[str, Any]) -> SystemSpec:
    """Read the system; if it has errors, return the largest possible one, with services of the same names."""
    try:
        return SystemSpec.model_validate(tree.get("system", {}))
    except ValidationError:
        largest = SystemSpec(kafka=KafkaSpec(brokers=MOST_BROKERS), spark=SparkSpec(workers=MOST_WORKERS))
        return largest.model_copy(update={"services": dict.fromkeys(_names_of_services(tree), ServiceSpec(at="localhost:1"))})
