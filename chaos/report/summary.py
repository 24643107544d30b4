"""The end of a session: one row per run, commands to repeat failed ones, the time of the set, and the coverage of matrices.

A matrix is one table: two axes down and across, a cell for each case with its verdict and recovery. ``not sent`` is a case that
cannot happen because this client never sends that request; UNKNOWN is one whose trigger did not come.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.common.errors import one_line
from chaos.report.formatting import findings_line, seconds, tally, wall_s
from chaos.report.model import Report
from chaos.scenario.matrix import slug
from verifiers.base import Verdict

K = TypeVar("K", bound=Hashable)

COLOURS = {Verdict.VALID: "green", Verdict.UNKNOWN: "yellow", Verdict.INVALID: "red"}
_WIDE = 120
_OTHER_COLUMNS = 48  # verdict, recovery, wall and seed, with the space between them
_ACROSS = "pipeline"
_NOT_SENT = "NOT SENT"
_FIXED = frozenset({"rows", "expected", "set_up", "drain", "observe", "judge", "report"})


def summary_table(reports: Sequence[Report], width: int) -> RenderableType:
    """Draw one row per run; below, for each that is not VALID, why, where its files are and how to repeat it.

    Args:
        reports: in the order they ran.
        width: columns of the terminal; below 120, or beside a name that is too long for half of them, the findings go under the
            name of the scenario.
    """
    longest = max((len(report.scenario) for report in reports), default=0)
    wide = width >= _WIDE and longest <= (width - _OTHER_COLUMNS) // 2
    table = Table(box=box.SIMPLE_HEAD, width=width, pad_edge=False)
    for name in ("scenario", "findings") if wide else ("scenario and findings",):
        table.add_column(name, ratio=1, overflow="fold")
    for name in ("verdict", "recovery", "wall", "seed"):
        table.add_column(name, justify="left" if name == "verdict" else "right", no_wrap=True)
    for report in reports:
        said = findings_line(report)
        first = (report.scenario, said) if wide else (f"{report.scenario}\n  {said}",)
        table.add_row(*first, *_row(report))
    return Group(table, *(line for report in reports if report.verdict is not Verdict.VALID for line in _repeat(report)))


def markdown(reports: Sequence[Report], cut_short: Sequence[Path]) -> str:
    """Write the table as Markdown, the worst run first; a run without a report is a row, too.

    Args:
        reports: of one or many sessions.
        cut_short: the directories of runs without a report.
    """
    verdicts = Counter(report.verdict.name for report in reports) | Counter({"without a report": len(cut_short)})
    counted = ", ".join(f"{count} {name}" for name, count in verdicts.items() if count)
    worst_first = sorted(reports, key=lambda report: report.verdict, reverse=True)
    rows = [
        ("scenario", "verdict", "findings", "recovery", "wall", "seed"),
        ("---", "---", "---", "--:", "--:", "--:"),
        *((folder.name, "no report", "the run was cut short, or it goes on", "", "", "") for folder in cut_short),
        *(tuple(map(_marked, _markdown_row(report))) for report in worst_first),
    ]
    lines = [f"**{counted}**", "", *(f"| {' | '.join(row)} |" for row in rows)]
    for report in worst_first:
        if report.verdict is not Verdict.VALID:
            lines += ["", f"**{report.verdict.name} {report.scenario}**", ""]
            lines += [f"* {_marked(one_line(problem))}" for problem in report.problems]
            lines += [f"* replay: `{report.replay}`"]
    return "\n".join(lines)


def costs(reports: Sequence[Report], ups_s: Sequence[float], total_s: float) -> RenderableType:
    """Show where the time went.

    Args:
        reports: of the session.
        ups_s: seconds of each start of the system.
        total_s: seconds of the whole set.
    """
    return Group(*(Text(line, no_wrap=True, overflow="ignore") for line in _costs(reports, ups_s, total_s)))


def fixed_s(report: Report) -> float:
    """Return the seconds of a run's fixed phases, whatever its workload: set_up, drain, observe, judge and report."""
    return sum(phase.duration_s for phase in report.phases if phase.name in _FIXED)


