"""What the cases of a matrix came to, as one table: two axes down and across, a cell for each case.

A cell says verdict and recovery; ``not sent`` is a case that cannot happen, because this client never sends that request, told
apart from one whose trigger did not come (UNKNOWN).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from chaos.report.formatting import seconds
from chaos.report.model import Report
from verifiers.base import Verdict

_ACROSS = "pipeline"


def tables(reports: Sequence[Report], width: int) -> list[RenderableType]:
    """One table for each set of axes; empty when no report is a case of a matrix.

    Args:
        reports: of a session.
        width: columns of the terminal.
    """
    return [_table(axes, own, width) for axes, own in _grouped(reports).items()]


def to_json(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """One object for each case: its coordinates, ``scenario``, ``verdict`` (or ``NOT SENT``) and ``recovery_s`` (or null)."""
    return [
        {**report.matrix, "scenario": report.scenario, "verdict": _verdict(report), "recovery_s": report.recovery_s}
        for report in reports
        if report.matrix
    ]


def _grouped(reports: Sequence[Report]) -> Mapping[tuple[str, ...], list[Report]]:
    grouped: dict[tuple[str, ...], list[Report]] = {}
    for report in reports:
        if report.matrix:
            grouped.setdefault(tuple(report.matrix), []).append(report)
    return grouped


def _table(axes: tuple[str, ...], reports: Sequence[Report], width: int) -> RenderableType:
    across = _ACROSS if _ACROSS in axes else axes[-1]
    down = [axis for axis in axes if axis != across]
    columns = list(dict.fromkeys(report.matrix[across] for report in reports))
    rows: dict[tuple[str, ...], dict[str, Report]] = {}
    for report in reports:
        rows.setdefault(tuple(report.matrix[axis] for axis in down), {})[report.matrix[across]] = report
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, width=width)
    for name in (*down, *columns):
        table.add_column(name, overflow="fold")
    for place, cells in rows.items():
        table.add_row(*place, *(_cell(cells.get(column)) for column in columns))
    table.add_section()
    table.add_row(_count(reports))
    return table


def _cell(report: Report | None) -> str:
    if report is None:
        return ""
    colour = {"VALID": "green", "UNKNOWN": "yellow", "INVALID": "red"}.get(_verdict(report), "dim")
    after = f" {seconds(report.recovery_s)}" if report.recovery_s is not None else ""
    caught = " (caught)" if Verdict.INVALID in report.expect.values() and report.verdict is Verdict.VALID else ""
    return f"[{colour}]{_verdict(report).lower() if report.not_sent else _verdict(report)}[/]{caught}{after}"


def _verdict(report: Report) -> str:
    return "NOT SENT" if report.not_sent and report.verdict is Verdict.VALID else report.verdict.name


def _count(reports: Sequence[Report]) -> str:
    return ", ".join(_counted(reports))


def _counted(reports: Sequence[Report]) -> Iterator[str]:
    verdicts = [_verdict(report) for report in reports]
    for verdict in dict.fromkeys(verdicts):
        yield f"{verdicts.count(verdict)} {verdict}"
