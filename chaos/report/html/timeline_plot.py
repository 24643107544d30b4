"""The interactive timeline of a run: zoom, pan, and the facts of the mark under the pointer. Drawn by Bokeh.

Like `chaos.report.timeline` it shows records over time, and below them, on the same clock, a lane for each fault. Colours are
those of Okabe and Ito (2008), each with another one for a dark page. If a model has a dictionary as its tag, the script of the
page (`timeline.js.j2`) gives its properties the colours of their roles, and shortens its text to the available width.
Importing Bokeh takes a second: import this late.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.embed import json_item
from bokeh.layouts import gridplot
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    FixedTicker,
    GridPlot,
    HoverTool,
    PanTool,
    Range1d,
    ResetTool,
    SaveTool,
    WheelZoomTool,
    ZoomInTool,
    ZoomOutTool,
)
from bokeh.models.annotations import BoxAnnotation, Label, Span
from bokeh.models.renderers import DataRenderer
from bokeh.plotting import figure
from bokeh.resources import Resources

from chaos.common.errors import one_line
from chaos.common.events import FaultTriggered, PipelineSampled, ProcessReport, ProgressSampled, ReadersBlocked
from chaos.common.history import Event, of_type
from chaos.report.failure_text import describe_in_lines
from chaos.report.formatting import aimed, facts, moment, number, seconds
from chaos.report.model import FaultRecord, Report
from chaos.report.run_clock import RunClock
from verifiers.base import Example, Finding

PALETTE: Mapping[str, tuple[str, str]] = {
    "ink": ("#24292f", "#e6e8eb"),
    "pale": ("#6b7280", "#9aa3ad"),
    "grid": ("#e2e5e9", "#333a43"),
    "band": ("#f1f3f5", "#1f252c"),
    "paper": ("#ffffff", "#15191e"),
    "written": ("#56B4E9", "#8fd0f5"),
    "committed": ("#0072B2", "#3d9be0"),
    "fault": ("#D55E00", "#f07f2e"),
    "proof": ("#009E73", "#2fd0a3"),
    "broken": ("#b0508c", "#e79bc8"),
}
"""Role -> colour on a light page, and on a dark one."""

_RECORDS_PX, _LANE_PX, _AXIS_PX = 250, 46, 52
_LEFT_PX = 72
_LANES = 12
_SAMPLES = 1500
_HEADROOM = 1.2
_APART = 0.3  # of the way from one tick to the next, so that their labels do not touch
_MIDDLE = 0.66  # of a lane, below its name
_TIP_PX = 360
_TOOLTIP = (
    f'<div style="max-width:{_TIP_PX}px;white-space:pre-line;overflow-wrap:anywhere;color:#24292f;font:13px system-ui">'
    "<b>@head</b><br>@said</div>"
)
_PROCESS_EVENTS = {"ended": "x", "restarted": "circle"}


@dataclass(frozen=True, slots=True)
class _Mark:
    """A marker in a lane, and its facts."""

    lane: int
    at_s: float
    head: str
    said: str


@dataclass(frozen=True, slots=True)
class _Bar:
    """A span of time in a lane, and its facts; one that is not filled is hatched."""

    lane: int
    begin_s: float
    end_s: float
    head: str
    said: str
    is_filled: bool = True


class _Lanes:
    """The lanes below the records, from top to bottom, with their bars and marks."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bars: dict[str, list[_Bar]] = defaultdict(list)
        self.marks: dict[str, list[_Mark]] = defaultdict(list)

    def add(self, name: str) -> int:
        """Add a lane, and return its number."""
        self.names.append(name)
        return len(self.names) - 1


def script() -> str:
    """Return BokehJS without the parts for tables, widgets, formulas and WebGL: 1.3 MB."""
    return "\n".join(Resources(mode="inline", components=["bokeh"], minified=True).js_raw)


def drawn(report: Report, events: Sequence[Event]) -> Mapping[str, Any]:
    """Return the picture as JSON for ``Bokeh.embed.embed_item``; equal runs give equal JSON."""
    item: dict[str, Any] = dict(json_item(_plot(report, events)))
    names: dict[str, str] = {}
    doc = _renamed(item["doc"], names)
    return {"root_id": names[item["root_id"]], "doc": doc, "version": item["version"], "target_id": None}


