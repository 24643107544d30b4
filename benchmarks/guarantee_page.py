"""The page and the picture of what `guarantee.py` has measured: pure functions, but for the two files that they write."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from guarantee_cells import (
    APPLICATION,
    AS_IT_COMES,
    AT_LEAST,
    AT_MOST,
    EXACTLY,
    IN_ORDER,
    LARGE,
    LATENCY,
    NOT_IDEMPOTENT,
    SPARK,
    WRITER,
    Cell,
    Claim,
    Latency,
    Measured,
    Range,
    across,
    against,
    claims,
    ratios,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_NAMES = {AT_MOST: "at most once", AT_LEAST: "at least once", EXACTLY: "exactly once", IN_ORDER: "at least once, in order"}
_NAMES |= {NOT_IDEMPOTENT: "at least once, not idempotent"}
_COLOURS = {AT_MOST: "#E69F00", AT_LEAST: "#56B4E9", EXACTLY: "#0072B2", IN_ORDER: "#009E73"}  # Okabe and Ito (2008)
_INK, _PALE = "#333333", "#8a8a8a"
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _PALE,
    "text.color": _INK,
}
_DPI = 150
_TEXT = """\
# What exactly once costs

This page shows how much throughput and latency Kafka transactions cost on one machine, and tests what is often said about them.

```
.venv/bin/python {command}
```

{glance}

*Kept* is the throughput of exactly once, divided by that of at least once. Each figure is the median of {rounds} rounds, with
the least and the most in brackets.{scattered}

![Throughput and latency of the three guarantees](cost.png)

[All figures of throughput](findings/cost-tables.md): three guarantees, several intervals, record sizes, partitions and workers.

## How it was measured

On {day}: {machine}. {busy}

A round measures every cell once, one after the other; every second round does so backwards. A ratio compares two cells of one
round, so a machine that becomes slower affects both. *Of at least once* means: compared with the same cell with that guarantee.

## Latency

