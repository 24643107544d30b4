"""The conformance table: what each client did in each case, as a page and as JSON, from the reports of runs.

A case is a scenario with the axis `client`. The other words of its matrix are its row, and the names of their axes its table. A
cell has one of these outcomes:

    VALID          every record arrived once
    lost 200, …    anomalies that must not be there, and how often they were found
    not sent       the proxies counted that this client never sends the request
    UNKNOWN        the run proved nothing; the page says why
    not asked      nothing can be asked of this client here; the page says why
    not run        there is no report of such a run
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from chaos.common.errors import InconclusiveError, one_line
from chaos.report.formatting import day, tally
from chaos.report.html.addresses import PAGE, address
from chaos.report.model import FILE, Report, read
from chaos.scenario.model import Scenario
from chaos.scenario.verifiers import anomalies_of
from verifiers.base import Verdict

CLIENT = "client"
NOT_ASKED, NOT_RUN, NOT_SENT = "not asked", "not run", "not sent"
OTHER = "other"
WORDS: Mapping[tuple[str, str], str] = {
    ("gaps", "lost"): "lost",
    ("duplicates", "duplicate"): "duplicate",
    ("atomicity", "torn"): "torn",
    ("outcomes", "in part"): "torn",
    ("hanging", "hanging"): "hanging",
    ("progress", "no recovery"): "stuck",
    ("progress", "blocked"): "blocked",
    ("progress", "slow recovery"): "slow",
}
"""(verifier, anomaly) -> the word of a cell. Other anomalies follow from these, and are shown if none of these was found."""
_OF_TIME = frozenset({"stuck", "blocked", "slow"})  # these count faults, not records
_COLUMNS = (Verdict.VALID.name, *dict.fromkeys(WORDS.values()), OTHER, NOT_SENT, Verdict.UNKNOWN.name, NOT_ASKED, NOT_RUN)
_BESIDE = "slf4j"  # logs what the client says; it is not the client


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the table that is declared.

    Attributes:
        axes: the names of the other axes; they name the table.
        row: their words.
        why_not: why it is not asked; "" if it is.
    """

    scenario: str
    client: str
    axes: tuple[str, ...]
    row: tuple[str, ...]
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a case.

    Attributes:
        client_version: the client and its version, as its registry writes them.
        versions: part of the system -> its version.
    """

    report: Report
    folder: Path
    client_version: str
    versions: Mapping[str, str]

    @property
    def page(self) -> Path:
        """The page of the run, or its report if no page was written."""
        return self.folder / (PAGE if (self.folder / PAGE).exists() else FILE)

    @property
    def fell_over(self) -> bool:
        """Whether the client ended by itself with an error, and was started again."""
        return any(code > 0 for code in self.report.exit_codes)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of one case.

    Attributes:
        run: the worst run of the case; None if there is none.
        runs: their number.
    """

    case: Case
    run: Run | None
    runs: int

    @property
    def found(self) -> Mapping[str, int]:
        """Anomaly -> how often it was found, by the words of `WORDS`; else by the names of the anomalies."""
        counts = dict(_not_as_expected(self.run.report)) if self.run else {}
        named: Counter[str] = Counter()
        for key in counts.keys() & WORDS.keys():
            named[WORDS[key]] = max(named[WORDS[key]], counts[key])
        order = list(WORDS.values())
        if named:
            return dict(sorted(named.items(), key=lambda item: order.index(item[0])))
        return {anomaly: count for (_, anomaly), count in sorted(counts.items())}

    @property
    def is_red(self) -> bool:
        return self.run is not None and self.run.report.verdict is Verdict.INVALID

    @property
    def column(self) -> str:
        """The outcome in one word: a column of the first table."""
        if self.run is None:
            return NOT_ASKED if self.case.why_not else NOT_RUN
        if self.is_red:
            return next((word for word in self.found if word in _COLUMNS), OTHER)
        report = self.run.report
        return NOT_SENT if report.verdict is Verdict.VALID and report.not_sent else report.verdict.name

    @property
    def text(self) -> str:
        """The outcome in a few words, e.g. ``lost 200, duplicate 3``."""
        counted = (word if word in _OF_TIME else tally({word: count}) for word, count in self.found.items())
        said = ", ".join(counted) if self.is_red else ""
        ended = self.run is not None and self.run.fell_over and self.column != NOT_SENT
        several = f" (worst of {self.runs})" if self.runs > 1 else ""
        return f"{said or self.column}{', restarted' if ended else ''}{several}"

    @property
    def why(self) -> str:
        """Why there is no answer; "" if there is one."""
        if self.run is None:
            return self.case.why_not
        if self.run.report.verdict is not Verdict.UNKNOWN:
            return ""
        unknown = (f"{one.verifier}: {one.note}" for one in self.run.report.findings if one.verdict is Verdict.UNKNOWN)
        return one_line(next(iter(self.run.report.problems), "") or next(unknown, "no verifier decided"))


