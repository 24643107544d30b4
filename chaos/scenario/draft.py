"""The scenario of a test in Python: its faults become known one by one, and its expectation at the end.

It is a `Scenario` like one in YAML, with the same checks and the same messages. A fault that is injected at once gets the
moment of its injection as its trigger, so that the scenario in a run directory records what was done.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chaos.common.errors import ScenarioError
from chaos.external.declaration import External
from chaos.faults.base import FaultBase
from chaos.grammar.base import Message, Problem, as_line
from chaos.grammar.error_messages import mistakes
from chaos.grammar.triggers import After
from chaos.grammar.units import text_of_seconds
from chaos.scenario import load
from chaos.scenario.model import Scenario
from chaos.scenario.system import SystemSpec

_AT_ONCE = {"after": "0s"}
_LATEST_S = 60.0  # after the planned end of the workload; the limit of declared times (chaos.scenario.checks)
_POSSIBLE: tuple[Any, ...] = ("valid", {"gaps": "invalid"}, "not_sent")  # a mistake with all of these is a mistake with any


@dataclass(frozen=True, slots=True)
class Ground:
    """The place where the scenario runs.

    Attributes:
        folder: the folder at which its paths begin.
        runtime: "" with an external system.
    """

    folder: Path
    system: SystemSpec
    runtime: str = ""
    external: External | None = None


class Draft:
    """A scenario that grows fault by fault."""

    def __init__(self, ground: Ground, **keys: Any) -> None:
        """Begin with everything but its faults and its expectation.

        Args:
            keys: the keys of a scenario, as in YAML.

        Raises:
            ScenarioError: the keys have mistakes; one line for each.
        """
        self._ground = ground
        self._keys = keys
        self.scenario = self._with()

    def add(self, fault: FaultBase | Mapping[str, Any], flowing_s: float) -> FaultBase:
        """Add a fault, and return it with its name and its trigger.

        Args:
            fault: the fault, or its keys as in YAML; without ``when`` it is injected at once.
            flowing_s: the seconds since output began to flow.

        Raises:
            ScenarioError: the fault has a mistake, or is not possible here.
        """
        keys = {"when": _AT_ONCE, **fault} if isinstance(fault, Mapping) else fault
        before = self.scenario.faults
        added = self._parsed(faults=(*before, keys)).faults[-1]
        if getattr(added, "until", None):
            message = Message("until-of-block", "the end of its block heals this fault; leave `until` out")
            raise ScenarioError(as_line(f"{added.name}, until", message))
        if isinstance(added.when, After) and added.when.after_s == 0:
            at_s = min(flowing_s, self.scenario.workload.loading_s + _LATEST_S)
            when = After(after=text_of_seconds(floor(10 * at_s) / 10))
            added = added.model_copy(update={"when": when})
        self.scenario = self._with(faults=(*before, added))
        return added

    def complete(self, expect: Any = None, leave_out: Mapping[str, str] | None = None) -> Scenario:
        """Return the scenario with its expectation, which is ``valid`` by default.

        Raises:
            ScenarioError: a key has a mistake, or these faults do not allow the expectation.
        """
        given = {"expect": expect, "leave_out": leave_out}
        scenario = self._parsed(
            **{key: value for key, value in given.items() if value is not None}, faults=self.scenario.faults
        )
        _refuse(self._problems(scenario))
        return scenario

    def _with(self, **keys: Any) -> Scenario:
        """Return the scenario with these keys, unless it is wrong with every expectation."""
        scenario = self._parsed(**keys)
        first, *others = ([*self._problems(scenario.model_copy(update={"expect": expect}))] for expect in _POSSIBLE)
        _refuse([problem for problem in first if all(problem in other for other in others)])
        return scenario

    def _parsed(self, **keys: Any) -> Scenario:
        try:
            return Scenario.model_validate({**self._keys, **keys}).below(self._ground.folder)
        except ValidationError as error:
            raise _error((found.location, found.message) for found in mistakes(error, Scenario)) from None

    def _problems(self, scenario: Scenario) -> list[Problem]:
        ground = self._ground
        return load.problems(scenario, ground.folder, ground.system, ground.runtime, ground.external)


def _refuse(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise _error(found)


def _error(problems: Iterable[Problem]) -> ScenarioError:
    """Report each problem in one line, with its place as keys and numbers: ``faults.0.target: … [code]``."""
    return ScenarioError("\n".join(as_line(".".join(map(str, place)), message) for place, message in problems))
