"""Which rows may answer records that retention has removed, found in logs that are made by chance."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from chaos.audit import expired
from chaos.audit.logs import Fixed
from verifiers.base import Bounds

SEEDS = range(2000)


def prints(rows):
    """Numbers that stand for the keys and values of rows."""
    return np.array(rows, np.int64)


def cut(records, rows, done, most, *, hidden=False):
    """The cut between lists."""
    return expired.cut(prints(records), prints(rows), done, most, hidden=hidden)


def a_log(rng):
    """Records that have expired, and those that are left; many are alike."""
    kinds = rng.choice([1, 2, 3, 30])
    gone, left = ([rng.randrange(1, kinds + 1) for _ in range(rng.randrange(0, 12))] for _ in range(2))
    return gone, left


@pytest.mark.parametrize("seed", SEEDS[:: len(SEEDS) // 4])
def test_what_is_compared_of_a_sound_copy_is_what_it_must_be(seed):
    """Whatever expired on either side, wherever the group is, and though a transaction is open."""
    for number in range(seed, seed + len(SEEDS) // 4):
        rng = Random(number)
        gone, left = a_log(rng)
        done = rng.choice([len(left), rng.randrange(len(left) + 1)])
        ahead = rng.choice([0, 0, rng.randrange(len(left) - done + 1)])
        hidden = rng.random() < 0.2
        end = rng.randrange(done + 1) if hidden else done + ahead
        whole = gone + left[:end]
        low = rng.choice([0, 0, rng.randrange(len(whole) + 1)])
        rows = whole[low:]

        here, there = cut(left, rows, done, (len(gone), low), hidden=hidden)

        compared = rows[here:]
        assert 0 in (here, there)
        assert here <= len(gone)
        assert there <= low
        assert left[there : there + len(compared)] == compared
        assert hidden or there + len(compared) >= done


@pytest.mark.parametrize("seed", SEEDS[:: len(SEEDS) // 4])
def test_a_cut_without_anything_wrong_is_found_where_there_is_one(seed):
    """By trying all of them, on logs that may be damaged."""
    for number in range(seed, seed + len(SEEDS) // 4):
        rng = Random(number)
        gone, left = a_log(rng)
        rows = [row for row in gone + left if rng.random() > 0.1]
        rows[:0] = rng.choice([[], [], left[:2]])
        done, most = len(left), (len(gone), rng.choice([0, 2]))

        here, there = cut(left, rows, done, most)

        sound = [(x, 0) for x in range(min(most[0], len(rows)) + 1) if rows[x:] == left]
        sound += [(0, y) for y in range(min(most[1], len(left)) + 1) if rows == left[y:]]
        assert (rows[here:] == left[there:]) is bool(sound)
        assert here <= most[0]
        assert there <= most[1]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param("xxabcd", (2, 0), id="right"),
        pytest.param("xxacd", (2, 0), id="one is lost"),
        pytest.param("xxabccd", (2, 0), id="one is there again"),
        pytest.param("xxaycd", (2, 0), id="one has another value"),
        pytest.param("xxabcdbcd", (6, 0), id="one is lost, and all was there before"),
        pytest.param("xabcdabcd", (5, 0), id="all of it may have been there before"),
        pytest.param("xxxabcdabcd", (6, 0), id="more than can have expired"),
        pytest.param("xbxacd", (3, 0), id="one is lost, and was there before"),
        pytest.param("bcd", (0, 1), id="the first has expired"),
        pytest.param("bd", (0, 1), id="the first has expired, and one is lost"),
        pytest.param("", (0, 2), id="nothing is left, and more is missing than can have expired"),
    ],
)
def test_where_the_cut_is(rows, found):
    """Four records are left; six have expired in the source, and two in the sink."""
    assert cut([*map(ord, "abcd")], [*map(ord, rows)], 4, (6, 2)) == found


def test_a_row_without_a_key_answers_nothing():
    """Its print is 0, as is that of no record."""
    assert cut([1, 2], [0, 0, 1, 2], 2, (2, 0)) == (2, 0)
    assert cut([1, 2], [1, 0, 2], 2, (0, 0)) == (0, 0)


def interleaved(rng, parts, homes):
    """Rows of several partitions, each in its order, written to any partitions of the sink: partition, offset and print."""
    left = {number: list(rows) for number, rows in parts.items()}
    ends, found = [0] * homes, []
    while any(left.values()):
        number = rng.choice([one for one in left if left[one]])
        home = rng.randrange(homes)
        found.append((home, ends[home], left[number].pop(0)))
        ends[home] += 1
    return found


def columns(rows):
    """Partition, offset and print, in the order of their places."""
    ordered = sorted(rows)
    return tuple(np.array([row[place] for row in ordered], np.int64) for place in range(3))


@pytest.mark.parametrize("seed", SEEDS[:: len(SEEDS) // 4])
def test_rows_of_a_sound_copy_by_any_routing(seed):
    """Those that are compared are as many as there are records like them; not fewer, and not more than the rest excuses."""
    for number in range(seed, seed + len(SEEDS) // 4):
        rng = Random(number)
        logs = {home: a_log(rng) for home in range(rng.choice([1, 2, 3]))}
        logs = {home: (gone if rng.random() < 0.7 else [], left) for home, (gone, left) in logs.items()}
        records = [(home, len(gone) + at, one) for home, (gone, left) in logs.items() for at, one in enumerate(left)]
        rows = interleaved(rng, {home: gone + left for home, (gone, left) in logs.items()}, rng.choice([1, 2, 4]))
        lows = {home: len(gone) for home, (gone, _) in logs.items() if gone}
        ends = {home: Bounds(len(gone), len(gone + left), len(gone + left)) for home, (gone, left) in logs.items()}
        question = expired.Question({home: one.hw for home, one in ends.items()}, anywhere=True)

        found = expired._anywhere(columns(records), columns(rows), lows, Fixed(ends, {}), question)

        out = set() if found.left_out is None else set(zip(*found.left_out.to_pydict().values(), strict=True))
        kept = Counter(one for home, offset, one in rows if (home, offset) not in out)
        assert kept == Counter(one for _, _, one in records)
        assert found.rows == len(out) == sum(lows.values())
