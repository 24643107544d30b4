"""Draws the picture of a page of the museum: one run, from its first record to the end of its output.

python3 docs/museum_picture.py RUN museum/HOLE/run.svg

The timeline of a report (`chaos/report/timeline.py`) has all phases, on white. This picture is smaller, has the colours of the
reader's dark or light page, and ends where the judge begins.
"""

import re
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from chaos.common.events import ProgressSampled
from chaos.common.history import Event, load, of_type
from chaos.report.html.timeline_plot import PALETTE
from chaos.report.model import FILE, Report
from chaos.report.run_clock import RunClock
from verifiers.base import Verdict

HISTORY = "history.jsonl"
WIDTH_IN, RECORDS_IN, LANE_IN, REST_IN = 7.6, 1.7, 0.3, 1.05
INK, PALE, FAULT, BROKEN = (PALETTE[role][0] for role in ("ink", "pale", "fault", "broken"))
CURVES = (("written", "in the source", "--"), ("committed", "committed in the sink", "-"))
STYLE: Any = {  # the stubs want a literal type of every key there is
    "font.size": 9,
    "font.family": "sans-serif",
    "text.parse_math": False,  # a title may hold a dollar sign
    "text.color": INK,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",  # text stays text: a tenth of the size
    "svg.hashsalt": "museum",  # the same run gives the same file
}
LATER = {"observe", "judge", "report"}
SAMPLES = 150
LONGEST = 64


def main() -> None:
    """Read a run, and write its picture."""
    run, picture = map(Path, sys.argv[1:])
    report = Report.model_validate_json((run / FILE).read_text(encoding="utf-8"))
    with mpl.rc_context(STYLE):
        drawn = StringIO()
        figure(report, list(load(run / HISTORY))).savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    picture.write_text(for_both(drawn.getvalue()), encoding="utf-8")


def figure(report: Report, events: list[Event]) -> Figure:
    """Draw records over time, and below them a lane for each fault on the same clock."""
    lanes_in = LANE_IN * (max(len(report.faults), 1) + 0.6)
    drawn = Figure(figsize=(WIDTH_IN, RECORDS_IN + lanes_in + REST_IN), layout="constrained")
    upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=[RECORDS_IN, lanes_in])
    clock = RunClock.of(report, events)
    upper.set_title(f"{report.title}\n{found(report)}", loc="left", fontsize=9.5)
    draw_records(upper, report, events, clock)
    draw_faults(lower, upper, report, clock)
    lower.set_xlim(0, max(clock.s(one.start_ms) + one.duration_s for one in report.phases if one.name not in LATER))
    lower.set_xlabel("seconds since the run began")
    drawn.legend(loc="outside lower center", frameon=False, ncols=4, fontsize=8)
    return drawn


def found(report: Report) -> str:
    """Return the anomalies with their counts: ``found: 1 duplicate, 1 lost``."""
    broken = [finding for finding in report.findings if finding.verdict is Verdict.INVALID]
    counts = {anomaly: count for finding in broken for anomaly, count in finding.counts.items() if count}
    return f"found: {', '.join(f'{count} {anomaly}' for anomaly, count in counts.items()) or 'nothing'}"


def draw_records(axes: Axes, report: Report, events: list[Event], clock: RunClock) -> None:
    step_s = clock.span_s / SAMPLES
    last = {int(clock.s(event.time_ms) / step_s): (event, sample) for event, sample in of_type(events, ProgressSampled)}
    samples = list(last.values())
    times = [clock.s(event.time_ms) for event, _ in samples]
    if samples:  # nothing is sampled while nothing moves
        times, samples = [*times, clock.span_s], [*samples, samples[-1]]
    for name, label, dashes in CURVES:
        counts = [getattr(sample, name) for _, sample in samples]
        axes.plot(times, counts, color=PALETTE[name][0], linestyle=dashes, linewidth=1.8, label=label, drawstyle="steps-post")
    moments = {one.timestamp_ms for finding in report.findings for one in finding.examples if one.timestamp_ms}
    broken = sorted(clock.s(time_ms) for time_ms in moments if clock.is_within(time_ms))
    if broken:
        marks: Any = {"marker": "v", "color": BROKEN, "linestyle": "", "clip_on": False, "label": "broken record"}
        axes.plot(broken, [0.03] * len(broken), transform=axes.get_xaxis_transform(), **marks)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def draw_faults(lanes: Axes, records: Axes, report: Report, clock: RunClock) -> None:
    for lane, fault in enumerate(report.faults):
        if fault.injected_ms is None:
            continue
        begin, end = clock.s(fault.injected_ms), clock.s(fault.healed_ms or clock.ended_ms)
        label = "fault in force" if lane == 0 else None
        lanes.barh(lane, max(end - begin, 0.05), left=begin, height=0.5, color=FAULT, label=label)
        records.axvspan(begin, end, color=FAULT, alpha=0.15, linewidth=0)
        aim = fault.moment or fault.target
        lanes.annotate(aim[:LONGEST], (end, lane), (5, 0), textcoords="offset points", va="center", fontsize=8)
    lanes.set_yticks(range(len(report.faults)), [fault.kind for fault in report.faults])
    lanes.set_ylim(max(len(report.faults), 1) - 0.4, -0.6)
    lanes.tick_params(left=False)
    lanes.spines["left"].set_visible(False)
    if not report.faults:
        lanes.text(0.01, 0.5, "without a fault", transform=lanes.transAxes, va="center", color=PALE)


def for_both(svg: str) -> str:
    """Give each colour its darker or lighter one on a dark page, and take out what says how the file was made."""
    rules = "".join(
        f'[style*="{key}: {light}"]{{{key}:{dark}!important}}'
        for light, dark in ((light.lower(), dark) for light, dark in PALETTE.values())
        for key in ("fill", "stroke")
    )
    svg = re.sub(r"<\?xml.*?(?=<svg)|<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", svg)
    svg = re.sub(r"(\d+\.\d)\d+(?= |\n)", r"\1", svg)  # a tenth of a point is enough
    return svg.replace("<defs>", f"<style>@media(prefers-color-scheme:dark){{{rules}}}</style>\n <defs>", 1)


if __name__ == "__main__":
    main()
