"""`chaos conformance`: run the conformance table of Kafka clients with pytest, in shards, and write it as pages.

The folder has `scenarios.yaml`, whose scenarios have the axis `client`, and perhaps `not_asked.yaml`: axis -> word -> client ->
the reason why nothing can be asked of this client.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from chaos.cli.museum import lacking, run_pytest
from chaos.common import files
from chaos.common.errors import InconclusiveError, RuntimeUnavailableError, ScenarioError
from chaos.grammar.base import Message, did_you_mean
from chaos.grammar.yaml_source import read, tree_of
from chaos.report import conformance as table
from chaos.report import conformance_page
from chaos.report.html.addresses import PAGE as HTML
from chaos.scenario.load import load
from chaos.scenario.model import Scenario

FILE, NOT_ASKED = "scenarios.yaml", "not_asked.yaml"
PAGE = "conformance.md"
_PYTEST_FAILED = 1  # tests have failed: the table says which
_NO_REASONS = Message("no-reasons", "write axis, word, client and the reason, each below the one before")
_REASONS = TypeAdapter(dict[str, dict[str, dict[str, str]]])

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shard:
    """Every `count`-th case, from the `number`-th on."""

    number: int = 1
    count: int = 1

    @classmethod
    def of(cls, text: str) -> "Shard":
        """Read ``2/8``.

        Raises:
            ScenarioError: it is no such text.
        """
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ScenarioError(f"--shard {text}: write the number of the shard and how many there are, from 1/8 to 8/8")
        return cls(int(number), int(count))

    def of_cases(self, cases: Sequence[Scenario]) -> Sequence[Scenario]:
        """Return its cases; which ones these are does not depend on the machine."""
        return cases[self.number - 1 :: self.count]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for.

    Attributes:
        clients: their names; all, if there is none.
        runs: the folder of the run directories.
        earlier: an earlier table, as JSON: its cells are not run again, and shown as they were.
    """

    clients: Sequence[str] = ()
    shard: Shard = field(default_factory=Shard)
    folder: Path = Path("conformance")
    runs: Path = Path("runs")
    earlier: Path | None = None

    def results(self) -> Mapping[str, table.Result]:
        """Return the results of the earlier table: scenario -> result.

        Raises:
            ScenarioError: it cannot be read, or is no table.
        """
        try:
            return table.earlier(self.earlier) if self.earlier else {}
        except InconclusiveError as error:
            raise ScenarioError(f"--earlier: {error}") from error

    def cases(self) -> tuple[list[Scenario], list[table.Case]]:
        """Return the scenarios of these clients, and all cells of their table.

        Raises:
            ScenarioError: there is no such folder or client, or a file in it is wrong.
        """
        if not (self.folder / FILE).is_file():
            raise ScenarioError(
                f"{self.folder} has no {FILE}; the wheel is without the conformance table: call this in a clone of the "
                "project, or name the folder: chaos conformance --folder"
            )
        declared = [one for one in load(self.folder / FILE).scenarios if table.CLIENT in one.matrix]
        known = list(dict.fromkeys(one.matrix[table.CLIENT] for one in declared))
        unknown = next((name for name in self.clients if name not in known), None)
        if unknown is not None:
            raise ScenarioError(f"there is no client {unknown}{did_you_mean(unknown, known)}; there are: {', '.join(known)}")
        wanted = [one for one in declared if not self.clients or one.matrix[table.CLIENT] in self.clients]
        left_out = [one for one in _not_asked(self.folder / NOT_ASKED) if not self.clients or one.client in self.clients]
        return wanted, table.cases(wanted, left_out)


def run(asked: Asked, say: Say) -> int:
    """Run the cases of a shard, and write the table of all that is in the folder of runs.

    Returns:
        0 if they were run, whatever was found; else the exit code of pytest.

    Raises:
        ScenarioError: as `Asked.cases`.
        RuntimeUnavailableError: a client that is named cannot run on this machine.
    """
    wanted, _ = asked.cases()
    missing, known = _missing(wanted), asked.results()
    for client, why in missing.items():
        if client in asked.clients:
            raise RuntimeUnavailableError(f"{client}: {why}")
        say(f"not run: {client}: {why}")
    cases = asked.shard.of_cases(wanted)
    own = [one.name for one in cases if one.matrix[table.CLIENT] not in missing and one.name not in known]
    if not own:
        return 0
    places = [f"{asked.folder / FILE}::test_scenario[{name}]" for name in own]
    code = run_pytest(["-m", "chaos", f"--chaos-runs={asked.runs}", f"--chaos-html={asked.runs / HTML}", *places])
    if code not in (0, _PYTEST_FAILED):
        return code
    return write(asked, asked.runs / PAGE, say)


def write(asked: Asked, page: Path, say: Say) -> int:
    """Write the table as pages, and beside them as JSON, from all runs in the folder of runs and from the earlier table.

    Returns:
        0, or 3 if a report cannot be read; the page is written without it.

    Raises:
        ScenarioError: as `Asked.cases` and `Asked.results`, or a page cannot be written.
    """
    if not asked.runs.is_dir():
        raise ScenarioError(f"{asked.runs} is no folder; name the folder of the runs: chaos conformance --runs")
    _, declared = asked.cases()
    known = asked.results()
    found, problems = table.results_below(asked.runs)
    cells = table.cells(declared, {**known, **found})
    texts = dict(conformance_page.pages(cells, page))
    texts[page.with_suffix(".json")] = json.dumps(table.as_json(cells, page.parent), indent=1) + "\n"
    for file, text in texts.items():
        try:
            if file.parent != page.parent:
                file.parent.mkdir(exist_ok=True)
            files.write_atomically(file, text)
        except OSError as error:
            raise ScenarioError(f"{file} cannot be written: {error.strerror}") from error
    for problem in problems:
        say(problem)
    say(f"{page}: {sum(cell.result is not None for cell in cells)} of {sum(not cell.case.why_not for cell in cells)} cells")
    return 3 if problems else 0


def show(asked: Asked, say: Say) -> int:
    """List the cases of a shard, and what this machine lacks for their clients; the exit code."""
    wanted, _ = asked.cases()
    missing = _missing(wanted)
    for one in asked.shard.of_cases(wanted):
        why = missing.get(one.matrix[table.CLIENT], "")
        say(f"{one.name:64}{one.title}{f' (not here: {why})' if why else ''}")
    return 0


def _missing(wanted: Iterable[Scenario]) -> Mapping[str, str]:
    """Client -> the runtime that its packages need and this machine lacks."""
    of_client = {one.matrix[table.CLIENT]: lacking(one) for one in wanted}
    return {client: why for client, why in of_client.items() if why}


def _not_asked(file: Path) -> list[table.Case]:
    if not file.exists():
        return []
    try:
        found = _REASONS.validate_python(tree_of(read(file), file, _NO_REASONS))
    except ValidationError as error:
        where = " -> ".join(map(str, error.errors()[0]["loc"]))
        raise ScenarioError(f"{file}: {where}: {_NO_REASONS}") from error
    return [
        table.Case("", client, (axis,), (word,), why)
        for axis, words in found.items()
        for word, clients in words.items()
        for client, why in clients.items()
    ]
