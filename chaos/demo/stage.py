"""Run the scenarios of the demo as pytest would, and explain them.

The engine and the reports make runs, verdicts and pages, as everywhere; this module only adds the explanations.
"""

import shlex
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaos.common import signals
from chaos.demo import folder, pages
from chaos.demo.acts import ACTS, INTRODUCTION, SYSTEM, Act, found
from chaos.engine.environment import Environment
from chaos.engine.session import Session
from chaos.install import artifacts, preflight
from chaos.report import terminal
from chaos.report.failure_text import explain
from chaos.report.formatting import findings_line
from chaos.report.model import Report
from chaos.report.summary import COLOURS
from chaos.scenario.load import ScenarioFile, load
from verifiers.base import Verdict

_SEED = 1  # fixed, so that each demo is the same
_WIDEST = 100
_NARROWEST = 40
_INDENT = len("    0.0 s  ")
_MARGIN = "  "
_PARTS_MISSING = (
    "parts are missing: fetching Kafka and Spark's connector, about 55 MB, once for this user, as `chaos parts` does"
)


class Stage:
    """Run the scenarios in the folder of the demo, and explain them on the terminal."""

    def __init__(self, into: Path) -> None:
        """Set the folder; nothing is written or started."""
        self._into = into
        self._width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)

    def say(self, text: Text | str = "") -> None:
        """Print a text without breaking lines, so that commands and paths can be copied."""
        Console(highlight=False, markup=False, width=self._width).print(text, soft_wrap=True)

    def labelled(self, rows: Iterable[tuple[str, str]]) -> Text:
        """Lay out labels, each with its text beside it."""
        margin = _INDENT - len(_MARGIN)
        lines = (Text.assemble((f"{_MARGIN}{label:{margin}}", "dim"), self._beside(text)) for label, text in rows)
        return Text("\n").join(lines)

    def require_machine(self) -> None:
        """Check what a run needs, and fetch missing parts, before anything is written.

        Raises:
            RuntimeUnavailableError: something is missing.
        """
        pages.require()
        preflight.check_machine(artifacts.cache_folder(), self._into)
        if artifacts.at_hand() is None:
            self.say(_PARTS_MISSING)
            artifacts.ensure(terminal.say)

    def run(self) -> int:
        """Run all scenarios on one system, and end the system whatever happens.

        Returns:
            The exit code: 0 all ended as expected, 1 one did not, 3 one is UNKNOWN.
        """
        self.say(textwrap.fill(INTRODUCTION, self._width))
        self.say()
        files = f"{self._into}: {folder.SCENARIOS} and the two programs; read and change them as you like."
        self.say(self.labelled([("files", files), ("system", SYSTEM)]))
        file = load((self._into / folder.SCENARIOS).resolve(), "local")
        session = Session(Environment((self._into / folder.RUNS).resolve(), terminal.say), _SEED)
        try:
            session.system(file.system, with_spark=False)
            for place, act in enumerate(ACTS, start=1):
                self._run(act, f"{place} of {len(ACTS)}", file, session)
        finally:
            with signals.deferred():
                session.close()
        return self._end(session.reports)

    def _run(self, act: Act, place: str, file: ScenarioFile, session: Session) -> None:
        scenario = file.scenario(act.scenario)
        replay = f'pytest -m chaos "{folder.SCENARIOS}::test_scenario[{act.scenario}]" --chaos-seed {_SEED}'
        head = f"{place}: {act.scenario}\n{self.labelled(act.setting.items()).plain}\n"
        with terminal.Live(head, words=lambda event: self._beside(act.told(event))) as live:
            outcome = session.run(scenario, file.system, replay, live)
        pages.write(outcome, session.reports, len(ACTS), self._into)
        self._judged(act, outcome.report)

    def _beside(self, text: str) -> str:
        """Wrap a text with room for a label, or for the second of an event, on its left."""
        width = max(self._width - _INDENT, _NARROWEST)
        return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False).replace("\n", f"\n{' ' * _INDENT}")

    def _judged(self, act: Act, report: Report) -> None:
        line = Text.assemble(_MARGIN, (report.verdict.name, f"bold {COLOURS[report.verdict]}"), f": {findings_line(report)}")
        self.say()
        self.say(line)
        if act.is_as_expected(report):
            self.say(self.labelled(act.lesson(report)))
        else:
            self.say(f"{_MARGIN}The demo expects {act.expects}, and this run ended otherwise:\n{explain(report)}")

    def _end(self, reports: Sequence[Report]) -> int:
        as_expected = [act.is_as_expected(report) for act, report in zip(ACTS, reports, strict=True)]
        self.say()
        if all(as_expected):
            self.say(textwrap.fill(_moral(reports), self._width))
        else:
            self.say("The demo did not end as expected: see above.")
        self.say()
        for line in self._next():
            self.say(line)
        return _code(as_expected, reports)

    def _next(self) -> Iterator[str]:
        into = shlex.quote(str(self._into))
        yield f"{_MARGIN}the page       {self._into / folder.PAGE}"
        yield f"{_MARGIN}the scenarios  {self._into / folder.SCENARIOS}"
        yield f"{_MARGIN}once more      cd {into} && pytest -m chaos {folder.SCENARIOS}  # one fails"
        yield f"{_MARGIN}your pipeline  chaos init"


def _moral(reports: Sequence[Report]) -> str:
    twice = sum(found(report).get("duplicates", 0) for report in reports)
    return (
        "Both scenarios ended as announced. The same kill left no trace in the output of one program, and wrote "
        f"{twice} rows twice into the output of the other. For pytest each is a test: the first passes, the second fails."
    )


def _code(as_expected: Sequence[bool], reports: Sequence[Report]) -> int:
    """Return the exit code: 3 if a run proved nothing, 1 if one ended otherwise than expected."""
    if all(as_expected):
        return 0
    is_unknown = any(report.verdict is Verdict.UNKNOWN for report in reports)
    return (Verdict.UNKNOWN if is_unknown else Verdict.INVALID).exit_code
