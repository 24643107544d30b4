"""Turn the rows of a table, which the job's own Spark has landed, into evidence that is judged like a log.

A table has no offsets: its rows are numbered by time and place, in a partition of their own. They are judged as a multiset, so
these numbers decide nothing; findings name the file and the version of the table instead.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from chaos.common.errors import InconclusiveError
from chaos.contract.read_table import ABOUT, ROWS
from chaos.matching.demanded import Columns
from chaos.matching.row_ids import Numbering
from chaos.scenario.sinks import TableSink
from verifiers import evidence
from verifiers.base import Bounds, Evidence

_LANDED = "key string, value string, place string, timestamp_ms bigint"
_NUMBER = "row_number() OVER (ORDER BY timestamp_ms, place, value, key) - 1"


@dataclass(frozen=True, slots=True)
class Landed:
    """The landed rows of a table.

    Attributes:
        rows: a folder, with key string, value string, place string and timestamp_ms long.
        columns: of the table.
        version: the version that was read, in words.
        count: number of rows.
    """

    rows: Path
    columns: Columns
    version: str
    count: int


def read(place: Path, table: TableSink) -> Landed:
    """Load the folder of a reading.

    Raises:
        InconclusiveError: the table could not be read; the message says what to mend.
    """
    about: Mapping[str, Any] = json.loads((place / ABOUT).read_text(encoding="utf-8"))
    if "problem" in about:
        raise InconclusiveError(f"pipeline, sink, {table.kind}: {about['problem']}; {table.mend(about['kind'])}")
    columns = tuple((str(name), str(kind)) for name, kind in about["columns"])
    return Landed(place / ROWS, columns, str(about["version"]), int(about["rows"]))


def land(
    spark: SparkSession,
    found: Landed,
    number: Numbering,
    folder: Path,
    positions: Mapping[int, int],
    source_partitions: int,
    verify: Collection[str] = (),
) -> None:
    """Write the evidence of the sink.

    Args:
        number: finds the expected rows, and their answers.
        folder: of all evidence.
    """
    rows = spark.read.schema(_LANDED).parquet(str(found.rows))
    numbered = rows.selectExpr(
        "0 AS partition", f"CAST({_NUMBER} AS BIGINT) AS offset", "timestamp_ms", "key", "value", "place"
    )
    held = numbered.localCheckpoint()
    observed = held.select(*evidence.OBSERVED)
    answered = number(observed)
    views = {name: view for name, view in answered.views.items() if name != "ledger" or name in verify}
    one = Evidence(
        "sink",
        answered.expected,
        observed,
        {0: Bounds(0, found.count, found.count)},
        positions,
        **views,
        places=held.select(*evidence.PLACES),
        anywhere=True,
        source_partitions=source_partitions,
        unordered=answered.unordered,
        unsaid=answered.unsaid,
        ended=False,
        state=answered.state,
    )
    evidence.write(folder, one)
