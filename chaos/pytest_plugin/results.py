"""Results of a run for the Python test that drives it: its faults, and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from chaos.common.history import History
from chaos.judging.story import Story, stories
from chaos.report.failure_text import explain
from chaos.report.model import Report
from verifiers.base import Verdict


class Judged(str):
    """Outcome of a run. Its text is the message of a failed scenario; pytest shows the whole text after an `assert`.

    Attributes:
        report: the whole report: findings, faults, problems, phases, run directory.
        is_looked_at: whether the test has read the verdict.
    """

    __slots__ = ("is_looked_at", "report")
    report: Report
    is_looked_at: bool

    def __new__(cls, report: Report) -> Self:
        judged = super().__new__(cls, explain(report))
        judged.report, judged.is_looked_at = report, False
        return judged

    @property
    def verdict(self) -> Verdict:
        """Verdict of the run, after the expectation was applied."""
        self.is_looked_at = True
        return self.report.verdict

    @property
    def valid(self) -> bool:
        """Whether the verdict is VALID."""
        return self.verdict is Verdict.VALID


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault of this run, in its block. A fault that was not injected, or had no effect, makes the run UNKNOWN."""

    name: str
    history: History

    @property
    def target(self) -> str:
        """Target that the fault hit, e.g. ``broker-2 (leader(squares, 0))``; "" if it was not injected."""
        injected = self._story.injected
        return injected.value.target if injected else ""

    @property
    def effective(self) -> bool:
        """Whether its effect is proved, and its heal, if it has ended, did not show otherwise."""
        return self._story.is_effective

    @property
    def proof(self) -> Mapping[str, Any]:
        """Facts of its proof."""
        proved = self._story.proved
        return proved.value.proof if proved else {}

    @property
    def _story(self) -> Story:
        """Events of the fault so far."""
        return stories((self.name,), self.history.events()).get(self.name, Story())
