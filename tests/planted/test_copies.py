"""A sink that is a copy is known to be one without a shuffle; anything else is not."""

from dataclasses import replace

import pytest

from chaos.audit import copies
from verifiers.single_scan.groups import Limits

COLUMNS = "partition int, offset long, key string, value string"
SOURCE = [(number % 2, number // 2, f"k{number % 3}", None if number == 4 else str(number)) for number in range(20)]
COPY = [(partition, offset + offset // 3, key, value) for partition, offset, key, value in SOURCE]
LAST = COPY[-1]


@pytest.mark.parametrize(
    ("source", "sink", "records"),
    [
        pytest.param(SOURCE, COPY, 20, id="a copy with markers"),
        pytest.param(SOURCE, COPY[::-1], 20, id="in files of another order"),
        pytest.param(SOURCE, COPY[:-1], 0, id="the last is missing"),
        pytest.param(SOURCE, [*COPY, (1, 99, "k1", "x")], 0, id="one more"),
        pytest.param(SOURCE, [*COPY, (2, 0, "k1", "x")], 0, id="one more in a partition of its own"),
        pytest.param(SOURCE, [*COPY[:-1], (*LAST[:3], "x")], 0, id="another value"),
        pytest.param(SOURCE, [*COPY[:-1], (*LAST[:2], "x", LAST[3])], 0, id="another key"),
        pytest.param(SOURCE, [(*row[:3], row[3] or "") for row in COPY], 0, id="an empty value for none"),
        pytest.param(SOURCE, [(1 - row[0], *row[1:]) for row in COPY], 0, id="in other partitions"),
        pytest.param(SOURCE, [(row[0], 99 - row[1], *row[2:]) for row in COPY], 0, id="in another order"),
        pytest.param([*SOURCE, SOURCE[-1]], [*COPY, LAST], 0, id="landed twice"),
        pytest.param([*SOURCE, (0, 50, None, "x")], [*COPY, (0, 50, None, "x")], 0, id="without a key"),
    ],
)
@pytest.mark.parametrize("most", [3, 1000])
def test_what_is_a_copy(spark, source, sink, records, most):
    """However the logs are cut into pieces."""
    logs = (spark.createDataFrame(rows, COLUMNS) for rows in (source, sink))

    assert copies.records(*logs, replace(Limits(), most_rows=most)) == records
