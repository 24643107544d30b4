"""The end of a session: one row per run, commands to repeat failed ones, and the time of the set."""

from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaos.common.errors import one_line
from chaos.report.formatting import findings_line, in_cell, seconds, wall_s
from chaos.report.model import Report
from verifiers.base import Verdict

COLOURS = {Verdict.VALID: "green", Verdict.UNKNOWN: "yellow", Verdict.INVALID: "red"}
_WIDE = 120
_OTHER_COLUMNS = 48  # verdict, recovery, wall and seed, with the space between them
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
        below = Padding(Text(said), (0, 0, 0, 2))
        first = (report.scenario, said) if wide else (Group(Text(report.scenario, overflow="fold"), below),)
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
        *(tuple(map(in_cell, _markdown_row(report))) for report in worst_first),
    ]
    lines = [f"**{counted}**", "", *(f"| {' | '.join(row)} |" for row in rows)]
    for report in worst_first:
        if report.verdict is not Verdict.VALID:
            lines += ["", f"**{report.verdict.name} {report.scenario}**", ""]
            lines += [f"* {in_cell(one_line(problem))}" for problem in report.problems]
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
