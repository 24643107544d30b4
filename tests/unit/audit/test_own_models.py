"""A model of the user's own, which may do anything in place of saying what a value becomes."""

import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.audit import identity as audit_identity
from chaos.audit.logs import AuditUsageError
from chaos.common import user_code
from tests.unit.wording import keep, named

MODULE = """
import os, sys
def returns(value): return {returned}
def two(a, b): return a
def does(value): {does}
five = 5
"""


@pytest.fixture
def written(monkeypatch, tmp_path):
    """Write a module into the working directory; it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text):
        monkeypatch.delitem(sys.modules, "own_model_here", raising=False)
        Path("own_model_here.py").write_text(text, encoding="utf-8")
        return "own_model_here"

    return write


def refused(name, *value):
    """The message for a model that is imported, or called with a value."""
    with pytest.raises(AuditUsageError) as raised:
        audit_identity.model(name)(*value)
    said = str(raised.value)
    assert said.startswith(f"--model {name}: ")
    assert "\n" not in said
    return said.removeprefix(f"--model {name}: ")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import sys\nsys.exit(0)", ("imported: exit(0) ", " ({}:2)")),
        ("import os\nos._exit(0)", ("imported: exit(0) ", " ({}:2)")),
        ("raise SystemExit", ("imported: exit(None) ", " ({}:1)")),
        ("def f(:", ("imported: SyntaxError: invalid syntax (own_model_here.py, line 1)",)),
        ("raise RuntimeError('a\\nb')", ("imported: RuntimeError: a b ({}:1)",)),
        ("raise BaseException", ("imported: BaseException: ({}:1)",)),
        ("import nowhere.at_all", ("imported: ModuleNotFoundError: ", "'nowhere' ({}:1)")),
        ("g = 1", ("f does not exist", " in own_model_here;")),
        ("f = 1", ("f is not a function", " in own_model_here;")),
        ("f = None", ("f does not exist", " in own_model_here;")),
    ],
)
def test_a_module_that_does_something_else(written, tmp_path, text, names):
    """None of it ends the process, or is the verdict of an audit."""
    name = f"{written(text)}:f"

    named(refused(name), *(one.format(tmp_path / "own_model_here.py") for one in names))


def test_a_module_that_never_ends(written, monkeypatch):
    monkeypatch.setattr(user_code, "WITHIN_S", 0.1)

    named(refused(f"{written('while True: pass')}:f"), "imported: ", " 0.1 s (", "own_model_here.py:1")


@pytest.mark.parametrize(("returned", "kind"), [("None", "None"), ("'x'", "type str"), ("5", "type int")])
def test_a_function_that_returns_no_column(written, returned, kind):
    said = keep(refused(f"{written(MODULE.format(returned=returned, does='pass'))}:returns", "a column"))
    assert kind in said
    assert "Column" in said


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise ValueError('no')", "failed: ValueError: no ("),
        ("sys.exit(1)", "failed: exit(1) was called ("),
        ("os._exit(1)", "failed: exit(1) was called ("),
        ("return value.nothing", "failed: AttributeError: 'str' object has no attribute 'nothing' ("),
    ],
)
def test_a_function_that_does_something_else(written, does, said):
    assert refused(f"{written(MODULE.format(returned=1, does=does))}:does", "a column").startswith(said)


def test_a_function_of_two_arguments(written):
    said = refused(f"{written(MODULE.format(returned=1, does='pass'))}:two", "a column")
    assert said.startswith("failed: TypeError: two() missing 1 required positional argument: 'b'")


def test_what_a_model_prints_is_not_the_report(written, capfd):
    """Standard output may be read by a machine: `--json -`."""
    column: Any = "a column"
    with pytest.raises(AuditUsageError):
        audit_identity.model(f"{written('print(1)' + MODULE.format(returned=1, does='print(2)'))}:does")(column)

    assert capfd.readouterr() == ("", "1\n2\n")
