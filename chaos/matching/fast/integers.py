"""Judge the integers of our own loader by their keys: they need no matching, since each key is the id of its record.

The result is the same under two conditions, which are checked; else the definition applies, `chaos.matching.row_ids`:

    demanded   id ``i`` once, in partition ``i mod P``, and ids rise with their places there. A loader may have written a record
               twice, or in another order.
    observed   each row is demanded, with its value and in its partition. It may be there too often, or too late.

The lateness of a row is counted in records here and in offsets there. They differ if markers of a loader's transactions lie
between its records.
"""

from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from chaos.matching.row_ids import Numbered, Numbering, held
from verifiers.findings import decoded


def of_sink(demanded: DataFrame, partitions: int, *, anywhere: bool, otherwise: Callable[[], Numbering]) -> Numbering:
    """Make the numbering of the sink.

    Args:
        demanded: key, value, and partition and offset of the record that demands the row.
        partitions: of the source.
        anywhere: whether a row may be in any partition of the sink.
        otherwise: the numbering by the definition.
    """

    def number(observed: DataFrame) -> Numbered:
        try:
            rows = held(decoded(demanded))
        except (PySparkException, Py4JJavaError):  # a value cannot be computed: the definition names it
            return otherwise()(observed)
        place = ("CAST(partition AS INT) AS partition", "value", "true AS required", "offset AS position")
        expected = rows.selectExpr("id", *place)
        if not _in_turn(rows, partitions) or not _are_right(decoded(observed), expected, anywhere=anywhere):
            return otherwise()(observed)
        return Numbered(expected)

    return number


def _in_turn(rows: DataFrame, partitions: int) -> bool:
    """Whether partitions have the ids in turn, each of them once; the rows have a column ``id``."""
    before = "coalesce(lag(id) OVER (PARTITION BY partition ORDER BY offset), -1)"
    is_so = f"coalesce(id > {before} AND id % {partitions} = partition, false) AS is_so"
    return not rows.selectExpr(is_so).where("NOT is_so").take(1)


def _are_right(observed: DataFrame, expected: DataFrame, *, anywhere: bool) -> bool:
    """Whether each row is demanded, whatever their number and order."""
    wanted = expected.selectExpr("id", "partition AS there", "value AS wanted")
    is_right = f"there IS NOT NULL AND value <=> wanted AND ({anywhere} OR partition = there)"
    return not observed.join(wanted, "id", "left").where(f"NOT ({is_right})").take(1)
