"""Match the rows of the sink with the demanded records, which may recur: both are multisets.

A row answers a record of its key and compared columns; else, if no record of its key has these columns, it answers one of its
key, and is wrong. Each record is answered once, and the k-th of several equal rows answers the k-th equal record. A row that
is left over is one too many, or a phantom if no record has its key. This is the definition of `chaos.matching.answers` where a
record may be in any partition, in windows instead of joins, so that rows are shuffled once, by their keys.

A row does not show which of several equal records it answers. Only its order depends on that; so the order of these is not
known:

    there too often or too rarely   any of them may be the one too many, or the one that is missing
    wrong                           and its key recurs: the row may stand in the place of any of its records
    in several groups               or the answers of records in several
"""

from pyspark.sql import DataFrame

from verifiers.frames import sums
from verifiers.frames.question import Question

RIGHT, SURPLUS, CHANGED, PHANTOM, NO_KEY = "right", "surplus", "changed", "phantom", "no key"
_RECORD = "IF(mine, struct(g, n, v), NULL)"
_FIRST = "min(IF(mine, struct(n, g, v), NULL))"  # the position first, as in ids: offset * lines + partition


def matched(question: Question, rows: DataFrame) -> DataFrame:
    """Match all rows of their keys.

    Args:
        rows: as `verifiers.frames.sums.both` has them.

    Returns:
        These rows, and columns added to them:

        part string: of a record ``there`` or ``free``, of a row one of the constants here;
        lost, again boolean: whether the record has no answer, the row is one too many;
        demanded, there long: records and rows with this key and these columns; of_key long: records with this key;
        answer struct<g, n, v>: the record that a row answers; null if there is none;
        doubtful boolean: whether the order of the row is not known.
    """
    numbered = rows.repartition("k").selectExpr(
        "*",
        "row_number() OVER (PARTITION BY k, v, mine ORDER BY g, n) AS nth",
        "count(IF(mine, 1, NULL)) OVER (PARTITION BY k, v) AS demanded",
        "count(IF(mine, NULL, 1)) OVER (PARTITION BY k, v) AS there",
        "count(IF(mine, 1, NULL)) OVER (PARTITION BY k) AS of_key",
    )
    parted = numbered.selectExpr(
        "*",
        f"""CASE WHEN mine THEN IF(nth <= there, 'there', 'free')
                 WHEN {sums.unnamed(question)} THEN '{NO_KEY}'
                 WHEN nth <= demanded THEN '{RIGHT}'
                 WHEN demanded > 0 THEN '{SURPLUS}'
                 WHEN of_key > 0 THEN '{CHANGED}'
                 ELSE '{PHANTOM}' END AS part""",
    )
    taken = parted.selectExpr(
        "*",
        f"part IN ('free', '{CHANGED}') AS open",
        "row_number() OVER (PARTITION BY k, part ORDER BY g, n, v) AS turn",
        "count(IF(part = 'free', 1, NULL)) OVER (PARTITION BY k) AS frees",
        f"count(IF(part = '{CHANGED}', 1, NULL)) OVER (PARTITION BY k) AS changes",
    )
    answered = taken.selectExpr(
        "*",
        "part = 'free' AND turn > changes AS lost",
        f"part = '{SURPLUS}' OR (part = '{CHANGED}' AND turn > frees) OR (part = '{PHANTOM}' AND turn > 1) AS again",
        f"max({_RECORD}) OVER (PARTITION BY k, v, nth) AS exact",
        f"max(IF(open, {_RECORD}, NULL)) OVER (PARTITION BY k, open, turn) AS taken",
        f"{_FIRST} OVER (PARTITION BY k, v, g) AS first_here",
        f"{_FIRST} OVER (PARTITION BY k, v) AS first_alike",
        f"{_FIRST} OVER (PARTITION BY k) AS first_of_key",
    ).selectExpr(
        "*",
        f"""CASE part WHEN '{RIGHT}' THEN exact
                      WHEN '{SURPLUS}' THEN {_placed("coalesce(first_here, first_alike)")}
                      WHEN '{CHANGED}' THEN IF(turn <= frees, taken, {_placed("first_of_key")}) END AS answer""",
    )
    rows_alike = "OVER (PARTITION BY k, v)"
    spread = " OR ".join(
        f"min(IF(mine, NULL, {one})) {rows_alike} < max(IF(mine, NULL, {one})) {rows_alike}" for one in ("g", "answer.g")
    )
    odd = f"demanded > 1 AND (there > demanded OR max(lost) {rows_alike})"
    return answered.selectExpr(
        "*", f"coalesce(({odd}) OR (part = '{CHANGED}' AND of_key > 1) OR ({spread}), false) AS doubtful"
    ).drop("nth", "open", "exact", "taken", "first_here", "first_alike", "first_of_key")


def equal(rows: DataFrame) -> DataFrame:
    """Match rows of buckets that are equal: each row answers a record, and only the order is open.

    Returns:
        Rows of the sink with the columns answer and doubtful, as `matched` has them.
    """
    alike = (
        rows.drop("v")
        .repartition("k")
        .selectExpr("*", "row_number() OVER (PARTITION BY k, wide, narrow, mine ORDER BY g, n) AS nth")
    )
    answered = alike.selectExpr(
        "*", "max(IF(mine, struct(g, n), NULL)) OVER (PARTITION BY k, wide, narrow, nth) AS answer"
    ).where("NOT mine")
    spread = " OR ".join(
        f"min({one}) OVER (PARTITION BY k, wide, narrow) < max({one}) OVER (PARTITION BY k, wide, narrow)"
        for one in ("g", "answer.g")
    )
    return answered.selectExpr("*", f"coalesce({spread}, false) AS doubtful")


def repeated(question: Question) -> DataFrame:
    """Select the demanded rows that equal an earlier one, with the columns of their frame."""
    numbered = question.ours.selectExpr("row", "row_number() OVER (PARTITION BY k, v ORDER BY g, n) AS nth")
    return numbered.where("nth > 1").select("row.*")


def _placed(first: str) -> str:
    """SQL: a first record in the form of the others."""
    return f"IF({first} IS NULL, NULL, struct({first}.g AS g, {first}.n AS n, {first}.v AS v))"
