"""Rows of our own loader's integers are judged by their keys: they need no answers, for each key is the id of its record.

That finds the same where two things are so, which are looked at; else the definition is asked, `chaos.matching.row_ids`:

    what is demanded   id ``i`` once, in partition ``i mod P``, and ids rise with their places there. A loader may have written
                       a record twice, or in another order.
    what is there      each row is demanded, with its value and in its partition. It may be there too often, or too late.

How late a row is, is counted in records here and in offsets there. They differ where markers of a loader's transactions are
between its records.
"""

from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from chaos.matching.row_ids import Numbered, Numbering, held
from verifiers.findings import decoded


def of_sink(demanded: DataFrame, partitions: int, *, anywhere: bool, otherwise: Callable[[], Numbering]) -> Numbering:
    """Which rows of the sink are expected.

    Args:
        demanded: key, value, and partition and offset of the record that demands the row.
        partitions: of the source.
        anywhere: whether a row may be in any partition of the sink.
        otherwise: what the definition says.
    """

    def number(observed: DataFrame) -> Numbered:
        try:
            rows = held(decoded(demanded))
        except (PySparkException, Py4JJavaError):  # a value that cannot be computed: the definition says which
            return otherwise()(observed)
        place = ("CAST(partition AS INT) AS partition", "value", "true AS required", "offset AS position")
        expected = rows.selectExpr("id", *place)
        if not _in_turn(rows, partitions) or not _are_right(decoded(observed), expected, anywhere=anywhere):
            return otherwise()(observed)
        return Numbered(expected)

    return number


def _in_turn(rows: DataFrame, partitions: int) -> bool:
    """Whether ids are dealt to partitions in turn, each of them once; of rows with a column ``id``."""
    before = "coalesce(lag(id) OVER (PARTITION BY partition ORDER BY offset), -1)"
    is_so = f"coalesce(id > {before} AND id % {partitions} = partition, false) AS is_so"
    return not rows.selectExpr(is_so).where("NOT is_so").take(1)


def _are_right(observed: DataFrame, expected: DataFrame, *, anywhere: bool) -> bool:
    """Whether each row is one that is demanded, whatever their number and order."""
    wanted = expected.selectExpr("id", "partition AS there", "value AS wanted")
    is_right = f"there IS NOT NULL AND value <=> wanted AND ({anywhere} OR partition = there)"
    return not observed.join(wanted, "id", "left").where(f"NOT ({is_right})").take(1)
