"""Chunks of a log: the same however it was read, and other ones where its rows are others."""

import subprocess
import sys
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from chaos.matching.fast import chunks, on_executors

BITS = 2
PRINTS = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 300)


def log(prints, offsets=None, partition=0):
    """Rows of one partition."""
    offsets = range(len(prints)) if offsets is None else offsets
    places = (partition << chunks.OFFSET_BITS) + np.array(offsets, np.int64)
    columns = (places, np.array(prints, np.int64))
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=["place", "print"])


def assembled(*batches):
    """The parts of batches, and their chunks."""
    return chunks.assembled(pa.Table.from_batches(list(chunks.splitter(BITS)(batches))))


def numbers(*batches):
    """Those of the chunks."""
    return assembled(*batches)[2].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_chunks_are_the_same_however_the_log_was_read(seed):
    """In batches of any sizes, in any order, and with holes in the offsets."""
    rng = Random(seed)
    offsets = np.cumsum([rng.choice([1, 1, 1, 2]) for _ in PRINTS])
    cuts = [0, *sorted(rng.sample(range(1, 300), rng.randrange(8))), 300]
    batches = [log(PRINTS[a:b], offsets[a:b]) for a, b in pairwise(cuts)]
    rng.shuffle(batches)

    parts, _, found = assembled(*batches)

    assert found.tolist() == numbers(log(PRINTS))
    assert parts.rows.sum() == 300
    assert set(np.concatenate([np.arange(n) + first for first, n in zip(parts.first, parts.rows, strict=True)])) == {*offsets}


@pytest.mark.parametrize("at_once", [1, 100, 10_000])
def test_doubles_are_counted_beside_the_parts(monkeypatch, at_once):
    """Wherever they are: the parts are those of `splitter`, and all prints of a home are counted together."""
    monkeypatch.setattr(chunks, "_HELD", at_once)
    batches = [log(PRINTS), log([*PRINTS[:20], PRINTS[0]], partition=1), log(PRINTS[:0], partition=2)]
    dealt = pa.Table.from_batches(list(chunks.dealer(BITS)(batches)))
    halves = [dealt.filter(pc.equal(pc.bit_wise_and(dealt.column("home"), 1), half)) for half in (0, 1)]

    found = pa.concat_tables(pa.Table.from_batches(list(chunks.count_doubles(half.to_batches()))) for half in halves)

    assert found.column("doubles").drop_null().to_pylist() != [21, 0]  # each half has some
    assert sum(found.column("doubles").drop_null().to_pylist()) == 21
    parts = found.filter(found.column("doubles").is_null()).drop_columns(["doubles"])
    split = pa.Table.from_batches(list(chunks.splitter(BITS)(batches)))
    assert sorted(parts.to_pylist(), key=str) == sorted(split.to_pylist(), key=str)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(np.delete(PRINTS, 150), id="lost"),
        pytest.param(np.insert(PRINTS, 150, PRINTS[20]), id="there again"),
        pytest.param([*PRINTS[:150], 5, *PRINTS[151:]], id="another"),
        pytest.param([*PRINTS[:150], PRINTS[151], PRINTS[150], *PRINTS[152:]], id="in each other's place"),
        pytest.param(np.insert(PRINTS, 150, 0), id="one without a key"),
    ],
)
def test_rows_that_differ_change_the_chunks_that_they_are_in(other):
    """And no others."""
    ours, theirs = numbers(log(PRINTS)), numbers(log(other))

    assert 0 < len({*ours} - {*theirs}) <= 2
    assert 0 <= len({*theirs} - {*ours}) <= 3


def test_partitions_are_apart():
    """A chunk ends with its partition."""
    parts, partitions, found = assembled(log(PRINTS[:7]), log(PRINTS[7:], partition=1))

    assert {*partitions} == {0, 1}
    assert found[partitions == 0].tolist() == numbers(log(PRINTS[:7]))
    assert not parts.keyless


def test_rows_without_a_key_are_seen():
    assert assembled(log([5, 0, 7]))[0].keyless


def test_two_rows_of_one_offset_are_seen():
    with pytest.raises(chunks.PlaceError):
        assembled(log([5, 6, 7], [1, 2, 2]))


def test_places_that_do_not_fit_are_seen():
    batch = pa.RecordBatch.from_pydict({"place": pa.array([1, None], pa.int64()), "print": [5, 6]})

    with pytest.raises(chunks.PlaceError):
        assembled(batch)


def test_an_empty_log_has_no_chunk():
    nothing = pa.table({"partition": pa.array([], pa.int32()), "first": pa.array([], pa.int64())})
    for name in ("rows", "hash"):
        nothing = nothing.append_column(name, pa.array([], pa.int64()))
    for name in ("closed", "keyless"):
        nothing = nothing.append_column(name, pa.array([], pa.bool_()))

    parts, partitions, found = chunks.assembled(nothing)

    assert (len(parts.rows), len(partitions), len(found), parts.keyless) == (0, 0, 0, False)


def test_executors_need_nothing_of_this_project(tmp_path):
    """They may be on machines where it is not installed."""
    assert chunks.__name__ in cloudpickle.list_registry_pickle_by_value(), on_executors
    sent = tmp_path / "sent"
    sent.write_bytes(cloudpickle.dumps(chunks.splitter(BITS)))
    asks = f"""
import pickle, sys
import pyspark.cloudpickle
split = pickle.loads(open({str(sent)!r}, "rb").read())
import pyarrow as pa
columns = [pa.array([3]), pa.array([8])]
batch = pa.RecordBatch.from_arrays(columns, names=["place", "print"])
print([one.num_rows for one in split([batch])], any(name == "chaos" for name in sys.modules))
"""

    done = subprocess.run([sys.executable, "-I", "-c", asks], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout == "[1] False\n"
