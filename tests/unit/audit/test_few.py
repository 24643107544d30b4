"""Which record each row answers, where so few are asked about that no Spark is needed."""

import pyarrow as pa
import pytest

from chaos.matching.fast import small

LINES = 3  # two partitions, and the line of keys that nothing demands
PROCESSED = {0: 99, 1: 99}
SOURCE = [(0, 0, "a", "1"), (0, 1, "b", "1"), (0, 2, "a", "1"), (0, 3, "a", "2"), (1, 0, "c", None)]
COPY = [(0, 0, "a", "1"), (0, 2, "b", "1"), (0, 4, "a", "1"), (0, 5, "a", "2"), (1, 0, "c", None)]


def table(rows):
    """Partition, offset, key and value of each row."""
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    types = (pa.int32(), pa.int64(), pa.string(), pa.string())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    found = pa.table(dict(zip(("partition", "offset", "key", "value"), arrays, strict=True)))
    return found.append_column("timestamp_ms", pa.nulls(len(rows), pa.int64()))


def asked(source, sink, positions=PROCESSED):
    """Doubtful ids of records, and place and id of doubtful rows."""
    found = small.find(table(source), table(sink), LINES, positions)
    expected = [row["id"] for row in found.expected.to_pylist()]
    observed = {(row["partition"], row["offset"]): row["key"] for row in found.observed.to_pylist()}
    return found, expected, observed


def unordered(found):
    """The places of rows whose order cannot be told."""
    return [] if found.unordered is None else [tuple(row.values()) for row in found.unordered.to_pylist()]


def test_a_copy_is_plainly_right():
    """Each row answers the record at its place, those that are alike in their order."""
    found, expected, observed = asked(SOURCE, COPY)

    pairs = sorted((int(line), int(number), int(offset)) for line, number, offset in each(found.right))
    assert (expected, observed, unordered(found)) == ([], {}, [])
    assert pairs == [(0, 0, 0), (0, 1, 2), (0, 2, 4), (0, 3, 5), (1, 0, 0)]


def each(runs):
    """Line, number and offset of each record of the runs."""
    for line, first, last, offset in zip(runs.line, runs.first, runs.last, runs.offset, strict=True):
        for step in range(last - first + 1):
            yield line, first + step, offset + step


@pytest.mark.parametrize(
    ("sink", "expected", "observed", "uncertain"),
    [
        pytest.param(COPY[1:], [6], {}, [(0, 4)], id="one of two alike is lost"),
        pytest.param(
            [*COPY, (0, 9, "a", "1")], [0], {(0, 0): "0", (0, 9): "0"}, [(0, 0), (0, 4), (0, 9)], id="one is too many"
        ),
        pytest.param([*COPY, (0, 9, "b", "1")], [3], {(0, 2): "3", (0, 9): "3"}, [], id="one that is unlike others"),
        pytest.param([*COPY[:1], (1, 9, "b", "1"), *COPY[2:]], [3], {(1, 9): "3"}, [], id="in another partition"),
        pytest.param([*COPY, (1, 9, "b", "1")], [3], {(0, 2): "3", (1, 9): "3"}, [], id="in another partition, again"),
        pytest.param([*COPY[:2], *COPY[3:], (1, 9, "a", "1")], [6], {(1, 9): "6"}, [], id="one of two alike elsewhere"),
        pytest.param([*COPY, (1, 9, "a", "2")], [9], {(0, 5): "9", (1, 9): "9"}, [], id="a later record of its key, again"),
        pytest.param([*COPY[:1], (0, 2, "b", "x"), *COPY[2:]], [3], {(0, 2): "3"}, [], id="another value"),
        pytest.param([*COPY[:3], (0, 5, "a", "x"), *COPY[4:]], [9], {(0, 5): "9"}, [(0, 5)], id="of a key that recurs"),
        pytest.param(
            [*COPY, (1, 9, "b", "x")], [3], {(0, 2): "3", (1, 9): "3"}, [], id="another value, and nothing is missing"
        ),
        pytest.param([*COPY, (1, 9, "d", "x"), (1, 10, "d", "y")], [], {(1, 9): "59", (1, 10): "59"}, [], id="of no record"),
        pytest.param([*COPY, (1, 9, None, "1")], [], {(1, 9): None}, [], id="without a key"),
        pytest.param([], [0, 3, 6, 9, 1], {}, [], id="nothing is there"),
    ],
)
def test_what_is_not_plainly_right(sink, expected, observed, uncertain):
    """Ids are those of the records that rows answer, or would answer if they were not one too many."""
    found, ids, rows = asked(SOURCE, sink)

    assert (ids, rows, sorted(unordered(found))) == (expected, observed, uncertain)


def test_one_too_many_of_two_partitions():
    """It is taken for one of the record in its own partition."""
    source = [(0, 0, "a", "1"), (1, 0, "a", "1")]

    _, expected, observed = asked(source, [*source, (1, 1, "a", "1")])

    assert (expected, observed) == ([1], {(1, 0): "1", (1, 1): "1"})


def test_what_was_not_processed():
    """It is not plainly right, whether it is answered or not; and what is not there is not missing yet."""
    found, expected, observed = asked(SOURCE, COPY[:3], {0: 2, 1: 0})

    assert (expected, observed, unordered(found)) == ([6, 9, 1], {(0, 4): "6"}, [])
    assert unordered(asked(SOURCE, COPY[:2], {0: 2, 1: 0})[0]) == []


def test_the_keys_of_ids():
    """Also of those that nothing demands."""
    found, _, _ = asked(SOURCE, [*COPY, (1, 9, "d", "x")])

    assert found.keys({0, 1, 59, 77}) == {0: "a", 1: "c", 59: "d"}


def test_keys_of_any_bytes_are_named():
    """A topic's key is read as text without being looked at; what is wrong is told all the same."""
    keys = [b"\xff\xfe\x01", "é".encode(), b"", b"plain"]
    texts = pa.Array.from_buffers(pa.string(), len(keys), pa.array(keys, pa.binary()).buffers())
    source = table([(0, number, None, "1") for number in range(len(keys))]).set_column(2, "key", texts)

    found = small.find(source, source.slice(0, 0), LINES, PROCESSED)

    assert found.expected["id"].to_pylist() == [0, 3, 6, 9]
    assert found.keys([0, 3, 6, 9]) == {0: "0xfffe01", 3: "é", 6: "", 9: "plain"}
