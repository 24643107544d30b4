"""Pair two sequences of numbers at the places where they are alike, whatever is missing, added or changed in either.

Equal numbers are paired by rank: the k-th of a number here with the k-th of it there. The most pairs that rise on both sides
are kept. Between two kept pairs that are as far apart on both sides, places are compared one by one. This takes n log n steps
at most. A pair is never wrong; only the number of found pairs depends on the method.
"""

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Numbers = NDArray[np.uint64]


def pairs(ours: Numbers, theirs: Numbers) -> tuple[Longs, Longs]:
    """Return places in both with equal numbers; the places rise on both sides."""
    if len(ours) == len(theirs) and (ours == theirs).all():  # the usual case
        every = np.arange(len(ours), dtype=np.int64)
        return every, every
    here, there = _by_rank(ours, theirs)
    kept = _rising(there)
    return _filled(ours, theirs, here[kept], there[kept])


def _by_rank(ours: Numbers, theirs: Numbers) -> tuple[Longs, Longs]:
    """Pair the k-th of a number here with the k-th of it there; the places here rise."""
    codes = np.unique(np.concatenate((ours, theirs)), return_inverse=True)[1].astype(np.int64)
    left, right = (_ranked(side, len(codes)) for side in (codes[: len(ours)], codes[len(ours) :]))
    _, here, there = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    order = np.argsort(here, kind="stable")
    return here[order], there[order]


def _ranked(codes: Longs, size: int) -> Longs:
    """Combine each code with its number of earlier occurrences, which is below the size."""
    order = np.argsort(codes, kind="stable")
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(begins, np.diff(np.append(begins, len(codes))))
    return codes * size + ranks


def _rising(numbers: Longs) -> Longs:
    """Return the places of a longest increasing subsequence; all numbers differ."""
    if (np.diff(numbers) > 0).all():
        return np.arange(len(numbers), dtype=np.int64)
    lowest, at, before = list[int](), list[int](), list[int]()  # the lowest end of a sequence of each length, and its place
    for place, number in enumerate(numbers.tolist()):
        length = bisect_left(lowest, number)
        before.append(at[length - 1] if length else -1)
        lowest[length : length + 1], at[length : length + 1] = [number], [place]
    found, place = list[int](), at[-1]
    while place >= 0:
        found.append(place)
        place = before[place]
    return np.array(found[::-1], np.int64)


def _filled(ours: Numbers, theirs: Numbers, here: Longs, there: Longs) -> tuple[Longs, Longs]:
    """Add pairs that lie between two of these, where both sides have as many places between them."""
    here, there = (np.concatenate(([-1], side, [len(all_)])) for side, all_ in ((here, ours), (there, theirs)))
    away = there - here
    every = np.arange(len(ours), dtype=np.int64)
    behind = np.searchsorted(here, every, side="right") - 1
    even = (here[behind] == every) | (away[behind] == away[behind + 1])
    places = every[even]
    found = places + away[behind[even]]
    same = ours[places] == theirs[found]
    return places[same], found[same]
