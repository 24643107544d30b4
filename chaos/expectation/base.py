"""Shared parts of models: their error, and the views of topics that they read."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from chaos.common.errors import one_line
from verifiers import arrow, evidence

Views = Mapping[str, DataFrame]
"""Name of a topic -> its records, with the columns of `COLUMNS`."""
Hold = Callable[[DataFrame], DataFrame]
"""Computes rows once, and keeps them."""
IsApart = Callable[[DataFrame], bool]
"""Whether it is certain that no two of these rows share a place; if it is not, they are counted by place."""
COLUMNS = {"key": "string", "value": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}
LONGEST = 300
NOWHERE = tuple(f"CAST(NULL AS BIGINT) AS {name}" for name in ("partition", "offset"))
"""SQL: the place of a row that no single record demands."""


class ModelError(Exception):
    """The expected rows cannot be determined; the message says why, and what to do.

    Attributes:
        of_identity: whether the identity is wrong, rather than the model.
    """

    def __init__(self, message: str, *, of_identity: bool = False) -> None:
        super().__init__(message)
        self.of_identity = of_identity


@contextmanager
def told(key: str = "", sources: Views | None = None, columns: Sequence[str] = ()) -> Iterator[None]:
    """Turn an error of Spark into a ModelError of one line, which lists the names that exist."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
        lines = said.strip().splitlines() or ["Spark failed"]
        place = re.search(r"\(line \d+, pos \d+\)", said)
        reason = one_line(lines[0] + (f" {place[0]}" if place and place[0] not in lines[0] else ""), LONGEST)
        names = columns or (("key", "value") if key == "identity" else tuple(COLUMNS))
        views = f" The views are {', '.join(sources)}," if sources else ""
        there = f"{views}{' with the' if views else ' The'} columns {', '.join(names)}." if key else ""
        raise ModelError(f"{reason}{there}", of_identity=key == "identity") from error


def view(records: DataFrame) -> DataFrame:
    """Select the columns that a query sees from a landed topic (`verifiers.evidence.OBSERVED`)."""
    return records.selectExpr("key", "value", "partition", "offset", "timestamp_millis(timestamp_ms) AS timestamp")


def nothing(spark: SparkSession) -> DataFrame:
    """Return a topic without records."""
    return view(arrow.made(spark, [], evidence.OBSERVED))


def all_of(sources: Views) -> DataFrame:
    """Unite the records of all topics."""
    return reduce(DataFrame.unionByName, sources.values())
