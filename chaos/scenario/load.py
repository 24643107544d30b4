"""YAML -> values; or every error at once, each as `file:line:col: what (did you mean …)`."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chaos.common.errors import ScenarioError
from chaos.external.declaration import External
from chaos.grammar.base import Mistake, did_you_mean
from chaos.grammar.error_messages import mistakes
from chaos.grammar.yaml_source import read, tree_of, wrong_at
from chaos.scenario import checks, support
from chaos.scenario.matrix import MatrixProblem, expand
from chaos.scenario.model import (
    MOST_BROKERS,
    MOST_WORKERS,
    KafkaSpec,
    Scenario,
    ScenarioFileModel,
    SparkSpec,
    SystemSpec,
)


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A file that is right.

    Attributes:
        path: as it was given.
        tree: its values with their places, matrices expanded.
    """

    path: Path
    system: SystemSpec
    scenarios: tuple[Scenario, ...]
    tree: Any = field(repr=False, compare=False)

    def scenario(self, name: str) -> Scenario:
        """One of them.

        Raises:
            ScenarioError: there is none of this name.
        """
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        names = [scenario.name for scenario in self.scenarios]
        raise ScenarioError(
            f"{self.path}: there is no scenario {name!r}{did_you_mean(name, names)}; there are: {', '.join(names)}"
        )


def load(path: Path, runtime: str = "") -> ScenarioFile:
    """Read a file.

    Args:
        runtime: where it will be run, so that what cannot be done there is refused; "" when it is only read.

    Raises:
        ScenarioError: it cannot be read, or it is wrong; one line for every error.
    """
    return load_text(read(path), path, runtime)


def load_text(text: str, path: Path, runtime: str = "") -> ScenarioFile:
    """Read a text that stands, or might stand, in a file; errors as in `load`."""
    tree = tree_of(text, path, "there is nothing here that could be run; begin with `version: 1` and `scenarios:`")
    try:
        tree = expand(tree)
    except MatrixProblem as problem:
        raise wrong_at([problem.mistake], tree, path) from None
    try:
        model = ScenarioFileModel.model_validate(tree)
    except ValidationError as error:
        raise wrong_at(
            (*mistakes(error, ScenarioFileModel), *_checked(_sound(tree), _system(tree), runtime)), tree, path
        ) from None
    wrong = tuple(_checked(dict(enumerate(model.scenarios)), model.system, runtime))
    if wrong:
        raise wrong_at(wrong, tree, path)
    return ScenarioFile(path, model.system, model.scenarios, tree)


def refused(file: ScenarioFile, names: Collection[str], external: External) -> ScenarioError | None:
    """What cannot be done to an external system, of the scenarios with these names: one line for each, with its place."""
    wrong = [
        Mistake(("scenarios", number, *location), f"{scenario.name}: {message}")
        for number, scenario in enumerate(file.scenarios)
        if scenario.name in names
        for location, message in support.impossible_outside(scenario, external)
    ]
    return wrong_at(wrong, file.tree, file.path) if wrong else None


def _checked(scenarios: Mapping[int, Scenario], system: SystemSpec, runtime: str) -> Iterator[Mistake]:
    for location, message in checks.check(scenarios, system.kafka.brokers, system.spark.workers):
        yield Mistake(location, message)
    for number, scenario in scenarios.items():
        for location, message in support.impossible(scenario, runtime):
            yield Mistake(("scenarios", number, *location), message)


def _sound(tree: Mapping[str, Any]) -> dict[int, Scenario]:
    """The scenarios that keep to the grammar in a file that does not: they are checked further all the same."""
    listed = tree.get("scenarios")
    read = {number: _read(raw) for number, raw in enumerate(listed if isinstance(listed, list) else [])}
    return {number: scenario for number, scenario in read.items() if scenario}


def _read(raw: Any) -> Scenario | None:
    try:
        return Scenario.model_validate(raw)
    except ValidationError:
        return None


def _system(tree: Mapping[str, Any]) -> SystemSpec:
    """What is declared; the most there can be if that is not readable."""
    try:
        return SystemSpec.model_validate(tree.get("system", {}))
    except ValidationError:
        return SystemSpec(kafka=KafkaSpec(brokers=MOST_BROKERS), spark=SparkSpec(workers=MOST_WORKERS))