def cases(scenarios: Iterable[Scenario], not_asked: Sequence[Case] = ()) -> list[Case]:
    """Return the cells that are declared, and those that are not asked."""
    asked = [Case(one.name, one.matrix[CLIENT], *_place(one.matrix)) for one in scenarios if CLIENT in one.matrix]
    return [*asked, *not_asked]


def _place(matrix: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    row = {axis: word for axis, word in matrix.items() if axis != CLIENT}
    return tuple(row), tuple(row.values())


def runs_below(folder: Path) -> tuple[list[Run], list[str]]:
    """Read all runs in a folder and in its folders, as several machines leave them, in the order of their names.

    Returns:
        The runs, and a line for each report that cannot be read.
    """
    found: list[Run] = []
    problems: list[str] = []
    for file in sorted(folder.rglob(FILE)):
        try:
            found.append(_run(file))
        except InconclusiveError as error:
            problems.append(str(error))
    return found, problems


def _run(file: Path) -> Run:
    report, folder = read(file), file.parent
    declared, versions = _values(folder / "scenario.json"), _values(folder / "versions.json")
    pipeline = declared.get("pipeline") or {}
    packages = pipeline.get("packages") or []
    listed = (
        packages if isinstance(packages, list) else [one for own in packages.values() if isinstance(own, list) for one in own]
    )
    version = next((str(one) for one in listed if _BESIDE not in str(one)), f"Spark {versions.get('spark', 'unknown')}")
    return Run(report, folder, version, {str(part): str(number) for part, number in versions.items()})


def _values(file: Path) -> Mapping[str, Any]:
    """Return what a file holds; nothing if it cannot be read: the run is still judged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def cells(declared: Iterable[Case], runs: Iterable[Run]) -> list[Cell]:
    """Return a cell for each case; of several runs of a case it has the worst."""
    of_case: dict[str, list[Run]] = {}
    for run in runs:
        of_case.setdefault(run.report.scenario, []).append(run)
    found = []
    for case in declared:
        own = of_case.get(case.scenario, [])
        found.append(Cell(case, max(own, key=lambda run: run.report.verdict, default=None), len(own)))
    return found


def _not_as_expected(report: Report) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield (verifier, anomaly) and its largest count, of findings that must not be."""
    for finding in report.findings:
        if report.expectations.outcome(finding) is Verdict.INVALID:
            for anomaly in anomalies_of(finding.verifier):
                if count := finding.counts.get(anomaly, 0):
                    yield (finding.verifier, anomaly), count


# as a page ------------------------------------------------------------------------------------------------------------


def markdown(table: Sequence[Cell], page_folder: Path) -> str:
    """Write the page: how often each outcome came for each client, then a table for each set of axes.

    Args:
        page_folder: links to the pages of runs are relative to it.
    """
    clients = list(dict.fromkeys(cell.case.client for cell in table))
    ran = [cell.run for cell in table if cell.run]
    asked = sum(not cell.case.why_not for cell in table)
    lines = ["# Conformance of Kafka clients", "", f"{len(ran)} of {asked} cells were run{_when(ran)}.{_on(ran)}", ""]
    lines += _drawn(["client", "version", *_COLUMNS], [_counted(client, table) for client in clients])
    for axes in dict.fromkeys(cell.case.axes for cell in table):
        own = [cell for cell in table if cell.case.axes == axes]
        lines += ["", f"## {' × '.join(axes).capitalize()}", "", *_crossed(axes, clients, own, page_folder)]  # noqa: RUF001
        lines += _reasons(own)
    return "\n".join(lines)


def _when(ran: Sequence[Run]) -> str:
    days = sorted({day(run.report.phases[0].start_ms) for run in ran if run.report.phases})
    if not days:
        return ""
    return f" on {days[0]}" if len(days) == 1 else f" from {days[0]} to {days[-1]}"


def _on(ran: Sequence[Run]) -> str:
    parts: dict[str, set[str]] = {}
    for run in ran:
        for part in ("kafka", "spark", "java"):
            if part in run.versions:
                parts.setdefault(part, set()).add(run.versions[part])
    named = ", ".join(f"{part.capitalize()} {' and '.join(sorted(numbers))}" for part, numbers in parts.items())
    return f" {named}." if named else ""


def _counted(client: str, table: Sequence[Cell]) -> list[str]:
    own = [cell for cell in table if cell.case.client == client]
    counts = Counter(cell.column for cell in own)
    versions = sorted({cell.run.client_version for cell in own if cell.run})
    return [client, ", ".join(map(_marked, versions)), *(str(counts[column] or "") for column in _COLUMNS)]


def _crossed(axes: Sequence[str], clients: Sequence[str], own: Sequence[Cell], page_folder: Path) -> list[str]:
    there = {(cell.case.row, cell.case.client): cell for cell in own}
    rows = [
        [*map(_marked, row), *(_linked(there.get((row, client)), page_folder) for client in clients)]
        for row in dict.fromkeys(cell.case.row for cell in own)
    ]
    return _drawn([*axes, *clients], rows)


def _drawn(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows)]