The [plain application](findings/cost-tables.md#the-plain-application) gets {paced} records a second. Latency runs from the
moment a record was due at the source until a read_committed reader of the sink has it. It includes half of the interval, spent
waiting for the next batch.

*Lag* is what read_committed adds: the time since a read_uncommitted reader had the record.

{latency}

The application writes just before it commits, so its lag is only as long as the commit. A program that writes each record as it
comes, and commits at an interval, makes its readers wait for the rest of the interval.

Such a producer, with {paced} records a second:

{as_it_comes}

## What is said about it

A claim is judged at every pair of cells to which it applies. A pair is *confirmed* if the claim held in every round, *refuted*
if it held in none, and otherwise *not decided*.

The whole claim has the verdict that all its pairs have. It *depends* if one pair is confirmed and another is refuted.

{claims}

Confluent, 2017, [Exactly-Once Semantics Are Possible: Here's How Kafka Does It][possible] [1]:

> For 1 KB messages and transactions lasting 100 ms, the producer throughput declines only by 3%, compared to the throughput of
> a producer configured for at least once, in-order delivery (acks=all, max.in.flight.requests.per.connection=1), and by 20%
> compared to the throughput of a producer configured for [at] most once delivery with no ordering guarantees (acks=1,
> max.in.flight.requests.per.connection=5), which is the current default.

Confluent, 2017, [Transactions in Apache Kafka][transactions] [2]:

> In practice, for a producer producing 1KB records at maximum throughput, committing messages every 100ms results in only a 3%
> degradation in throughput. Smaller messages or shorter transaction commit intervals would result in more severe degradation.

Apache Kafka, 2017, [KIP-185][kip185] [3]. *Not idempotent* here differs from *at least once* in `enable.idempotence` alone:

> For the same value of max.in.flight.requests, and acks, we have observed that enabling idempotence alone does not
> significantly impact performance.

The posts are quoted from copies. They are about Kafka 0.11 and do not name their machines.

The default of producers has changed since: `acks=all`, idempotent, five requests in flight. That is *at least once* here, and
the fairer comparison.

[kip185]: https://cwiki.apache.org/confluence/display/KAFKA/KIP-185%3A+Make+exactly+once+in+order+delivery+the+default+producer+setting
[possible]: https://www.confluent.io/blog/exactly-once-semantics-are-possible-heres-how-apache-kafka-does-it/
[transactions]: https://www.confluent.io/blog/transactions-apache-kafka/

## What the figures do not show

**Cores and network.** Brokers, clients and Spark share the {cores} cores of one machine, so a ratio is one of processor time
above all. With a network and with cores to spare, waiting costs more and work costs less.

**Brokers** reach each other through the proxies of this project. As by Kafka's defaults, nothing is flushed to disk before it
is acknowledged.

**The plain application** is in Python, whose workers take turns on one core. Its client, librdkafka, has no transactions of
version 2 (KIP-890).

**JVMs** compile fully, unlike those of chaos runs. Other machines give other figures, and so may a second run on this one.
"""
_TABLES = """\
# Tables: what exactly once costs

These are the figures of throughput behind [What exactly once costs](../cost.md), which says how they were measured. Each is the
median of {rounds} rounds, with the least and the most in brackets.

## A bare producer

Kafka's own `kafka-producer-perf-test` sends as fast as it can, alone. The records that warm it up are not counted.

*At most once* is `acks=1` with five requests in flight, *at least once, in order* is `acks=all` with one, *at least once, not
idempotent* is `acks=all` with five. None of them is idempotent.

{writer}

## The plain application

`pipelines/transactional` works on a backlog: its workers read a batch, write it, and commit.

| guarantee | order |
| --- | --- |
| at least once | wait for all acknowledgements, then commit positions |
| at most once | commit positions, then write |
| exactly once | both in one transaction |

A batch has as many records as at least once delivers in the interval. That is tried out first, so batches are equal for all
guarantees.

The base is 100 ms, 100 B, 3 partitions of the sink in each transaction, and 3 workers. Every other line changes one of these.

With transactions, a producer that got no answer at once was replaced by a new one {renewed} times.

{application}

## Spark

The square job (`pipelines/spark_square`) works on a backlog of numbers in three partitions, on two workers. Spark's stock Kafka
sink is at least once. The exactly-once sink uses one transaction per task.

{spark}
"""


def write(measured: Measured, facts: Mapping[str, Any], page: Path) -> None:
    """Write the page, its picture beside it, and its tables, ``findings/cost-tables.md`` from there."""
    page.write_text(text(measured, facts), encoding="utf-8")
    all_figures = page.parent / "findings" / "cost-tables.md"
    all_figures.parent.mkdir(exist_ok=True)
    all_figures.write_text(tables(measured, facts), encoding="utf-8")
    with mpl.rc_context(_STYLE):
        _figure(measured).savefig(page.with_suffix(".png"), dpi=_DPI)


# the page -------------------------------------------------------------------------------------------------------------------


def text(measured: Measured, facts: Mapping[str, Any]) -> str:
    """Markdown, with claims and latencies; cells that were not measured have no lines.

    Args:
        facts: ``command``, ``day``, ``machine``, ``cores``, ``rounds``, ``paced``, ``renewed`` and ``busy``, for people.
    """
    return _TEXT.format(
        **facts,
        glance=_table(("records/s", "at least once", "exactly once", "kept"), _glance(measured)),
        scattered=_scattered(measured),
        claims=_table(
            ("claim", "by", "figure", "measured", ""),
            (line for claim in claims(measured) for line in _judged(claim)),
        ),
        latency=_latencies(measured, LATENCY, ("interval_ms", "size")),
        as_it_comes=_latencies(measured, AS_IT_COMES, ("interval_ms",)),
    )


def tables(measured: Measured, facts: Mapping[str, Any]) -> str:
    """Markdown, with every throughput; cells that were not measured have no lines."""
    return _TABLES.format(
        **facts,
        writer=_rates(measured, WRITER, ("size", "partitions", "interval_ms"), IN_ORDER),
        application=_applications(measured),
        spark=_rates(measured, SPARK, ("batch_records",), ""),
    )


_AT_A_GLANCE: Mapping[str, Cell] = {
    "bare producer, 1 KB, 100 ms": Cell(WRITER, EXACTLY, size=LARGE),
    "plain application, 100 B, 100 ms": Cell(APPLICATION, EXACTLY),
    "Spark, 100,000 records a batch": Cell(SPARK, EXACTLY, batch_records=100_000),
}
_SCATTERED = 1.5  # the most of the ratios, over the least


def _glance(measured: Measured) -> Iterable[Sequence[str]]:
    """At least once and exactly once, for one cell of each way."""
    for name, cell in _AT_A_GLANCE.items():
        if {cell, against(cell)} <= measured.keys():
            both = (f"{across(measured[one]).middle:,.0f}" for one in (against(cell), cell))
            yield name, *both, _ratio(ratios(measured, cell, against(cell)))


def _scattered(measured: Measured) -> str:
    """A warning that names the figures above whose rounds differ too much for a median."""
    names = []
    for name, cell in _AT_A_GLANCE.items():
        found = ratios(measured, cell, against(cell)) if {cell, against(cell)} <= measured.keys() else []
        if found and max(found) > _SCATTERED * min(found):
            names.append(name)
    if not names:
        return ""
    return f"\n\nThe rounds differ by more than half in: {'; '.join(names)}. Read the range there, not the median."


def _judged(claim: Claim) -> Iterable[Sequence[str]]:
    """A line for the claim as a whole, and one for each pair of cells; one line for both where there is one pair."""
    if len(claim.compared) == 1:
        (one,) = claim.compared
        yield claim.text, claim.source, one.figure, _ratio(one.found), f"**{claim.verdict}**"
        return
    yield claim.text, claim.source, "", "", f"**{claim.verdict}**"
    yield from (("", "", one.figure, _ratio(one.found), one.verdict(claim.least)) for one in claim.compared)


_HEADS: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "size": ("record", lambda bytes_: f"{bytes_} B"),
    "partitions": ("partitions", str),
    "interval_ms": ("interval", lambda ms: f"{ms} ms"),
    "workers": ("workers", str),
    "batch_records": ("records a batch", lambda records: f"{records:,}"),
}


def _applications(measured: Measured) -> str:
    factors = ("interval_ms", "size", "partitions", "workers")
    return _rates(measured, APPLICATION, factors, AT_MOST)


def _rates(measured: Measured, way: str, factors: Sequence[str], beside: str) -> str:
    """Records per second, and the ratios to at least once and, where there is one, to a further guarantee."""
    cells = [cell for cell in measured if cell.way == way]
    heads = [*(_HEADS[factor][0] for factor in factors), "guarantee", "records/s", "of at least once"]
    rows = (
        (
            *_places(cell, factors),
            _NAMES[cell.guarantee],
            _number(across(measured[cell])),
            _ratio(ratios(measured, cell, against(cell))) if cell.guarantee != AT_LEAST else "",
            *((_ratio(_compared(measured, cell, beside)),) if beside else ()),
        )
        for cell in cells
    )
    return _table([*heads, *([f"of {_NAMES[beside]}"] if beside else [])], rows)


def _compared(measured: Measured, cell: Cell, guarantee: str) -> list[float]:
    other = against(cell, guarantee)
    return ratios(measured, cell, other) if cell.guarantee == EXACTLY and other in measured else []


def _latencies(measured: Measured, way: str, factors: Sequence[str]) -> str:
    heads = [*(_HEADS[factor][0] for factor in factors), "guarantee", "p50", "p99", "lag p50", "lag p99"]
    rows = (
        (
            *_places(cell, factors),
            _NAMES[cell.guarantee],
            *(_milliseconds(across(one[column] for one in values)) for column in range(len(Latency._fields))),
        )
        for cell, values in measured.items()
        if cell.way == way
    )
    return _table(heads, rows)


def _places(cell: Cell, factors: Sequence[str]) -> list[str]:
    no_interval = cell.way == WRITER and cell.guarantee != EXACTLY
    shown = {factor: _HEADS[factor][1](getattr(cell, factor)) for factor in factors}
    return ["" if no_interval and factor == "interval_ms" else value for factor, value in shown.items()]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(found: Range) -> str:
    return f"{found.middle:,.0f} ({found.least:,.0f} … {found.most:,.0f})"


def _milliseconds(found: Range) -> str:
    return f"{found.middle:.0f} ms ({found.least:.0f} … {found.most:.0f})"


def _ratio(found: Sequence[float]) -> str:
    if not found:
        return ""
    of = across(found)
    return f"{of.middle:.2f} ({of.least:.2f} … {of.most:.2f})"


# the picture ----------------------------------------------------------------------------------------------------------------


def _figure(measured: Measured) -> Figure:
    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    (left, right), (low_left, low_right) = figure.subplots(2, 2)
    _kept(left, measured, "interval_ms", [Cell(WRITER, EXACTLY, size=1000), Cell(APPLICATION, EXACTLY)])
    left.set_title("Throughput kept, by commit interval (ms)", loc="left", fontweight="bold")
    _kept(right, measured, "partitions", [Cell(WRITER, EXACTLY, size=1000), Cell(APPLICATION, EXACTLY)])
    right.set_title("… by partitions in a transaction", loc="left", fontweight="bold")
    _bars(low_left, measured)
    low_left.set_title("Latency, p50 to p99, by commit interval (ms)", loc="left", fontweight="bold")
    _kept(low_right, measured, "batch_records", [Cell(SPARK, EXACTLY)])
    low_right.set_title("Spark: throughput kept, by records a batch", loc="left", fontweight="bold")
    low_right.axhline(0.8, color="#D55E00", linewidth=1, linestyle=":")
    return figure


def _kept(axes: Axes, measured: Measured, factor: str, bases: Sequence[Cell]) -> None:
    """The share of at least once that exactly once keeps, over one factor; a bar spans all rounds."""
    named = {WRITER: ("bare producer, 1 KB", _COLOURS[IN_ORDER]), APPLICATION: ("plain application, 100 B", _COLOURS[EXACTLY])}
    values = sorted({getattr(cell, factor) for cell in measured if cell.way in {base.way for base in bases}})
    for base in bases:
        name, colour = named.get(base.way, ("exactly-once sink", _COLOURS[EXACTLY]))
        cells = {value: replace(base, **{factor: value}) for value in values}
        found = {value: ratios(measured, cell, against(cell)) for value, cell in cells.items()}
        places = {values.index(value): across(of) for value, of in found.items() if of}
        middles = [one.middle for one in places.values()]
        bars = [[one.middle - one.least for one in places.values()], [one.most - one.middle for one in places.values()]]
        if places:
            axes.errorbar(list(places), middles, bars, marker="o", capsize=3, color=colour, label=name)
    axes.set_xticks(range(len(values)), [f"{value:,}" for value in values])
    axes.axhline(1, color=_PALE, linewidth=1)
    axes.set_yscale("log", base=2)  # twice as much is as far from one as half as much
    axes.set_ylim(min(0.5, axes.get_ylim()[0]), max(2, axes.get_ylim()[1]))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.1)
    axes.set_ylabel("of at least once")
    if values:
        _legend(axes)


def _bars(axes: Axes, measured: Measured) -> None:
    base = Cell(LATENCY, EXACTLY)
    intervals = sorted({cell.interval_ms for cell in measured if cell.way == LATENCY})
    for number, guarantee in enumerate((AT_MOST, AT_LEAST, EXACTLY)):
        for place, interval in enumerate(intervals):
            values = measured.get(replace(base, guarantee=guarantee, interval_ms=interval))
            if values:
                low, high = (across(one[column] for one in values).middle for column in (0, 1))
                at = place + 0.2 * (number - 1)
                axes.plot([at, at], [low, high], color=_COLOURS[guarantee], linewidth=6, solid_capstyle="butt")
    for guarantee in (AT_MOST, AT_LEAST, EXACTLY):
        axes.plot([], [], color=_COLOURS[guarantee], linewidth=6, label=_NAMES[guarantee])
    axes.set_xticks(range(len(intervals)), [f"{interval:,}" for interval in intervals])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_ylabel("ms")
    _legend(axes)


def _legend(axes: Axes) -> None:
    """Below the axes, where it hides nothing."""
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
