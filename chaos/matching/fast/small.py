"""Find the answers of `chaos.matching.answers` for few rows, in the memory of this process.

A Spark query takes tenths of a second, however few its rows are, and that module runs a dozen. So if no more than some ten
thousand rows are left to match, they are read once and matched here. The result is that module's, to the letter
(`tests/planted/test_copies.py`); it has the definition.

Plainly right rows become runs: the record was processed, and one row answers it, in its partition and with its value. The
verifiers judge only the others, since their result for a row depends only on those of its id.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from verifiers.single_scan import runs
from verifiers.single_scan.groups import Flags, Longs, longs, starts
from verifiers.single_scan.runs import Runs

_NONE = -1
_LARGEST = np.iinfo(np.int64).max
_PLACE = ("partition", "offset")


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Matched rows and records.

    Attributes:
        expected, observed: those that are not plainly right, with the columns of `verifiers.base.Evidence`; a key is an id.
        right: the other rows, and the records that they answer. The line is the record's partition, its number the offset.
        unordered: partition and offset of the rows with unknown order; None if there are none.
    """

    expected: pa.Table
    observed: pa.Table
    right: Runs
    unordered: pa.Table | None
    _ids: Longs
    _keys: pa.ChunkedArray

    def keys(self, ids: Collection[int]) -> Mapping[int, str]:
        """Id -> key, for ids of these records and rows; a key may be any bytes, whatever the type of its column."""
        places = np.flatnonzero(np.isin(self._ids, list(ids)))
        keys = self._keys.take(places).cast(pa.binary()).to_pylist()
        return {id_: _readable(key) for id_, key in zip(self._ids[places].tolist(), keys, strict=True)}


