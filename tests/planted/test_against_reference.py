"""Random damage, judged twice: by Spark, and by plain Python that follows the definitions word by word."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.planted.log import BEGAN_MS, Expected, Log, Record, clean
from verifiers import VERIFIERS

PARTITIONS = 3
KEYS = st.one_of(st.integers(0, 35).map(str), st.sampled_from([None, "", "007", "-1", "x"]))
WRITES = st.tuples(st.integers(0, PARTITIONS - 1), KEYS, st.sampled_from(["right", "right", "wrong", None]))


@st.composite
def damaged(draw: st.DrawFn) -> Log:
    """Records left out, and anything written anywhere in between, at offsets with holes."""
    log = clean(30, PARTITIONS)
    left_out = draw(st.sets(st.integers(0, 29), max_size=6))
    writes = [(one.partition, one.key, one.value) for one in log.without(*left_out).observed]
    for partition, key, value in draw(st.lists(WRITES, max_size=8)):
        right = str(int(key) ** 2) if value == "right" and key and key.isdigit() else value
        writes.insert(draw(st.integers(0, len(writes))), (partition, key, right))
    step = draw(st.integers(1, 3))
    observed = tuple(Record(home, step * place, BEGAN_MS, key, value) for place, (home, key, value) in enumerate(writes))
    unknown = draw(st.sets(st.integers(0, 29), max_size=6))
    positions = {home: draw(st.integers(0, 10)) for home in range(PARTITIONS)}
    return replace(log.demanding(*unknown, required=False), observed=observed, positions=positions)


def reference(log: Log) -> Mapping[str, Mapping[str, int]]:
    """Verifier -> its counts."""
    expected = {row.id: row for row in log.expected}
    decoded = [(record, _id(record.key)) for record in log.observed]
    ids = Counter(id_ for _, id_ in decoded if id_ is not None)
    highest: dict[tuple[int, int], int] = defaultdict(int)
    inversions = 0
    for record, id_ in sorted(decoded, key=lambda pair: pair[0].offset):
        if id_ is not None:
            number, line = id_ // PARTITIONS, (record.partition, id_ % PARTITIONS)
            inversions += number < highest[line]
            highest[line] = max(highest[line], number)
    gaps = Counter(_gap(row, row.id in ids, log.positions) for row in log.expected)
    values = Counter(_value(record, id_, expected) for record, id_ in decoded)
    return {
        "duplicates": {"duplicate": sum(ids.values()) - len(ids)},
        "gaps": {kind: gaps[kind] for kind in ("lost", "pending", "recovered", "absent")},
        "ordering": {"inversion": inversions},
        "values": {kind: values[kind] for kind in ("wrong value", "phantom", "misrouted", "undecodable")},
    }


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(log=damaged())
def test_counts_are_those_of_the_definitions(spark: SparkSession, log: Log) -> None:
    """Whatever the damage, each anomaly is counted as often as its definition says."""
    evidence = log.evidence(spark)

    assert {name: dict(verifier.check(evidence).counts) for name, verifier in VERIFIERS.items()} == reference(log)


def _id(key: str | None) -> int | None:
    return int(key) if key and key.isdigit() and key == str(int(key)) else None


def _gap(row: Expected, there: bool, positions: Mapping[int, int]) -> str:  # noqa: FBT001 - a truth table
    if not row.required:
        return "recovered" if there else "absent"
    return "there" if there else "lost" if row.position < positions[row.partition] else "pending"


def _value(record: Record, id_: int | None, expected: Mapping[int, Expected]) -> str:
    if id_ is None:
        return "undecodable"
    if id_ not in expected:
        return "phantom"
    if record.value != expected[id_].value:
        return "wrong value"
    return "right" if record.partition == expected[id_].partition else "misrouted"
