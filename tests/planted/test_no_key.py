"""No key, an empty one, and texts that read like none are different keys; so are values, and keys with an identity."""

from itertools import product
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from chaos.audit import logs as audit_logs
from chaos.audit import query as audit_expected
from chaos.audit.judge import judge
from chaos.matching import row_ids
from tests.planted.examples import EXAMPLES
from tests.planted.log import land, table
from verifiers import arrow
from verifiers.base import Verdict

COLUMNS = "partition int, offset long, key string, value string"
KEYS = [None, "", "0x", "0x\0", "0x\0\0", "0x30", "0x []", "0x [a]", "null", "a", "a [a]", "a \0[a]", "a\0", " ", "NULL"]
VALUES = [None, "", "0x", "null", " ", "a]", "\0"]
FORMS = {
    "by places": ("SELECT key, value, partition, offset FROM source", ""),
    "without places": ("SELECT key, value FROM source", ""),
    "an identity": (
        "SELECT key, value, partition, offset FROM source",
        "concat(key, ' [', value)",
    ),
}


@pytest.fixture
def audited(spark, tmp_path):
    """Land two logs, and audit them by a query; the findings by verifier."""

    def ask(source, sink, query, identity):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        for name, rows in (("source", source), ("sink", sink)):
            land(folder / name, rows, COLUMNS)
        logs = audit_logs.landed(spark, str(folder))
        found = judge(logs, audit_expected.by_model(logs, audit_expected.model(query, identity), anywhere=False))
        spark.catalog.clearCache()
        return {one.verifier: one for one in found}

    return ask


def placed(rows):
    """One partition, from offset 0 on."""
    return [(0, offset, key, value) for offset, (key, value) in enumerate(rows)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(max(2, EXAMPLES.max_examples // 2)))
def test_one_row_has_another_key_or_value(audited, form, seed):
    """A copy is VALID; with one key, or value, in place of another that reads like it the same sink is INVALID."""
    rng = Random(f"{form} {seed}")
    rows = [(rng.choice(KEYS), rng.choice(VALUES)) for _ in range(rng.choice([1, 5, 40]))]
    at = rng.randrange(len(rows))
    changed = list(rows)
    if seed % 2:
        changed[at] = (rows[at][0], rng.choice([value for value in VALUES if value != rows[at][1]]))
    else:
        changed[at] = (rng.choice([key for key in KEYS if key != rows[at][0]]), rows[at][1])

    right = audited(placed(rows), placed(rows), *FORMS[form])
    wrong = audited(placed(rows), placed(changed), *FORMS[form])

    assert {one.verdict for one in right.values()} == {Verdict.VALID}
    assert max(one.verdict for one in wrong.values()) is Verdict.INVALID


@pytest.mark.parametrize("identity", ["", "value"])
def test_all_keys_are_different(spark, identity):
    """Also with an identity behind them; what people read is the key as it was, and null for none."""
    rows = [(0, 0, key, value) for key, value in product(KEYS, VALUES[1:] if identity else VALUES[:1])]
    keyed = row_ids.keyed(arrow.frame(spark, table(rows, COLUMNS)), identity).select("key", "value")
    found = [row["key"] for row in keyed.collect()]

    behind = (f" [{value}]" if identity else "" for _, _, _, value in rows)
    shown = [("null" if key is None else key) + end for (_, _, key, _), end in zip(rows, behind, strict=True)]
    assert None not in found
    assert len(set(found)) == len(rows)
    assert [row_ids._shown(key).replace("\0", "") for key in found] == [text.replace("\0", "") for text in shown]
