"""What `guarantee.py` measures, how numbers become figures, and which claim they confirm: pure functions."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import NamedTuple

AT_MOST, AT_LEAST, EXACTLY, IN_ORDER = "at_most_once", "at_least_once", "exactly_once", "in_order"
GUARANTEES = (AT_MOST, AT_LEAST, EXACTLY)
APPLICATION, LATENCY, WRITER, AS_IT_COMES, SPARK = "application", "latency", "writer", "as_it_comes", "spark"
WAYS = (WRITER, APPLICATION, LATENCY, AS_IT_COMES, SPARK)
LARGE = 1000
_MIDDLE, _TAIL = 50, 99
_QUICK_MS, _WIDE, _MANY = 10, 27, 9
_LOW, _AIM = 0.9, 0.8
POSSIBLE, TRANSACTIONS, SAID = "[1]", "[2]", "often said"


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing that is measured; what is left as it is here is the base.

    Attributes:
        way: one of `WAYS`.
        interval_ms: from commit to commit.
        size: bytes of a record.
        partitions: of the sink, in each transaction.
        workers: of the plain application.
        batch_records: of Spark.
    """

    way: str
    guarantee: str
    interval_ms: int = 100
    size: int = 100
    partitions: int = 3
    workers: int = 3
    batch_records: int = 0


BASE = Cell(APPLICATION, EXACTLY)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The values that are measured, of each factor."""

    guarantees: tuple[str, ...] = GUARANTEES
    intervals: tuple[int, ...] = (10, 100, 1000)
    sizes: tuple[int, ...] = (100, LARGE)
    partitions: tuple[int, ...] = (1, 3, 9, 27)
    workers: tuple[int, ...] = (1, 3, 9)
    batches: tuple[int, ...] = (4000, 100_000)
    ways: tuple[str, ...] = WAYS
    crossed: bool = False


class Latency(NamedTuple):
    """In milliseconds.

    Attributes:
        p50, p99: from when a record was due until a read_committed reader has it.
        lag_p50, lag_p99: from when a read_uncommitted reader has a record until a read_committed one has it.
    """

    p50: float
    p99: float
    lag_p50: float
    lag_p99: float


class Range(NamedTuple):
    """The median of the rounds, the least and the most."""

    middle: float
    least: float
    most: float


Measured = Mapping[Cell, Sequence[float | Latency]]
"""Of each cell, one value a round: records per second, or latencies."""


# what is measured -----------------------------------------------------------------------------------------------------------


def design(chosen: Chosen) -> list[Cell]:
    """The cells of a round, in their order: one factor at a time is moved away from the base, unless all are crossed."""
    ways = {
        WRITER: _of_writer,
        APPLICATION: _of_application,
        LATENCY: _of_latency,
        AS_IT_COMES: _of_transactions,
        SPARK: _of_spark,
    }
    return [cell for way in chosen.ways for cell in dict.fromkeys(ways[way](chosen))]


def _of_writer(chosen: Chosen) -> Iterator[Cell]:
    """Without transactions there is no interval. Further intervals and partitions are measured with large records."""
    without = [one for one in (IN_ORDER, *chosen.guarantees) if one != EXACTLY]
    large = max(chosen.sizes)
    for size in chosen.sizes:
        yield from (Cell(WRITER, guarantee, size=size) for guarantee in without)
        intervals = chosen.intervals if size == large or chosen.crossed else [_nearest(chosen.intervals, BASE.interval_ms)]
        if EXACTLY in chosen.guarantees:
            yield from (Cell(WRITER, EXACTLY, interval_ms=interval, size=size) for interval in intervals)
    ends = (min(chosen.partitions), max(chosen.partitions))
    for partitions, guarantee in product(chosen.partitions if chosen.crossed else ends, _compared(chosen)):
        yield Cell(WRITER, guarantee, size=large, partitions=partitions)


def _of_application(chosen: Chosen) -> Iterator[Cell]:
    for place in _places(chosen, ("interval_ms", "size", "partitions", "workers")):
        all_of_them = chosen.crossed or place == BASE or place.size != BASE.size
        for guarantee in chosen.guarantees if all_of_them else _compared(chosen):
            yield replace(place, guarantee=guarantee)


def _of_latency(chosen: Chosen) -> Iterator[Cell]:
    """A moderate rate is no work for more workers or partitions, so their numbers stay."""
    for place in _places(chosen, ("interval_ms", "size")):
        for guarantee in chosen.guarantees if chosen.crossed or place == BASE else _compared(chosen):
            yield replace(place, way=LATENCY, guarantee=guarantee)


def _of_transactions(chosen: Chosen) -> Iterator[Cell]:
    if EXACTLY in chosen.guarantees:
        yield from (Cell(AS_IT_COMES, EXACTLY, interval_ms=interval) for interval in chosen.intervals)


def _of_spark(chosen: Chosen) -> Iterator[Cell]:
    for batch_records in chosen.batches:
        for guarantee in _compared(chosen):
            yield Cell(SPARK, guarantee, batch_records=batch_records)


def _compared(chosen: Chosen) -> list[str]:
    return [one for one in (AT_LEAST, EXACTLY) if one in chosen.guarantees]


def _places(chosen: Chosen, factors: Sequence[str]) -> Iterator[Cell]:
    values = {"interval_ms": chosen.intervals, "size": chosen.sizes, "partitions": chosen.partitions, "workers": chosen.workers}
    if chosen.crossed:
        for found in product(*(values[name] for name in factors)):
            yield replace(BASE, **dict(zip(factors, found, strict=True)))
        return
    nearest = {name: _nearest(values[name], getattr(BASE, name)) for name in factors}
    base = replace(BASE, **nearest)
    yield base
    for name in factors:
        yield from (replace(base, **{name: value}) for value in values[name] if value != nearest[name])


def _nearest(values: Sequence[int], wanted: int) -> int:
    """The value of the base, or the first, if that is not chosen."""
    return wanted if wanted in values else values[0]


# figures --------------------------------------------------------------------------------------------------------------------


def rate(ends: Sequence[tuple[float, int]], began_s: float) -> float:
    """Records per second between the first and the last end since `began_s`; the records of the first came before it.

    A window that is cut by the clock would count a batch that takes a second fully, or not at all.

    Raises:
        ValueError: there are not two ends.
    """
    inside = [(at_s, records) for at_s, records in ends if at_s >= began_s]
    if len(inside) < 2:  # noqa: PLR2004 - a rate is between two
        raise ValueError(f"{len(inside)} batches ended in the time that was measured; measure for longer")
    return sum(records for _, records in inside[1:]) / (inside[-1][0] - inside[0][0])


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest of the values that so many of a hundred are not above (nearest rank)."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def latency(took_s: Sequence[float], lags_s: Sequence[float]) -> Latency:
    """The percentiles of what took so many seconds."""
    return Latency(*(1000 * percentile(values, percent) for values in (took_s, lags_s) for percent in (_MIDDLE, _TAIL)))


def across(values: Iterable[float]) -> Range:
    found = sorted(values)
    return Range(statistics.median(found), found[0], found[-1])


def against(cell: Cell, guarantee: str = AT_LEAST) -> Cell:
    """The same with another guarantee; a bare producer has one interval for all, where it has no transactions."""
    interval_ms = BASE.interval_ms if cell.way == WRITER else cell.interval_ms
    return replace(cell, guarantee=guarantee, interval_ms=interval_ms)


def ratios(measured: Measured, cell: Cell, other: Cell) -> list[float]:
    """Of rates, round by round: what the machine did in a round befell both. None where one of them was not measured."""
    return quotients(measured.get(cell, ()), measured.get(other, ()))


def quotients(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(mine, theirs, strict=False)]


# claims ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said somewhere, and the figure that decides it.

    Attributes:
        least: what the figure must be at least, if it is true.
        figure: what is compared, for people.
        found: one value a round; none if it was not measured.
    """

    text: str
    source: str
    figure: str
    least: float
    found: Sequence[float]

    @property
    def verdict(self) -> str:
        """All rounds must agree."""
        if not self.found:
            return "not measured"
        true = [one >= self.least for one in self.found]
        return "confirmed" if all(true) else "not decided" if any(true) else "refuted"