def outside(report: Report, events: Sequence[Event]) -> int:
    """Count the first broken records with a time outside the run: these are not drawn."""
    clock = RunClock.of(report, events)
    times = [example.timestamp_ms for _, example in _broken(report)]
    return sum(time_ms is not None and not clock.is_within(time_ms) for time_ms in times)


def _plot(report: Report, events: Sequence[Event]) -> GridPlot:
    clock = RunClock.of(report, events)
    x_range = Range1d(start=0, end=clock.span_s, bounds=(0, clock.span_s), min_interval=min(0.01, clock.span_s))
    records = _records(report, events, clock, x_range)
    lanes = _lanes(_laid_out(report, events, clock), x_range)
    for each in (records, lanes):
        _phases(each, report, clock)
    pointer = Span(dimension="height", line_dash="dotted", line_color=PALETTE["pale"][0], line_width=1)
    for each in (records, lanes):
        each.add_tools(CrosshairTool(overlay=pointer))
    return gridplot([[records], [lanes]], sizing_mode="stretch_width", toolbar_options={"logo": None})


def _figure(height: int, x_range: Range1d, y_range: Range1d) -> figure:
    """Make an empty picture whose tools move and zoom only in time; the wheel scrolls the page until its zoom is chosen."""
    part = BoxZoomTool(dimensions="width")
    tools = [PanTool(dimensions="width"), part, WheelZoomTool(dimensions="width")]
    steps = [ZoomInTool(dimensions="width"), ZoomOutTool(dimensions="width"), ResetTool(), SaveTool(filename="timeline")]
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=y_range,
        tools=[*tools, *steps],
        active_drag=part,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_left=_LEFT_PX,
        min_border_right=12,
    )
    for axis in plot.axis:
        axis.minor_tick_line_color = None
        axis.major_label_text_font_size = axis.axis_label_text_font_size = "12px"
        axis.axis_label_text_font_style = "normal"
        lines = ("axis_line_color", "major_tick_line_color")
        _paint(axis, {"axis_label_text_color": "ink", "major_label_text_color": "ink", **dict.fromkeys(lines, "pale")})
    for grid in plot.grid:
        _paint(grid, {"grid_line_color": "grid"})
    return plot


def _paint(model: Any, roles: Mapping[str, str], **more: Any) -> None:
    """Give properties the colours of their roles on a light page; the tag gives the roles to the script of the page."""
    for name, role in roles.items():
        setattr(model, name, PALETTE[role][0])
    model.tags = [{"roles": dict(roles), **more}]


def _records(report: Report, events: Sequence[Event], clock: RunClock, x_range: Range1d) -> figure:
    """Draw written and committed records over time, and the faults in force behind them."""
    samples = _thinned(of_type(events, ProgressSampled))
    most = max([report.records, 1, *(sample.committed for _, sample in samples)])
    plot = _figure(_RECORDS_PX, x_range, Range1d(start=0, end=_HEADROOM * most))
    plot.xaxis.visible = plot.xgrid.visible = False
    plot.yaxis.axis_label = "records"
    ticks = _ticks(most)
    plot.yaxis.ticker = plot.ygrid.ticker = FixedTicker(ticks=ticks)  # zooming does not change this axis
    plot.yaxis.major_label_overrides = {count: number(count) for count in ticks}
    plot.yaxis.bounds = (0, most)
    for fault in report.faults:
        if fault.injected_ms is not None:
            plot.add_layout(_window(clock.s(fault.injected_ms), _end_s(fault, clock)))
    source = ColumnDataSource(_told_samples(samples, events, report, clock))
    for name, dash in (("committed", "solid"), ("written", "dashed")):  # if both are one line, either is seen
        line = plot.step("at_s", name, source=source, mode="after", line_width=2, line_dash=dash)
        _paint(line.glyph, {"line_color": name})
    if samples:
        hit = plot.line("at_s", "committed", source=source, line_alpha=0)
        over = HoverTool(renderers=[hit], mode="vline", line_policy="prev", tooltips=_TOOLTIP, point_policy="follow_mouse")
        plot.add_tools(over)
    total = Span(location=report.records, dimension="width", line_width=1, line_dash="dotted")
    _paint(total, {"line_color": "pale"})
    plot.add_layout(total)
    _phase_names(plot, report, clock, _HEADROOM * most)
    return plot


