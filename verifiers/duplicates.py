"""Duplicates: a record that is in the log more than once.

The same id, committed and readable, at two offsets. Which of them is "the" record cannot be said: the first by partition and
offset is taken for it, and every other one counts. An id that is there three times has two records too many.

Easily confused with it: two records of the same *value* (the square of 3 and of -3), which are two records; and the retry of an
aborted transaction, whose first attempt takes offsets that no read_committed reader sees.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import Evidence, Finding
from verifiers.findings import decoded, example, first, rule

_NEAREST = 4  # copies named on either side: an id that is there a million times still makes one line


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Counts records too many; ``checked`` are the records with an id."""

    name: str = "duplicates"

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        records = decoded(evidence.observed).where("id IS NOT NULL")
        ids, checked = records.groupBy("id").count().selectExpr("count(*)", "coalesce(sum(count), 0)").collect()[0]
        count = checked - ids
        examples = tuple(example("duplicate", row, _others(row)) for row in first(_surplus(records), count))
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, {"duplicate": count}, examples, note)


def _surplus(records: DataFrame) -> DataFrame:
    """All but the first record of each id, with the places of its copies; columns added: copies, nearby."""
    in_order = "PARTITION BY id ORDER BY partition, offset"
    return records.selectExpr(
        "*",
        f"row_number() OVER ({in_order}) AS occurrence",
        "count(*) OVER (PARTITION BY id) AS copies",
        f"""collect_list(struct(partition, offset))
            OVER ({in_order} ROWS BETWEEN {_NEAREST} PRECEDING AND {_NEAREST} FOLLOWING) AS nearby""",
    ).where("occurrence > 1")


def _others(row: Row) -> str:
    """``also at offset 17, partition 2 offset 4 and 3 more``; the partition is named where it is another one."""
    others = [place for place in row["nearby"] if place != (row["partition"], row["offset"])]
    named = ", ".join(_place(place, row["partition"]) for place in others)
    more = row["copies"] - 1 - len(others)
    return f"also at {named} and {more} more" if more else f"also at {named}"


def _place(place: Row, home: int) -> str:
    return (
        f"offset {place['offset']}"
        if place["partition"] == home
        else f"partition {place['partition']} offset {place['offset']}"
    )
