"""Every mistake that a file can have has a code of its own: read from the source, where each is made."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError, field_validator

from chaos.grammar.base import Declared, Message, Mistake, WrongValueError, as_line
from chaos.grammar.error_messages import mistakes

ROOT = Path(__file__).parents[3] / "chaos"
FILES = (
    *(path for folder in ("scenario", "grammar", "faults") for path in sorted((ROOT / folder).glob("*.py"))),
    ROOT / "external" / "declaration.py",
    ROOT / "loader" / "declaration.py",
)
MAKERS = ("Message", "WrongValueError", "_about_value", "_limit")
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+){1,3}")
KNOWN_ELSEWHERE = ("code", "WRONG_VALUE")
"""Names of a code that is handed on; the call that hands it over is read, too."""


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Each call of a function with one of these names, and where it is."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield f"{path.relative_to(ROOT.parent)}:{node.lineno}", node


def codes() -> list[tuple[str, str]]:
    """Each code that is written in the source, and where."""
    found = []
    for place, call in calls(*MAKERS):
        first = call.args[0]
        if isinstance(first, ast.Constant):
            found.append((str(first.value), place))
    return found


def test_a_code_has_two_to_four_words_with_hyphens() -> None:
    """It is read in a line of a terminal, and searched for."""
    assert [place for code, place in codes() if not CODE.fullmatch(code)] == []


def test_a_code_means_one_thing() -> None:
    """Two places with the same mistake share the function that makes it, so each code is written once."""
    written = codes()
    often = {code for code, count in Counter(code for code, _ in written).items() if count > 1}

    assert len(written) > 200
    assert [(code, place) for code, place in written if code in often] == []


def test_no_message_goes_without_a_code() -> None:
    """Nor has one that is put together where it is made: it could not be searched for."""
    made = (
        (place, call.args[0])
        for place, call in calls(*MAKERS)
        if not (isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str))
    )
    handed_on = {
        place: (isinstance(first, ast.Attribute) and first.attr == "code")
        or (isinstance(first, ast.Name) and first.id in KNOWN_ELSEWHERE)
        for place, first in made
    }

    assert [place for place, is_one in handed_on.items() if not is_one] == []
    assert [place for place, _ in calls("ValueError", "PydanticCustomError")] == []


class Kept(Declared):
    how: str = ""
    many: tuple[int, ...] = ()

    @field_validator("how")
    @classmethod
    def _is_fit(cls, how: str) -> str:
        if how == "plain":
            raise ValueError("a package says this")
        assert how != "asserted"
        if how == "coded":
            raise WrongValueError("of-a-package", "a package says this")
        return how


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ({"how": "plain"}, "wrong-value"),
        ({"how": "asserted"}, "wrong-value"),
        ({"how": "coded"}, "of-a-package"),
        ({"many": ["x"]}, "int-parsing"),
        ({"hwo": "x"}, "unknown-key"),
    ],
)
def test_what_a_package_finds_has_a_code_as_well(declared: dict[str, object], code: str) -> None:
    """Its own, or one for all that have none; and what only pydantic knows has the name that pydantic gives it."""
    with pytest.raises(ValidationError) as refused:
        Kept.model_validate(declared)
    (found,) = mistakes(refused.value, Kept)

    assert found.message.code == code


def test_a_mistake_is_printed_with_its_code() -> None:
    """As mypy and ruff do: behind the text, in brackets."""
    found = Mistake(("a",), Message("not-so", "this is wrong"))

    assert as_line("f.yaml:1:2", found.message) == "f.yaml:1:2: this is wrong [not-so]"
    assert found.message == "this is wrong"
