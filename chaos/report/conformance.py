"""The conformance table: what each client did in each case, as JSON, from the reports of runs or from an earlier table.

A case is a scenario with the axis `client`. The other words of its matrix are its row, and the names of their axes its table. A
cell has one of these outcomes:

    VALID          every record arrived once
    lost 200, …    anomalies that must not be there, and how often they were found
    not sent       the proxies counted that this client never sends the request
    UNKNOWN        the run proved nothing; the page says why
    not asked      nothing can be asked of this client here; the page says why
    not run        there is no report of such a run

`conformance_page.py` writes the table as pages.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chaos.common.errors import InconclusiveError, one_line
from chaos.report.failure_text import story
from chaos.report.formatting import tally
from chaos.report.html.addresses import PAGE, address
from chaos.report.model import FILE, Report, read, why_damaged
from chaos.scenario.model import Scenario
from chaos.scenario.verifiers import anomalies_of
from verifiers.base import Verdict

CLIENT = "client"
VALID, UNKNOWN = Verdict.VALID.name, Verdict.UNKNOWN.name
NOT_ASKED, NOT_RUN, NOT_SENT, OTHER = "not asked", "not run", "not sent", "other"
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
OUTCOMES = (VALID, *dict.fromkeys(WORDS.values()), OTHER, NOT_SENT, UNKNOWN, NOT_ASKED, NOT_RUN)
_OF_TIME = frozenset({"stuck", "blocked", "slow"})  # these count faults, not records
_PARTS = ("kafka", "spark", "java")
_BESIDE = "slf4j"  # logs what the client says; it is not the client
_FOLDER = "run"  # key of a table as JSON


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
class Result:
    """What was found in a case: the worst of its runs.

    Attributes:
        outcome: one word of `OUTCOMES`.
        found: anomaly -> how often it was found, by the words of `WORDS`; else by the names of the anomalies.
        why: why a run proved nothing; "" if it proved something.
        version: the client and its version, as its registry writes them.
        versions: part of the system -> its version.
        restarted: whether the client ended by itself with an error, and was started again.
        runs: their number.
        began_ms: when the run began; None if it never did.
        seed: of its schedule.
        replay: the command that repeats it.
        story: what the report says, in lines, if it is not VALID.
        page: the page of the run, or its report; None if neither is on this machine.
    """

    scenario: str
    outcome: str
    found: Mapping[str, int]
    why: str
    version: str
    versions: Mapping[str, str]
    restarted: bool
    runs: int
    began_ms: int | None
    seed: int
    replay: str
    story: tuple[str, ...] = ()
    page: Path | None = field(default=None, compare=False)

    @property
    def is_red(self) -> bool:
        return self.outcome not in (VALID, NOT_SENT, UNKNOWN)

    @property
    def text(self) -> str:
        """The outcome in a few words, e.g. ``lost 200, duplicate 3``."""
        counted = (word if word in _OF_TIME else tally({word: count}) for word, count in self.found.items())
        said = ", ".join(counted) if self.is_red else ""
        ended = self.restarted and self.outcome != NOT_SENT
        several = f" (worst of {self.runs})" if self.runs > 1 else ""
        return f"{said or self.outcome}{', restarted' if ended else ''}{several}"


_RESULT, _ROWS = TypeAdapter(Result), TypeAdapter(list[dict[str, Any]])
_KEPT = tuple(one.name for one in fields(Result) if one.name != "page")


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of one case: nothing, if it has no result."""

    case: Case
    result: Result | None

    @property
    def outcome(self) -> str:
        """One word of `OUTCOMES`."""
        if self.result is None:
            return NOT_ASKED if self.case.why_not else NOT_RUN
        return self.result.outcome

    @property
    def text(self) -> str:
        return self.result.text if self.result else self.outcome

    @property
    def why(self) -> str:
        """Why there is no answer; "" if there is one."""
        return self.result.why if self.result else self.case.why_not


def cases(scenarios: Iterable[Scenario], not_asked: Sequence[Case] = ()) -> list[Case]:
    """Return the cells that are declared, and those that are not asked."""
    asked = [Case(one.name, one.matrix[CLIENT], *_place(one.matrix)) for one in scenarios if CLIENT in one.matrix]
    return [*asked, *not_asked]