def as_text(*renderables: RenderableType, width: int, colour: bool) -> str:
    """Render as text for a writer that is not a rich console, such as pytest's terminal reporter.

    A replay line is never broken: it must survive copy and paste.
    """
    console = Console(file=StringIO(), width=width, force_terminal=colour, color_system="standard" if colour else None)
    with console.capture() as capture:
        console.print(*renderables, sep="\n", crop=False)
    return capture.get()


def _row(report: Report) -> tuple[RenderableType, ...]:
    return (
        Text(report.verdict.name, style=f"bold {COLOURS[report.verdict]}"),
        seconds(report.recovery_s),
        seconds(wall_s(report)),
        str(report.seed),
    )


def _markdown_row(report: Report) -> tuple[str, ...]:
    said = findings_line(report)
    times = (seconds(report.recovery_s), seconds(wall_s(report)))
    return (report.scenario, report.verdict.name, said, *times, str(report.seed))


def _marked(text: str) -> str:
    """Escape a text for a cell of a Markdown table: no tags of HTML, and no further cell."""
    return escape(text, quote=False).replace("|", "\\|")


def _repeat(report: Report) -> Iterator[Text]:
    yield Text(f"{report.verdict.name} {report.scenario}", style=COLOURS[report.verdict], no_wrap=True, overflow="ignore")
    for problem in report.problems:
        yield Text(f"  {one_line(problem)}")
    for line in (f"  replay: {report.replay}", f"  run:    {report.run_dir}"):
        yield Text(line, no_wrap=True, overflow="ignore")


def _costs(reports: Sequence[Report], ups_s: Sequence[float], total_s: float) -> Iterator[str]:
    if ups_s:
        yield f"system up in {', '.join(map(seconds, ups_s))}"
    yield f"whole set {seconds(total_s)}"
    if reports:
        fixed = [fixed_s(report) for report in reports]
        yield f"fixed cost per scenario: {seconds(max(fixed))} at most, {seconds(median(fixed))} median"


def coverage_tables(reports: Sequence[Report], width: int) -> list[RenderableType]:
    """Draw a table for each set of axes, or for each matrix if two have cases in common; every run is in one.

    Args:
        reports: of a session; empty tables are left out, so there is none if no report is a case of a matrix.
        width: columns of the terminal.
    """
    return [_drawn(matrix, width) for matrix in _matrices(reports)]


def coverage_markdown(reports: Sequence[Report]) -> str:
    """Write the coverage tables as Markdown; empty if no report is a case of a matrix."""
    tables = []
    for matrix in _matrices(reports):
        header, *rows = _crossed(matrix)
        lines = [header, ["---"] * len(header), *rows]
        drawn = [f"| {' | '.join(map(_marked, line))} |" for line in lines]
        title = [f"**{_marked(matrix.title)}**", ""] if matrix.title else []
        tables.append("\n".join([*title, *drawn, "", _verdicts(matrix.reports)]))
    return "\n\n".join(tables)