def _ticks(most: int) -> list[int]:
    """Return round numbers of records, and the total unless it is close to one; seven at most."""
    step = next(digit * 10**power for power in range(20) for digit in (1, 2, 5) if most <= 5 * digit * 10**power)
    ticks = list(range(0, most + 1, step))
    return [*ticks, most] if most - ticks[-1] > _APART * step else ticks


def _window(begin_s: float, end_s: float) -> BoxAnnotation:
    box = BoxAnnotation(left=begin_s, right=end_s, fill_alpha=0.12, line_color=None, level="underlay")
    _paint(box, {"fill_color": "fault"})
    return box


def _thinned(samples: Sequence[tuple[Event, ProgressSampled]]) -> Sequence[tuple[Event, ProgressSampled]]:
    """Thin samples out to as many as a screen can show, with the first and the last."""
    if len(samples) <= _SAMPLES:
        return samples
    step = len(samples) / _SAMPLES
    return [*(samples[int(place * step)] for place in range(_SAMPLES)), samples[-1]]


def _told_samples(
    samples: Sequence[tuple[Event, ProgressSampled]], events: Sequence[Event], report: Report, clock: RunClock
) -> Mapping[str, list[Any]]:
    """Return the columns at_s, written, committed, head and said; the last sample stays until the end of the run."""
    lags = of_type(events, PipelineSampled)
    rows: list[tuple[float, int, int, str, str]] = []
    behind, place = "", 0
    for event, sample in samples:
        while place < len(lags) and lags[place][0].index <= event.index:
            behind, place = f"\n{number(lags[place][1].lag)} records to read", place + 1
        phase = next((one.name for one in reversed(report.phases) if one.start_ms <= event.time_ms), "")
        said = f"{number(sample.written)} written\n{number(sample.committed)} committed{behind}\n{phase}"
        rows.append((clock.s(event.time_ms), sample.written, sample.committed, seconds(clock.s(event.time_ms)), said))
    if rows:
        rows.append((clock.span_s, *rows[-1][1:]))
    return _columns(rows, ("at_s", "written", "committed", "head", "said"))


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> Mapping[str, list[Any]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _laid_out(report: Report, events: Sequence[Event], clock: RunClock) -> _Lanes:
    """Lay out broken records, faults, restarts and blocked readers; many faults share a lane by kind."""
    lanes = _Lanes()
    broken = [(finding, one) for finding, one in _broken(report) if one.timestamp_ms and clock.is_within(one.timestamp_ms)]
    if broken:
        lane = lanes.add("the first broken records")
        lanes.marks["broken"] += [_of_broken(lane, report, one, clock) for _, one in broken]
    share = len(report.faults) > _LANES
    of_kind: dict[str, int] = {}
    struck = {value.fault: value for _, value in of_type(events, FaultTriggered)}
    for fault in report.faults:
        if share and fault.kind not in of_kind:
            of_kind[fault.kind] = lanes.add(f"{fault.kind} ({sum(one.kind == fault.kind for one in report.faults)})")
        _of_fault(lanes, of_kind[fault.kind] if share else lanes.add(_named(fault)), fault, struck.get(fault.name), clock)
    _of_program(lanes, events, clock)
    _of_readers(lanes, events, clock)
    if not report.faults:
        lanes.add("no fault was declared")
    return lanes


def _broken(report: Report) -> Iterator[tuple[Finding, Example]]:
    for finding in report.findings:
        for example in finding.examples:
            yield finding, example


def _of_broken(lane: int, report: Report, example: Example, clock: RunClock) -> _Mark:
    at_s = clock.s(example.timestamp_ms or 0)
    return _Mark(lane, at_s, f"{example.anomaly}, {seconds(at_s)}", "\n".join(describe_in_lines(report, example)))


def _named(fault: FaultRecord) -> str:
    if fault.injected_ms is None:
        return f"{fault.name}: {one_line(fault.problem or 'it was not injected')}"
    return f"{aimed(fault)}{f', {fault.moment}' if fault.moment else ''}"


def _of_fault(lanes: _Lanes, lane: int, fault: FaultRecord, struck: FaultTriggered | None, clock: RunClock) -> None:
    if fault.injected_ms is not None:
        lanes.bars["fault"].append(_bar(lane, fault, clock))
    if fault.triggered_ms is not None:
        at_s = clock.s(fault.triggered_ms)
        seen = facts(struck.details, 400) if struck else ""
        kind = "request" if fault.moment else "trigger"
        said = "\n".join(filter(None, (fault.moment, seen, moment(fault.triggered_ms))))
        lanes.marks[kind].append(_Mark(lane, at_s, f"{fault.name}: its trigger came, {seconds(at_s)}", said))
    if fault.proved_ms is not None and fault.effective:
        at_s = clock.s(fault.proved_ms)
        said = f"proved by {facts(fault.proof, 400)}\n{moment(fault.proved_ms)}"
        lanes.marks["proof"].append(_Mark(lane, at_s, f"{fault.name}: proof, {seconds(at_s)}", said))


def _bar(lane: int, fault: FaultRecord, clock: RunClock) -> _Bar:
    begin_s, end_s = clock.s(fault.injected_ms or 0), _end_s(fault, clock)
    healed = "never healed" if fault.healed_ms is None else f"healed after {seconds(end_s - begin_s)}"
    proof = f"proved by {facts(fault.proof)}" if fault.effective else f"had no effect: {facts(fault.proof) or 'no proof'}"
    lag = "" if fault.lag is None else f"with {number(fault.lag)} records to read"
    came = f"afterwards: {facts(fault.aftermath)}" if fault.aftermath else ""
    injected = f"injected {seconds(begin_s)} after the run began, {healed}"
    said = "\n".join(filter(None, (fault.kind, injected, fault.moment, lag, proof, came, fault.problem)))
    return _Bar(lane, begin_s, end_s, aimed(fault), said, fault.effective)


def _end_s(fault: FaultRecord, clock: RunClock) -> float:
    return clock.span_s if fault.healed_ms is None else clock.s(fault.healed_ms)


def _of_program(lanes: _Lanes, events: Sequence[Event], clock: RunClock) -> None:
    """Mark when the program under test ended, and was started again."""
    said = [(event, one) for event, one in of_type(events, ProcessReport) if not one.is_of_loader and "copy" in one.content]
    shown = [(event, one) for event, one in said if one.event in _PROCESS_EVENTS]
    if any(one.event == "restarted" for _, one in shown):
        lane = lanes.add("the program under test ended (x), was started again (o)")
        for event, one in shown:
            at_s = clock.s(event.time_ms)
            head = f"{one.who} {one.event}, {seconds(at_s)}"
            lanes.marks[one.event].append(_Mark(lane, at_s, head, facts(one.content, 400)))


def _of_readers(lanes: _Lanes, events: Sequence[Event], clock: RunClock) -> None:
    """Mark when readers of the output had to wait for the end of a transaction."""
    blocked = of_type(events, ReadersBlocked)
    if blocked:
        lane = lanes.add("readers of the output waited")
        for event, one in blocked:
            end_s = clock.s(event.time_ms)
            head = f"partition {one.partition}: its last stable offset stood still for {seconds(one.seconds)}"
            bar = _Bar(lane, max(0.0, end_s - one.seconds), end_s, head, f"at offset {number(one.end)}")
            lanes.bars["committed"].append(bar)


def _lanes(lanes: _Lanes, x_range: Range1d) -> figure:
    many = len(lanes.names)
    plot = _figure(_LANE_PX * many + _AXIS_PX, x_range, Range1d(start=many, end=0))
    plot.yaxis.visible = plot.ygrid.visible = False
    plot.xaxis.axis_label = "seconds since the run began"
    hit = [*_drawn_bars(plot, lanes.bars), *_drawn_marks(plot, lanes.marks)]
    plot.add_tools(HoverTool(renderers=hit, tooltips=_TOOLTIP, point_policy="follow_mouse"))
    for lane, name in enumerate(lanes.names):
        plot.add_layout(_lane_name(lane, name))
    return plot


def _lane_name(lane: int, name: str) -> Label:
    label = Label(x=4, y=lane, x_units="screen", text=name, text_font_size="12px", text_baseline="top", y_offset=-3)
    _paint(label, {"text_color": "ink"}, full=name)
    return label


def _drawn_bars(plot: figure, bars: Mapping[str, Sequence[_Bar]]) -> Iterator[DataRenderer]:
    """Draw the bars of each role in its colour."""
    hatch: dict[str, Any] = {"hatch_pattern": "hatch", "hatch_scale": 9, "hatch_weight": 1.5}
    style: dict[str, Any] = {"height": 0.38, "fill_alpha": "alpha", "line_width": 2, **hatch}
    for role, own in bars.items():
        rows = [
            (bar.lane + _MIDDLE, bar.begin_s, bar.end_s, bar.head, bar.said, *((0.9, " ") if bar.is_filled else (0.0, "/")))
            for bar in own
        ]
        source = ColumnDataSource(_columns(rows, ("lane", "begin_s", "end_s", "head", "said", "alpha", "hatch")))
        bars_ = plot.hbar("lane", left="begin_s", right="end_s", source=source, **style)
        _paint(bars_.glyph, dict.fromkeys(("fill_color", "line_color", "hatch_color"), role))
        yield bars_


_MARKERS: Mapping[str, tuple[str, str, float, float]] = {
    "broken": ("inverted_triangle", "broken", 13, 0),
    "trigger": ("dash", "ink", 20, 1.5707963),
    "request": ("diamond", "ink", 24, 0),
    "proof": ("circle", "proof", 11, 0),
    "ended": ("x", "fault", 12, 0),
    "restarted": ("circle", "paper", 11, 0),
}
"""Kind of mark -> marker, role of its colour, size in pixels, and angle."""


def _drawn_marks(plot: figure, marks: Mapping[str, Iterable[_Mark]]) -> Iterator[DataRenderer]:
    for kind, (marker, role, size, angle) in _MARKERS.items():
        rows = [(mark.at_s, mark.lane + _MIDDLE, mark.head, mark.said) for mark in marks.get(kind, ())]
        if rows:
            source = ColumnDataSource(_columns(rows, ("at_s", "lane", "head", "said")))
            lines = 3 if marker in {"dash", "x"} else 1.5
            drawn_ = plot.scatter("at_s", "lane", source=source, marker=marker, size=size, angle=angle, line_width=lines)
            outline = role if marker in {"dash", "x"} else "ink" if kind == "restarted" else "paper"
            _paint(drawn_.glyph, {"fill_color": role, "line_color": outline})
            yield drawn_


def _phases(plot: figure, report: Report, clock: RunClock) -> None:
    """Shade every second band."""
    for phase in report.phases[::2]:
        begin_s = clock.s(phase.start_ms)
        band = BoxAnnotation(left=begin_s, right=begin_s + phase.duration_s, line_color=None, fill_alpha=1, level="image")
        _paint(band, {"fill_color": "band"})
        plot.add_layout(band)


def _phase_names(plot: figure, report: Report, clock: RunClock, top: float) -> None:
    """Write the names of phases at the top; the script of the page shows those that are wide enough."""
    begins = [(clock.s(phase.start_ms), phase) for phase in report.phases]
    rows = [
        (begin_s, begin_s, begin_s + phase.duration_s, top, "", f"{phase.name}\n{seconds(phase.duration_s)}")
        for begin_s, phase in begins
    ]
    source = ColumnDataSource(_columns(rows, ("at_s", "begin_s", "end_s", "y", "text", "full")))
    source.tags = [{"phases": True}]
    style: dict[str, Any] = {"text_align": "center", "text_baseline": "top", "text_font_size": "11px", "y_offset": 2}
    shown = plot.text("at_s", "y", text="text", source=source, **style)
    _paint(shown.glyph, {"text_color": "pale"})


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Number the models of a document from 1: Bokeh counts all models that the process has made."""
    if isinstance(value, dict):
        own = {key: _renamed(inner, names) for key, inner in value.items() if key != "id"}
        return {"id": names.setdefault(value["id"], f"m{len(names) + 1}"), **own} if "id" in value else own
    return [_renamed(inner, names) for inner in value] if isinstance(value, list) else value