def claims(measured: Measured) -> list[Claim]:
    """Each with the figures of this run."""
    of = partial(ratios, measured)
    large = Cell(WRITER, EXACTLY, size=LARGE)
    kept = {
        "large": of(large, against(large)),
        "quick": of(replace(large, interval_ms=_QUICK_MS), against(large)),
        "small": of(replace(large, size=BASE.size), against(replace(large, size=BASE.size))),
    }
    narrow, wide = (replace(BASE, partitions=partitions) for partitions in (1, _WIDE))
    alone, many = (replace(BASE, workers=workers) for workers in (1, _MANY))
    small, great = (Cell(SPARK, EXACTLY, batch_records=records) for records in Chosen().batches)
    bare, app = "bare producer, 1 KB, 100 ms", "plain application"
    return [
        Claim(
            "at most 3 % less than at least once in order",
            POSSIBLE,
            f"{bare}: of in order",
            0.97,
            of(large, against(large, IN_ORDER)),
        ),
        Claim(
            "at most 20 % less than at most once", POSSIBLE, f"{bare}: of at most once", 0.8, of(large, against(large, AT_MOST))
        ),
        Claim(
            "shorter intervals cost more",
            TRANSACTIONS,
            f"{bare}: what is kept, over that at 10 ms",
            1,
            quotients(kept["large"], kept["quick"]),
        ),
        Claim(
            "smaller records cost more",
            TRANSACTIONS,
            f"{bare}: what is kept, over that of 100 B",
            1,
            quotients(kept["large"], kept["small"]),
        ),
        Claim(
            "low overhead",
            f"often said, without a number; here: {_LOW:.0%} is kept",
            f"{app}, base: of at least once",
            _LOW,
            of(BASE, against(BASE)),
        ),
        Claim(
            "transactions over fewer partitions are faster",
            SAID,
            f"{app}: 1 partition a transaction, over 27",
            1,
            of(narrow, wide),
        ),
        Claim(
            "… and that is because of the transactions",
            "",
            f"{app}: the same, each as a part of at least once",
            1,
            quotients(of(narrow, against(narrow)), of(wide, against(wide))),
        ),
        Claim(
            "transactions over subsets of the source, by more workers, are faster",
            SAID,
            f"{app}: 9 workers, over 1",
            1,
            of(many, alone),
        ),
        Claim(
            "Spark: at least 0.8 of the stock sink, large batches",
            "the aim of this project",
            f"{great.batch_records} records a batch",
            _AIM,
            of(great, against(great)),
        ),
        Claim(
            "Spark: … small batches",
            "the aim of this project",
            f"{small.batch_records} records a batch",
            _AIM,
            of(small, against(small)),
        ),
    ]