def coverage_json(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Return an object per case: its coordinates, ``scenario``, ``verdict`` (or ``NOT SENT``), ``caught`` and ``recovery_s``.

    ``caught`` counts each predicted anomaly; ``recovery_s`` may be null.
    """
    return [
        {
            **report.matrix,
            "scenario": report.scenario,
            "verdict": _verdict(report),
            "caught": _caught(report),
            "recovery_s": report.recovery_s,
        }
        for report in reports
        if report.matrix
    ]


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The runs of one table.

    Attributes:
        title: the name of the scenarios without the words of their cases; "" if their axes distinguish them.
    """

    axes: tuple[str, ...]
    reports: Sequence[Report]
    title: str = ""


def _matrices(reports: Sequence[Report]) -> Iterator[_Matrix]:
    for axes, own in _grouped((report for report in reports if report.matrix), lambda report: tuple(report.matrix)).items():
        cases = _grouped(own, lambda report: tuple(report.matrix.values()))
        if all(len({report.scenario for report in same}) == 1 for same in cases.values()):
            yield _Matrix(axes, own)
        else:
            yield from (_Matrix(axes, of_one, title) for title, of_one in _grouped(own, _without_words).items())


def _grouped(reports: Iterable[Report], by: Callable[[Report], K]) -> Mapping[K, list[Report]]:
    grouped: dict[K, list[Report]] = {}
    for report in reports:
        grouped.setdefault(by(report), []).append(report)
    return grouped


def _without_words(report: Report) -> str:
    """Return the declared name of the scenario, without the words of its case at the end."""
    name = report.scenario
    for word in reversed(list(report.matrix.values())):
        name = name.removesuffix(f"-{slug(word)}")
    return name


def _crossed(matrix: _Matrix) -> list[list[str]]:
    """Return lines of cells, headings first: ``pipeline`` goes across, or else the last axis."""
    across = _ACROSS if _ACROSS in matrix.axes else matrix.axes[-1]
    down = [axis for axis in matrix.axes if axis != across]
    columns = list(dict.fromkeys(report.matrix[across] for report in matrix.reports))
    rows = _grouped(matrix.reports, lambda report: tuple(report.matrix[axis] for axis in down))
    cells = [
        [*place, *(_cell([one for one in found if one.matrix[across] == column]) for column in columns)]
        for place, found in rows.items()
    ]
    return [[*down, *columns], *cells]


def _drawn(matrix: _Matrix, width: int) -> RenderableType:
    header, *rows = _crossed(matrix)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, width=width, title=matrix.title or None, title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(_coloured, row))
    table.add_section()
    table.add_row(_verdicts(matrix.reports))
    return table


def _verdicts(reports: Sequence[Report]) -> str:
    counts = Counter(map(_verdict, reports))  # in the order of the reports
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _cell(reports: Sequence[Report]) -> str:
    """``VALID 8.7 s``, ``VALID (caught: duplicate 100) 8.7 s``, ``not sent``; empty without a run.

    A case with several runs shows the worst, and their number: ``INVALID 8.7 s (of 2 runs: 1 VALID, 1 INVALID)``.
    """
    if not reports:
        return ""
    worst = max(reports, key=lambda report: report.verdict)
    after = f" {seconds(worst.recovery_s)}" if worst.recovery_s is not None else ""
    found = tally(_caught(worst))
    caught = f" (caught: {found})" if found else ""
    several = f" (of {len(reports)} runs: {_verdicts(reports)})" if len(reports) > 1 else ""
    verdict = _verdict(worst)
    return f"{verdict.lower() if verdict == _NOT_SENT else verdict}{caught}{after}{several}"


def _caught(report: Report) -> Mapping[str, int]:
    """Anomaly that a control predicts -> how often it was found; empty unless its verdict is VALID."""
    if report.verdict is not Verdict.VALID:
        return {}
    predicted = [one for one in report.findings if report.expectations.expected(one) is Verdict.INVALID]
    return {anomaly: count for one in predicted for anomaly, count in one.counts.items() if count}


def _coloured(cell: str) -> Text:
    """Colour the verdict at the beginning."""
    verdict = next((name for name in ("VALID", "UNKNOWN", "INVALID", "not sent") if cell.startswith(name)), "")
    text = Text(cell)
    text.stylize({"VALID": "green", "UNKNOWN": "yellow", "INVALID": "red"}.get(verdict, "dim"), 0, len(verdict))
    return text


def _verdict(report: Report) -> str:
    return _NOT_SENT if report.not_sent and report.verdict is Verdict.VALID else report.verdict.name
