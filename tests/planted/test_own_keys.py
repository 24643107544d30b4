"""Where something else identifies records, the model says nothing of keys: rows with other keys are not VALID."""

from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit import prepared
from chaos.audit.judge import judge
from tests.planted.examples import EXAMPLES
from tests.planted.log import land
from verifiers.base import Verdict

COLUMNS = "partition int, offset long, key string, value string"


@pytest.fixture
def audited(spark, tmp_path):
    """Land two logs, and audit them by what their values say; the findings by verifier."""

    def ask(source, sink, *, anywhere=False):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        for name, rows in (("source", source), ("sink", sink)):
            land(folder / name, rows, COLUMNS)
        logs = audit_logs.landed(spark, str(folder), identity="substr(value, 2)")
        found = judge(logs, prepared.by_key(logs, audit_identity.model("identity"), anywhere=anywhere))
        spark.catalog.clearCache()
        return {one.verifier: one for one in found}

    return ask


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("seed", range(max(2, EXAMPLES.max_examples // 2)))
def test_rows_with_other_keys(audited, seed, anywhere):
    """A copy is VALID; where some keys are others, and all else is right, it is UNKNOWN, with their number; lost is lost."""
    rng = Random(seed)
    keys = rng.choice([[None, "a"], ["a", "b", ""], [f"k{number}" for number in range(50)]])
    source = [(number % 2, number // 2, rng.choice(keys), f"v{rng.randrange(30)}") for number in range(60)]
    others = rng.sample(range(60), rng.choice([1, 7, 60]))
    changed = [(*row[:2], "other", row[3]) if number in others else row for number, row in enumerate(source)]

    right = audited(source, source, anywhere=anywhere)
    wrong = audited(source, changed, anywhere=anywhere)
    lost = audited(source, changed[1:], anywhere=anywhere)

    assert {one.verdict for one in right.values()} == {Verdict.VALID}
    assert {name for name, one in wrong.items() if one.verdict is Verdict.UNKNOWN} == {"values"}
    assert wrong["values"].note.startswith(f"{len(others)} rows have another key than the records that they answer")
    assert (lost["gaps"].verdict, lost["gaps"].count, lost["values"].note) == (Verdict.INVALID, 1, "")