def _linked(cell: Cell | None, page_folder: Path) -> str:
    if cell is None:
        return ""
    text = _marked(cell.text)
    return f"[{text}]({address(cell.run.page, page_folder)})" if cell.run else text


def _reasons(own: Iterable[Cell]) -> Iterator[str]:
    """Yield why cells have no answer, one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for cell in own:
        if cell.why:
            reasons.setdefault(f"{cell.column}: {cell.why}", []).append(f"{cell.case.client}, {' '.join(cell.case.row)}")
    if reasons:
        yield ""
    for why, places in reasons.items():
        yield f"* {_marked('; '.join(places))}: {_marked(why)}"


def _marked(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return escape(text, quote=False).replace("|", "\\|")


# as JSON --------------------------------------------------------------------------------------------------------------


def as_json(table: Iterable[Cell], page_folder: Path) -> list[dict[str, Any]]:
    """Return an object for each cell.

    Its keys: the axes, ``client``, ``scenario``, ``outcome`` (a word), ``found`` (anomaly -> count) and ``why`` (there is no
    answer, or ""). A cell that was run also has ``version``, ``verdict``, ``restarted``, ``runs``, ``began_ms``, ``seed``,
    ``run`` (its folder) and ``replay``.
    """
    return [
        {
            **dict(zip(cell.case.axes, cell.case.row, strict=True)),
            "client": cell.case.client,
            "scenario": cell.case.scenario,
            "outcome": cell.column,
            "found": cell.found,
            "why": cell.why,
            **(_of_run(cell.run, cell.runs, page_folder) if cell.run else {}),
        }
        for cell in table
    ]


def _of_run(run: Run, runs: int, page_folder: Path) -> dict[str, Any]:
    report = run.report
    return {
        "version": run.client_version,
        "verdict": report.verdict.name,
        "restarted": run.fell_over,
        "runs": runs,
        "began_ms": report.phases[0].start_ms if report.phases else None,
        "seed": report.seed,
        "run": address(run.folder, page_folder),
        "replay": report.replay,
    }
