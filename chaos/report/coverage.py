"""The cases of matrices as tables, with the verdict of each and how long it took to recover.

A matrix is a table of its own, two axes down and across; those with one line each share a table. ``not sent`` is a case that
cannot happen because this client never sends that request; UNKNOWN is one whose trigger did not come.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from chaos.report.formatting import in_cell, seconds, tally
from chaos.report.model import Report
from chaos.scenario.matrix import slug
from verifiers.base import Verdict

K = TypeVar("K", bound=Hashable)

_ACROSS = "pipeline"
_NOT_SENT = "NOT SENT"


def tables(reports: Sequence[Report], width: int) -> list[RenderableType]:
    """Draw the tables; every run of a case is in one.

    Args:
        reports: of a session; there is no table if none of them is a case of a matrix.
        width: columns of the terminal.
    """
    return [_drawn(one, width) for one in _tables(reports)]


def markdown(reports: Sequence[Report]) -> str:
    """Write the tables as Markdown; empty if no report is a case of a matrix."""
    return "\n\n".join(map(_written, _tables(reports)))


def as_json(reports: Sequence[Report]) -> list[dict[str, Any]]:
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


class _Table(Protocol):
    """What is drawn in one piece."""

    @property
    def reports(self) -> Sequence[Report]: ...

    @property
    def title(self) -> str: ...

    def lines(self) -> list[list[str]]:
        """Return lines of cells, headings first."""
        ...


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Cases with the same axes.

    Attributes:
        title: the name of the scenarios without the words of their cases; "" if nothing else is drawn.
    """

    axes: tuple[str, ...]
    reports: Sequence[Report]
    title: str = ""

    @property
    def is_line(self) -> bool:
        """Whether its cases differ in one axis at most."""
        return sum(len({report.matrix[axis] for report in self.reports}) > 1 for axis in self.axes) <= 1

    def lines(self) -> list[list[str]]:
        """``pipeline`` goes across, or else the last axis."""
        across = _ACROSS if _ACROSS in self.axes else self.axes[-1]
        down = [axis for axis in self.axes if axis != across]
        columns = list(dict.fromkeys(report.matrix[across] for report in self.reports))
        rows = _grouped(self.reports, lambda report: tuple(report.matrix[axis] for axis in down))
        cells = [
            [*place, *(_cell([one for one in found if one.matrix[across] == column]) for column in columns)]
            for place, found in rows.items()
        ]
        return [[*down, *columns], *cells]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Matrices of one line each, such as pairs of a bad and a good version: a line for each case."""

    reports: Sequence[Report]
    title: str = ""

    def lines(self) -> list[list[str]]:
        """The name of a scenario is in the first of its lines."""
        drawn = [["scenario", "case", "verdict"]]
        for name, own in _grouped(self.reports, _without_words).items():
            cases = _grouped(own, lambda report: tuple(report.matrix.items()))
            names = [name, *[""] * (len(cases) - 1)]
            drawn += [
                [first, ", ".join(dict(case).values()), _cell(found)]
                for first, (case, found) in zip(names, cases.items(), strict=True)
            ]
        return drawn


def _tables(reports: Sequence[Report]) -> list[_Table]:
    matrices = list(_matrices(reports))
    if not matrices[1:]:
        return [*matrices]  # alone: no name
    lines = {id(report) for matrix in matrices if matrix.is_line for report in matrix.reports}
    of_lines = [report for report in reports if id(report) in lines]  # in the order of the session
    grids = [_Matrix(matrix.axes, matrix.reports, _common_name(matrix.reports)) for matrix in matrices if not matrix.is_line]
    return [*([_Lines(of_lines)] if of_lines else []), *grids]


def _matrices(reports: Sequence[Report]) -> Iterator[_Matrix]:
    """Group the cases by their axes, and by the names of their scenarios if two of these have a case in common."""
    for axes, own in _grouped((report for report in reports if report.matrix), lambda report: tuple(report.matrix)).items():
        cases = _grouped(own, lambda report: tuple(report.matrix.values()))
        if all(len({report.scenario for report in same}) == 1 for same in cases.values()):
            yield _Matrix(axes, own)
        else:
            yield from (_Matrix(axes, of_one) for of_one in _grouped(own, _without_words).values())


def _common_name(reports: Sequence[Report]) -> str:
    return ", ".join(dict.fromkeys(map(_without_words, reports)))


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


def _drawn(one: _Table, width: int) -> RenderableType:
    header, *rows = one.lines()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, width=width, title=one.title or None, title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(_coloured, row))
    table.add_section()
    table.add_row(_verdicts(one.reports))
    return table


def _written(one: _Table) -> str:
    header, *rows = one.lines()
    drawn = [f"| {' | '.join(map(in_cell, line))} |" for line in (header, ["---"] * len(header), *rows)]
    title = [f"**{in_cell(one.title)}**", ""] if one.title else []
    return "\n".join([*title, *drawn, "", _verdicts(one.reports)])


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
