"""The picture of one run: records over time, and below them, on the same clock, every fault from its trigger to its heal.

Static on purpose: report viewers run no scripts in attachments. Drawn for a width of 900 pixels, in the colours of Okabe and
Ito (2008), which differ for people with any colour vision. Importing matplotlib costs half a second: import this late.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator

from chaos.common.errors import one_line
from chaos.common.events import ProgressSampled
from chaos.common.history import Event, of_type
from chaos.report.formatting import findings_line, number, seconds
from chaos.report.model import FaultRecord, Report
from chaos.report.run_clock import RunClock
from verifiers.base import Verdict

_BLUE, _SKY, _VERMILION, _ORANGE, _GREEN, _PURPLE = "#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7"
_COLOURS = {Verdict.VALID: _GREEN, Verdict.UNKNOWN: _ORANGE, Verdict.INVALID: _VERMILION}
_Style = dict[str, Any]
_INK, _PALE, _BAND = "#333333", "#8a8a8a", "#f4f4f4"
_STYLE: Any = {  # the stubs want a literal type of every key there is
    "font.size": 9,
    "text.parse_math": False,  # a title may hold a dollar sign
    "axes.edgecolor": _PALE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.hashsalt": "timeline",  # the same run gives the same file
}
_BROKEN: _Style = {"marker": "v", "color": _PURPLE, "markersize": 7, "linestyle": "", "label": "broken record"}
_EFFECTIVE: _Style = {"facecolor": _VERMILION, "edgecolor": _VERMILION, "label": "fault in force"}
_MISSED: _Style = {"facecolor": "white", "edgecolor": _VERMILION, "hatch": "////", "label": "had no effect"}
_TRIGGER: _Style = {"marker": "|", "color": _INK, "markersize": 10, "markeredgewidth": 1.6, "linestyle": "", "label": "trigger"}
_PROOF: _Style = {
    "marker": "o",
    "color": _GREEN,
    "markeredgecolor": "white",
    "markersize": 8,
    "linestyle": "",
    "label": "proof",
}
_WIDTH_IN = 9.0
_RECORDS_IN = 2.4
_LANE_IN = 0.34
_MARGIN_PT, _LINE_PT = 6, 13
_LINES = 2  # of the title, and of the verdict
_LONGEST, _LONGEST_WORD = 400, 48
_PNG_DPI = 150
_LETTER = 0.0085  # of the axes, at this width and the size of the targets


def draw(report: Report, events: Sequence[Event], folder: Path) -> tuple[Path, Path]:
    """Write ``timeline.svg`` and ``timeline.png`` into the folder and return their paths, in this order."""
    svg, png = folder / "timeline.svg", folder / "timeline.png"
    with mpl.rc_context(_STYLE):
        figure = _figure(report, events)
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=_PNG_DPI)
    return svg, png


def _figure(report: Report, events: Sequence[Event]) -> Figure:
    lanes_in = _LANE_IN * (max(len(report.faults), 1) + 1)
    figure = Figure(figsize=(_WIDTH_IN, _RECORDS_IN + lanes_in + 1.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[_RECORDS_IN, lanes_in])
    clock = RunClock.of(report, events)
    _title(upper, report)
    _phases(upper, lower, report, clock)
    _records(upper, report, events, clock)
    _faults(lower, report, clock)
    _windows(upper, report, clock)
    _anomalies(upper, report, clock)
    _legend(figure, upper)
    lower.set_xlim(0, clock.span_s)
    lower.set_xlabel("seconds since the run began")
    return figure


def _title(axes: Axes, report: Report) -> None:
    """The title, and below it the verdict; both begin at the left edge of the picture, and end before its right one."""
    said = f"{report.verdict.name}: {findings_line(report)}"
    edge: _Style = {"xy": (0, 1), "xycoords": ("figure fraction", "axes fraction"), "textcoords": "offset points"}
    bold: _Style = {"fontweight": "bold", "va": "bottom"}
    verdict = axes.annotate("", xytext=(_MARGIN_PT, 29), **edge, **bold, color=_COLOURS[report.verdict])
    _fill(verdict, one_line(said, _LONGEST))
    above_pt = 29 + _LINE_PT * (1 + verdict.get_text().count("\n"))
    title = axes.annotate("", xytext=(_MARGIN_PT, above_pt), **edge, **bold, fontsize=11)
    _fill(title, one_line(report.title, _LONGEST))


def _fill(text: Text, words: str) -> None:
    """Give a text these words, in two lines if one is too short for them; longer texts are cut off between two words."""
    figure = text.get_figure(root=True)
    assert figure is not None  # noqa: S101 - it was drawn into one
    room = figure.bbox.width - 2 * _MARGIN_PT / 72 * figure.dpi
    lines: list[str] = []
    left = [one_line(word, _LONGEST_WORD) for word in words.split(" ")]
    while left and len(lines) < _LINES:
        fits = 1
        for many in range(len(left), 0, -1):
            is_cut = many < len(left) and len(lines) == _LINES - 1
            line = " ".join(left[:many]) + ("…" if is_cut else "")
            text.set_text(line)
            if text.get_window_extent().width <= room:
                fits = many
                break
        lines.append(line)
        left = left[fits:]
    text.set_text("\n".join(lines))


def _phases(upper: Axes, lower: Axes, report: Report, clock: RunClock) -> None:
    """Shade every second band; a band too narrow for its name goes without."""
    for place, phase in enumerate(report.phases):
        begin, end = clock.s(phase.start_ms), clock.s(phase.start_ms) + phase.duration_s
        for axes in (upper, lower):
            if place % 2 == 0:
                axes.axvspan(begin, end, color=_BAND, zorder=0, linewidth=0)
        if (end - begin) / clock.span_s > 0.011 * len(phase.name):
            label = f"{phase.name}\n{seconds(phase.duration_s)}"
            upper.text((begin + end) / 2, 1.01, label, transform=upper.get_xaxis_transform(), ha="center", fontsize=7.5)


def _records(axes: Axes, report: Report, events: Sequence[Event], clock: RunClock) -> None:
    samples = of_type(events, ProgressSampled)
    times = [clock.s(event.time_ms) for event, _ in samples]
    written, committed = [sample.written for _, sample in samples], [sample.committed for _, sample in samples]
    if samples:  # nothing is sampled while nothing moves
        times, written, committed = [*times, clock.span_s], [*written, written[-1]], [*committed, committed[-1]]
    for name, counts, colour, dashes in (("written", written, _SKY, "--"), ("committed", committed, _BLUE, "-")):
        axes.plot(times, counts, color=colour, linestyle=dashes, linewidth=1.8, label=name, drawstyle="steps-post")
    axes.axhline(report.records, color=_PALE, linewidth=0.7, linestyle=":")
    axes.set_ylim(0, 1.07 * max(report.records, 1, *committed))
    axes.set_ylabel("records")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _place: number(round(count))))
    axes.tick_params(labelbottom=False, bottom=False)


def _faults(axes: Axes, report: Report, clock: RunClock) -> None:
    for lane, fault in enumerate(report.faults):
        _fault(axes, lane, fault, clock)
    axes.set_yticks(range(len(report.faults)), [fault.name for fault in report.faults])
    axes.set_ylim(max(len(report.faults), 1) - 0.4, -0.7)
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)
    if not report.faults:
        axes.text(0.5, 0.5, "no fault was declared", transform=axes.transAxes, ha="center", color=_PALE)


def _fault(axes: Axes, lane: int, fault: FaultRecord, clock: RunClock) -> None:
    if fault.injected_ms is None:
        words = one_line(fault.problem or "it was not injected", 90)
        axes.text(0.01, lane, words, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=_PALE)
    else:
        begin = clock.s(fault.injected_ms)
        end = clock.span_s if fault.healed_ms is None else clock.s(fault.healed_ms)
        axes.barh(lane, end - begin, left=begin, height=0.5, **(_EFFECTIVE if fault.effective else _MISSED))
        _target(axes, lane, fault.target, (begin / clock.span_s, end / clock.span_s))
    if fault.triggered_ms is not None:
        axes.plot(clock.s(fault.triggered_ms), lane, **_TRIGGER)
    if fault.proved_ms is not None and fault.effective:
        axes.plot(clock.s(fault.proved_ms), lane, **_PROOF)


def _windows(axes: Axes, report: Report, clock: RunClock) -> None:
    """Draw the times of faults in force behind the records."""
    for fault in report.faults:
        if fault.injected_ms is not None:
            end = clock.span_s if fault.healed_ms is None else clock.s(fault.healed_ms)
            axes.axvspan(clock.s(fault.injected_ms), end, color=_VERMILION, alpha=0.1, linewidth=0, zorder=0.5)


def _target(axes: Axes, lane: int, target: str, bar: tuple[float, float]) -> None:
    """Write the target beside the bar, on the side with more room, and cut it to that room."""
    begin, end = bar
    right = 1 - end >= begin
    target = one_line(target, int(max(begin, 1 - end) / _LETTER))
    place: _Style = {"xy": (end if right else begin, lane), "xycoords": axes.get_yaxis_transform()}
    offset: _Style = {"xytext": (6 if right else -12, 0), "textcoords": "offset points", "ha": "left" if right else "right"}
    axes.annotate(target, **place, **offset, va="center", fontsize=8)


def _anomalies(axes: Axes, report: Report, clock: RunClock) -> None:
    """Mark when the examples of broken records were written; times outside the run come from the program, and are left out."""
    times = {example.timestamp_ms for finding in report.findings for example in finding.examples}
    moments = sorted(clock.s(time_ms) for time_ms in times if time_ms is not None and clock.is_within(time_ms))
    if moments:
        axes.plot(moments, [0.03] * len(moments), **_BROKEN, transform=axes.get_xaxis_transform(), clip_on=False)


def _legend(figure: Figure, records: Axes) -> None:
    curves = [line for line in records.get_lines() if line.get_label() in {"written", "committed"}]
    broken, trigger, proof = (Line2D([], [], **style) for style in (_BROKEN, _TRIGGER, _PROOF))
    handles = [*curves, broken, trigger, Patch(**_EFFECTIVE), Patch(**_MISSED), proof]
    figure.legend(handles=handles, loc="outside lower center", frameon=False, ncols=len(handles), fontsize=8, handletextpad=0.5)