def _place(matrix: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    row = {axis: word for axis, word in matrix.items() if axis != CLIENT}
    return tuple(row), tuple(row.values())


def cells(declared: Iterable[Case], found: Mapping[str, Result]) -> list[Cell]:
    """Args: found: scenario -> its result."""
    return [Cell(case, found.get(case.scenario)) for case in declared]


# from runs ------------------------------------------------------------------------------------------------------------


def results_below(folder: Path) -> tuple[dict[str, Result], list[str]]:
    """Read all runs in a folder and in its folders, as several machines leave them.

    Returns:
        Scenario -> the result of the worst of its runs, and a line for each report that cannot be read.
    """
    runs: dict[str, list[tuple[Report, Path]]] = {}
    problems: list[str] = []
    for file in sorted(folder.rglob(FILE)):
        try:
            report = read(file)
        except InconclusiveError as error:
            problems.append(str(error))
        else:
            runs.setdefault(report.scenario, []).append((report, file.parent))
    return {scenario: result(own) for scenario, own in runs.items()}, problems


def result(runs: Sequence[tuple[Report, Path]]) -> Result:
    """Return the result of the worst of the runs of a case.

    Args:
        runs: their reports and folders; at least one.
    """
    report, folder = max(runs, key=lambda run: run[0].verdict)
    versions = _values(folder / "versions.json")
    found = _found(report)
    return Result(
        report.scenario,
        _outcome(report, found),
        found,
        _in_run(_why(report), report),
        _client(_values(folder / "scenario.json"), versions),
        {part: str(versions[part]) for part in _PARTS if part in versions},
        restarted=any(code > 0 for code in report.exit_codes),
        runs=len(runs),
        began_ms=report.phases[0].start_ms if report.phases else None,
        seed=report.seed,
        replay=report.replay,
        story=() if report.verdict is Verdict.VALID else tuple(_in_run(line, report) for line in story(report)),
        page=folder / (PAGE if (folder / PAGE).exists() else FILE),
    )


def _outcome(report: Report, found: Mapping[str, int]) -> str:
    if report.verdict is Verdict.INVALID:
        return next((word for word in found if word in OUTCOMES), OTHER)
    return NOT_SENT if report.verdict is Verdict.VALID and report.not_sent else report.verdict.name


def _found(report: Report) -> Mapping[str, int]:
    counts = dict(_not_as_expected(report))
    named: Counter[str] = Counter()
    for key in counts.keys() & WORDS.keys():
        named[WORDS[key]] = max(named[WORDS[key]], counts[key])
    order = list(WORDS.values())
    if named:
        return dict(sorted(named.items(), key=lambda item: order.index(item[0])))
    return {anomaly: count for (_, anomaly), count in sorted(counts.items())}


def _not_as_expected(report: Report) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield (verifier, anomaly) and its largest count, of findings that must not be."""
    for finding in report.findings:
        if report.expectations.outcome(finding) is Verdict.INVALID:
            for anomaly in anomalies_of(finding.verifier):
                if count := finding.counts.get(anomaly, 0):
                    yield (finding.verifier, anomaly), count


def _why(report: Report) -> str:
    if report.verdict is not Verdict.UNKNOWN:
        return ""
    unknown = (f"{one.verifier}: {one.note}" for one in report.findings if one.verdict is Verdict.UNKNOWN)
    return one_line(next(iter(report.problems), "") or next(unknown, "no verifier decided"))


def _in_run(text: str, report: Report) -> str:
    """Name files of a run by their paths within it: a table is read elsewhere."""
    return text.replace(f"{report.run_dir}/", "")


def _client(declared: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    packages = (declared.get("pipeline") or {}).get("packages") or []
    own = packages if isinstance(packages, list) else [one for of in packages.values() if isinstance(of, list) for one in of]
    return next((str(one) for one in own if _BESIDE not in str(one)), f"Spark {versions.get('spark', 'unknown')}")


def _values(file: Path) -> Mapping[str, Any]:
    """Return what a file holds; nothing if it cannot be read: the run is still judged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# as JSON --------------------------------------------------------------------------------------------------------------


def as_json(table: Iterable[Cell], page_folder: Path) -> list[dict[str, Any]]:
    """Return an object for each cell.

    Its keys: the axes, ``client``, ``scenario``, ``outcome`` (a word), ``found`` (anomaly -> count) and ``why`` (there is no
    answer, or ""). A cell that was run also has those of `Result`, and ``run`` if the folder of its run is below the page's.
    """
    return [
        {
            **dict(zip(cell.case.axes, cell.case.row, strict=True)),
            "client": cell.case.client,
            "scenario": cell.case.scenario,
            "outcome": cell.outcome,
            "found": {},
            "why": cell.why,
            **(_as_row(cell.result, page_folder) if cell.result else {}),
        }
        for cell in table
    ]


def _as_row(of: Result, page_folder: Path) -> dict[str, Any]:
    page = page_beside(of, page_folder)
    row = {name: value for name, value in asdict(of).items() if name in _KEPT}
    return row | ({_FOLDER: address(page.parent, page_folder)} if page else {})


def page_beside(of: Result, folder: Path) -> Path | None:
    """Return the page of the run if it is in this folder or below it, so that both can be copied together; else None."""
    return of.page if of.page and of.page.resolve().is_relative_to(folder.resolve()) else None


def earlier(file: Path) -> dict[str, Result]:
    """Read the results in a table that was written as JSON.

    Returns:
        Scenario -> its result; those whose run is not there any more have no page.

    Raises:
        InconclusiveError: the file cannot be read, or is no such table.
    """
    try:
        rows = _ROWS.validate_json(file.read_text(encoding="utf-8"))
        found = [_of_row(row, file.parent) for row in rows if "seed" in row]
    except (OSError, ValueError) as error:  # a ValueError: ValidationError, and text that is not UTF-8
        raise InconclusiveError(f"{file} is no table that --page wrote as JSON: {why_damaged(error)}") from error
    return {one.scenario: one for one in found}


def _of_row(row: Mapping[str, Any], folder: Path) -> Result:
    pages = (folder / str(row[_FOLDER]) / name for name in (PAGE, FILE)) if _FOLDER in row else ()
    page = next((one for one in pages if one.exists()), None)
    return _RESULT.validate_python({**{name: row[name] for name in _KEPT if name in row}, "page": page})