def _readable(key: bytes) -> str:
    """Return a key as text if it is UTF-8, else as ``0x`` and hex."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def find(wanted: pa.Table, rows: pa.Table, lines: int, positions: Mapping[int, int]) -> Matched:
    """Match rows and demanded records; a record must be in its own partition, and nothing was compacted.

    Args:
        wanted: partition, offset, key and value of demanded records, all of each key; none is without a key.
        rows: those of the sink, with these columns and timestamp_ms; they may have no key.
        lines: ids are offset * lines + partition; the last line is that of keys which nothing demands.
        positions: how far each partition of the source was processed; 0 for a missing partition.
    """
    both = _Both(wanted, rows, positions)
    keyed, demanded = both.keyed, both.demanded
    both.match(both.exact, keyed)
    both.match(both.alike, keyed & both.free)
    left = keyed & both.free & ~demanded
    changed = left & (_counts(both.alike, demanded)[both.alike] == 0)
    both.match(both.key, changed | (demanded & both.free))
    ids = _ids(both, lines, changed)
    right = _right(both, ids)
    answers = right & ~demanded
    answered = runs.of_rows(both.partition[answers], both.offset[answers], *np.divmod(ids[answers], lines)[::-1])
    unordered = _unordered(both, left & ~changed | demanded & both.free & both.processed, changed)
    return Matched(
        _expected(wanted.filter(~right[: len(wanted)]), ids[: len(wanted)][~right[: len(wanted)]]),
        _observed(rows.filter(~right[len(wanted) :]), ids[len(wanted) :][~right[len(wanted) :]]),
        answered,
        rows.filter(unordered[len(wanted) :]).select(_PLACE) if unordered.any() else None,
        ids,
        both.keys,
    )


class _Both:
    """Records and, behind them, rows; equal ones have equal numbers in ``key``, ``alike`` and ``exact``."""

    def __init__(self, wanted: pa.Table, rows: pa.Table, positions: Mapping[int, int]) -> None:
        places = zip(longs(wanted, *_PLACE), longs(rows, *_PLACE), strict=True)
        self.partition, self.offset = (np.concatenate(side) for side in places)
        self.demanded = np.arange(len(wanted) + len(rows)) < len(wanted)
        self.keys, values = (
            pa.chunked_array([*wanted.column(name).chunks, *rows.column(name).chunks], wanted.schema.field(name).type)
            for name in ("key", "value")
        )
        self.keyed = np.asarray(self.keys.is_valid(), np.bool_)
        self.key = _codes(self.keys)
        self.alike = _numbered(self.key, _codes(values))
        self.exact = _numbered(self.alike, self.partition)
        self.other = np.full(len(self.demanded), _NONE)
        ends = np.array([positions.get(number, 0) for number in range(self.partition.max(initial=0) + 1)])
        self.processed = np.asarray(self.demanded & (self.offset < ends[self.partition]), np.bool_)
        self._in_order = np.lexsort((self.offset, self.partition, self.demanded & ~self.processed))

    @property
    def free(self) -> Flags:
        """Whether a row answers nothing, or nothing answers a record."""
        return np.asarray(self.other == _NONE, np.bool_)

    def match(self, classes: Longs, which: Flags) -> None:
        """Match the k-th of these rows with the k-th of these records of its class."""
        records, rows = (self._in_order[(which & side)[self._in_order]] for side in (self.demanded, ~self.demanded))
        (ours, here), (theirs, there) = (_ranked(classes, side) for side in (records, rows))
        _, mine, yours = np.intersect1d(here, there, assume_unique=True, return_indices=True)
        self.other[ours[mine]], self.other[theirs[yours]] = theirs[yours], ours[mine]


def _ranked(classes: Longs, places: Longs) -> tuple[Longs, Longs]:
    """Sort the places by class, and number each by class and rank in it."""
    places = places[np.argsort(classes[places], kind="stable")]
    begins = starts(classes[places])
    ranks = np.arange(len(places)) - np.repeat(begins, np.diff(np.append(begins, len(places))))
    return places, classes[places] * (len(classes) + 1) + ranks


def _ids(both: _Both, lines: int, changed: Flags) -> Longs:
    """Give each record its id, and each row that of the record that it answers, or would if it were not one too many."""
    demanded, ids = both.demanded, np.where(both.demanded, both.offset * lines + both.partition, _LARGEST)
    for classes in (both.exact, both.alike, both.key):
        firsts = _firsts(classes, ids, demanded)
        ids = np.where(demanded | (ids < _LARGEST), ids, firsts[classes])
    strays = _firsts(both.key, both.offset * (lines - 1) + both.partition, changed)
    stray = changed & (ids == _LARGEST)
    ids[stray] = strays[both.key[stray]] * lines + lines - 1
    answers = ~demanded & ~both.free
    ids[answers] = ids[both.other[answers]]
    ids[~both.keyed] = _NONE
    return ids


def _firsts(classes: Longs, numbers: Longs, which: Flags) -> Longs:
    """Return the lowest number of each class."""
    firsts = np.full(classes.max(initial=0) + 1, _LARGEST)
    np.minimum.at(firsts, classes[which], numbers[which])
    return firsts


def _right(both: _Both, ids: Longs) -> Flags:
    """Flag the records that are plainly right, and their rows."""
    right = both.processed & ~both.free & (both.exact == both.exact[both.other])
    there, times = np.unique(ids[~both.demanded], return_counts=True)
    right &= ~np.isin(ids, there[times > 1])
    right[both.other[right]] = True
    return np.asarray(right, np.bool_)


def _unordered(both: _Both, odd: Flags, changed: Flags) -> Flags:
    """Flag the rows with unknown order: those equal to odd ones that recur, and changed ones of a key that recurs."""
    odd = odd & (_counts(both.alike, both.demanded) > 1)[both.alike]
    wrong = changed & (_counts(both.key, both.demanded) > 1)[both.key]
    return np.asarray(~both.demanded & (_counts(both.alike, odd | wrong) > 0)[both.alike], np.bool_)


def _expected(wanted: pa.Table, ids: Longs) -> pa.Table:
    columns = {name: wanted.column(name) for name in ("partition", "value")}
    required = pa.array(np.ones(len(ids), np.bool_))
    return pa.table({"id": pa.array(ids), **columns, "required": required, "position": wanted.column("offset")})


def _observed(rows: pa.Table, ids: Longs) -> pa.Table:
    keys = pa.array(ids, mask=ids == _NONE).cast(pa.string())
    columns = {name: rows.column(name) for name in ("partition", "offset", "timestamp_ms")}
    return pa.table({**columns, "key": keys, "value": rows.column("value")})


def _codes(texts: pa.ChunkedArray) -> Longs:
    """Encode texts as integers; null gets a code of its own."""
    return np.asarray(texts.combine_chunks().dictionary_encode("encode").indices, np.int64)


def _numbered(first: Longs, second: Longs) -> Longs:
    """Number the distinct pairs from 0 on."""
    pairs = first * (second.max(initial=0) + 1) + second
    return np.asarray(np.unique(pairs, return_inverse=True)[1], np.int64)


def _counts(classes: Longs, which: Flags) -> Longs:
    return np.asarray(np.bincount(classes[which], minlength=classes.max(initial=0) + 1), np.int64)
