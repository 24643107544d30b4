"""No query may use a frame up to UNBOUNDED FOLLOWING: Spark builds it anew for each row, in n² steps."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted(path for folder in ("chaos", "verifiers") for path in (ROOT / folder).rglob("*.py"))


def texts(source):
    """The text constants of a module, without those that stand alone, which are docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_no_frame_ends_at_the_end_of_its_partition(path):
    """Spark has no other way to compute one; ordered the other way round, it begins there, and costs a sort."""
    assert [text for text in texts(path.read_text(encoding="utf-8")) if "AND UNBOUNDED FOLLOWING" in str(text)] == []


def test_such_a_frame_is_seen():
    assert texts('"""AND UNBOUNDED FOLLOWING"""\nx = f"{a} AND UNBOUNDED FOLLOWING)"')[0].startswith(" AND UNBOUNDED")
