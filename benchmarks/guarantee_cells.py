"""The cells of `guarantee.py`, their figures, and the claims that these confirm: pure functions."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import Any, NamedTuple

AT_MOST, AT_LEAST, EXACTLY, IN_ORDER = "at_most_once", "at_least_once", "exactly_once", "in_order"
NOT_IDEMPOTENT = "not_idempotent"
GUARANTEES = (AT_MOST, AT_LEAST, EXACTLY)
APPLICATION, LATENCY, WRITER, AS_IT_COMES, SPARK = "application", "latency", "writer", "as_it_comes", "spark"
WAYS = (WRITER, APPLICATION, LATENCY, AS_IT_COMES, SPARK)
LARGE = 1000
_MIDDLE, _TAIL = 50, 99
_LOW, _AIM, _LITTLE = 0.9, 0.8, 0.95
_CONFIRMED, _REFUTED, _NOT_DECIDED, _NOT_MEASURED = "confirmed", "refuted", "not decided", "not measured"
POSSIBLE, TRANSACTIONS, KIP_185, SAID = "[1]", "[2]", "[3]", "often said"


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


Measured = Mapping[Cell, Sequence[Any]]
"""The values of each cell, one a round: records per second (float), or latencies (Latency)."""


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
    """Without transactions there is no interval. Further intervals and partitions are measured with large records.

    At least once without idempotence stands beside the idempotent one, so that what idempotence costs is seen alone.
    """
    beside = [NOT_IDEMPOTENT] if AT_LEAST in chosen.guarantees else []
    without = [one for one in (IN_ORDER, *beside, *chosen.guarantees) if one != EXACTLY]
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
            yield _with(BASE, zip(factors, found, strict=True))
        return
    nearest = {name: _nearest(values[name], getattr(BASE, name)) for name in factors}
    base = _with(BASE, nearest.items())
    yield base
    for name in factors:
        yield from (_with(base, [(name, value)]) for value in values[name] if value != nearest[name])


def _with(cell: Cell, numbers: Iterable[tuple[str, int]]) -> Cell:
    changes: dict[str, Any] = dict(numbers)
    return replace(cell, **changes)


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
    """This cell with another guarantee; a bare producer has one interval for all, where it has no transactions."""
    interval_ms = BASE.interval_ms if cell.way == WRITER else cell.interval_ms
    return replace(cell, guarantee=guarantee, interval_ms=interval_ms)


def ratios(measured: Measured, cell: Cell, other: Cell) -> list[float]:
    """The ratio of two rates in each round, so that the state of the machine cancels out; None if one was not measured."""
    return quotients(measured.get(cell, ()), measured.get(other, ()))


def quotients(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(mine, theirs, strict=False)]


# claims ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """Two cells, or two ratios, of which the claim says how they compare.

    Attributes:
        figure: what is compared, for people.
        found: one value a round; none if it was not measured.
    """

    figure: str
    found: Sequence[float]

    def verdict(self, least: float) -> str:
        """Confirmed if every round found at least so much, refuted if none did."""
        if not self.found:
            return _NOT_MEASURED
        true = [one >= least for one in self.found]
        return _CONFIRMED if all(true) else _NOT_DECIDED if any(true) else _REFUTED


@dataclass(frozen=True, slots=True)
class Claim:
    """A published claim, and every pair of cells to which it applies.

    Attributes:
        least: what each figure must be at least, if the claim is true.
    """

    text: str
    source: str
    least: float
    compared: Sequence[Compared]

    @property
    def verdict(self) -> str:
        """Confirmed if it is at every cell, refuted if it is at every cell; else it depends, or is not decided."""
        found = {one.verdict(self.least) for one in self.compared} - {_NOT_MEASURED}
        if not found:
            return _NOT_MEASURED
        if len(found) == 1:
            return found.pop()
        return "depends" if {_CONFIRMED, _REFUTED} <= found else _NOT_DECIDED


def claims(measured: Measured) -> list[Claim]:
    """Each with the figures of this run, at every cell that was measured."""
    return [*_of_confluent(measured), *_of_everybody(measured), *_of_this_project(measured)]


def _of_confluent(measured: Measured) -> Iterator[Claim]:
    """The two claims of [1] name their cell; those of [2] speak of every interval and size."""
    of = partial(ratios, measured)
    large, bare = Cell(WRITER, EXACTLY, size=LARGE), "bare producer"
    stated = f"{bare}, 1 KB, 100 ms"
    yield Claim(
        "at most 3 % less than at least once in order",
        POSSIBLE,
        0.97,
        [Compared(f"{stated}: of in order", of(large, against(large, IN_ORDER)))],
    )
    yield Claim(
        "at most 20 % less than at most once",
        POSSIBLE,
        0.8,
        [Compared(f"{stated}: of at most once", of(large, against(large, AT_MOST)))],
    )
    yield Claim(
        "shorter intervals cost more",
        TRANSACTIONS,
        1,
        [
            *_steps(measured, large, "interval_ms", f"{bare}, 1 KB: what is kept at"),
            *_steps(measured, BASE, "interval_ms", "plain application: what is kept at"),
        ],
    )
    yield Claim(
        "smaller records cost more",
        TRANSACTIONS,
        1,
        [
            *_steps(measured, large, "size", f"{bare}, 100 ms: what is kept at"),
            *_steps(measured, BASE, "size", "plain application: what is kept at"),
        ],
    )
    sizes = sorted({cell.size for cell in measured if cell.guarantee == NOT_IDEMPOTENT})
    with_it = {size: Cell(WRITER, AT_LEAST, size=size) for size in sizes}
    yield Claim(
        f"idempotence alone costs little; here: {_LITTLE:.0%} is kept",
        KIP_185,
        _LITTLE,
        [
            Compared(f"{bare}, {size} B: with idempotence, over without it", of(cell, against(cell, NOT_IDEMPOTENT)))
            for size, cell in with_it.items()
        ],
    )


def _of_everybody(measured: Measured) -> Iterator[Claim]:
    of = partial(ratios, measured)
    app = "plain application"
    kept = [cell for cell in measured if cell.way == APPLICATION and cell.guarantee == EXACTLY]
    yield Claim(
        "low overhead",
        f"often said, without a number; here: {_LOW:.0%} is kept",
        _LOW,
        [Compared(f"{app}, {_place(cell)}: of at least once", of(cell, against(cell))) for cell in kept],
    )
    partitions = _values(measured, BASE, "partitions")
    narrow = [(replace(BASE, partitions=one), replace(BASE, partitions=other)) for one, other in _pairs(partitions)]
    yield Claim(
        "transactions over fewer partitions are faster",
        SAID,
        1,
        [Compared(f"{app}: {a.partitions} over {b.partitions}", of(a, b)) for a, b in narrow],
    )
    yield Claim(
        "… and that is because of the transactions",
        "",
        1,
        [
            Compared(
                f"{app}: {a.partitions} over {b.partitions}, each as a part of at least once",
                quotients(of(a, against(a)), of(b, against(b))),
            )
            for a, b in narrow
        ],
    )
    workers = _values(measured, BASE, "workers")
    more = [(replace(BASE, workers=other), replace(BASE, workers=one)) for one, other in _pairs(workers)]
    yield Claim(
        "transactions over subsets of the source, by more workers, are faster",
        SAID,
        1,
        [Compared(f"{app}: {a.workers} workers over {b.workers}", of(a, b)) for a, b in more],
    )


def _of_this_project(measured: Measured) -> Iterator[Claim]:
    cells = [cell for cell in measured if cell.way == SPARK and cell.guarantee == EXACTLY]
    yield Claim(
        f"Spark: at least {_AIM:g} of the stock sink",
        "the aim of this project",
        _AIM,
        [Compared(f"{cell.batch_records:,} records a batch", ratios(measured, cell, against(cell))) for cell in cells],
    )


def _steps(measured: Measured, base: Cell, factor: str, said: str) -> Iterator[Compared]:
    """The share of at least once that a larger value of a factor keeps, over that of each smaller one."""
    for small, large in _pairs(_values(measured, base, factor)):
        ends = [_with(base, [(factor, value)]) for value in (large, small)]
        kept = [ratios(measured, cell, against(cell)) for cell in ends]
        yield Compared(f"{said} {_unit(factor, large)}, over {_unit(factor, small)}", quotients(*kept))


def _values(measured: Measured, base: Cell, factor: str) -> list[int]:
    """The values of a factor at which all else is as in the base."""
    found = {getattr(cell, factor): cell for cell in measured if replace(cell, **{factor: getattr(base, factor)}) == base}
    return sorted(found)


def _pairs(values: Sequence[int]) -> list[tuple[int, int]]:
    return list(combinations(values, 2))


def _unit(factor: str, value: int) -> str:
    return f"{value} {'ms' if factor == 'interval_ms' else 'B'}"


def _place(cell: Cell) -> str:
    workers = f"{cell.workers} worker{'s' * (cell.workers != 1)}"
    return f"{cell.interval_ms} ms, {cell.size} B, {cell.partitions} partition{'s' * (cell.partitions != 1)}, {workers}"
