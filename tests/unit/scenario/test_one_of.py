"""Mappings that are of a kind by one of their keys: how a kind gets into the grammar, and where it is told what is wrong."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Annotated, ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError, create_model

from chaos.grammar.base import Declared, Message
from chaos.grammar.error_messages import mistakes
from chaos.scenario import sinks
from chaos.scenario.docstrings import meaning
from chaos.scenario.one_of import KindByKey, OneOf

OURS = "chaos.scenario.sinks"


class Apple(KindByKey):
    """An apple."""

    MISPLACED: ClassVar = {"peeled": Message("peeled-other", "only apples are peeled; leave it out")}

    apple: str
    """which sort."""
    peeled: bool = False
    """of an apple: whether it is."""


class Pears(KindByKey):
    """Pears."""

    pears: int
    """how many."""


FRUIT = OneOf((Apple, Pears), "Fruit", "What is eaten", ("not-one-fruit", "a fruit is one of"))
BASKET = create_model("Basket", __base__=Declared, fruit=(Annotated[Apple | Pears, FRUIT], ...))


def wrong(fruit: object) -> list[tuple[tuple[str | int, ...], str, str]]:
    """Place, code and text of each error."""
    with pytest.raises(ValidationError) as caught:
        BASKET.model_validate({"fruit": fruit})
    return [(one.location, one.message.code, str(one.message)) for one in mistakes(caught.value, BASKET)]


def test_a_key_says_what_kind_it_is() -> None:
    """The object is of that class, and has its keys only; what is read again is the same."""
    basket = BASKET.model_validate({"fruit": {"apple": "cox", "pears": None}})

    assert basket.fruit == Apple(apple="cox")
    assert basket.model_dump() == {"fruit": {"apple": "cox", "peeled": False}}
    assert BASKET.model_validate(basket.model_dump()) == BASKET(fruit=basket.fruit) == basket


def test_what_is_wrong_is_told_of_the_mapping_as_it_is_written() -> None:
    """And not of each kind that it might have been."""
    assert wrong({"peers": 2}) == [(("fruit", "peers"), "unknown-key", "'peers' is not known here (did you mean pears?)")]
    assert wrong({"pears": "a"})[0][0] == ("fruit", "pears")
    assert [place for place, *_ in wrong(7)] == [("fruit",)]
    said = "a fruit is one of apple and pears, but this has {}; write one of them"
    assert wrong({}) == [(("fruit",), "not-one-fruit", said.format("none of them"))]
    assert wrong({"pears": 2, "apple": "cox"}) == [(("fruit",), "not-one-fruit", said.format("apple and pears"))]
    assert wrong({"pears": 2, "peeled": True}) == [(("fruit",), "peeled-other", "only apples are peeled; leave it out")]


def test_the_schema_has_the_keys_of_all_kinds() -> None:
    """Those that name a kind come first."""
    schema = TypeAdapter(Annotated[Apple | Pears, FRUIT]).json_schema()

    assert list(schema["properties"]) == ["apple", "pears", "peeled"]
    assert FRUIT.whole.__doc__ == "What is eaten: one of ``apple`` and ``pears``."
    assert [meaning(FRUIT.whole, key) for key in schema["properties"]] == [
        "which sort.",
        "how many.",
        "of an apple: whether it is.",
    ]


def test_a_kind_of_sink_gets_into_the_grammar_by_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found in its file, wherever in the list of kinds its name belongs."""
    text = '''
        from typing import ClassVar
        from chaos.scenario.sinks.base import Place, TableSink

        class HudiTable(TableSink):
            """A table of Hudi."""

            FORMAT: ClassVar[str] = "hudi"
            hudi: Place
            """its path."""
        '''
    (tmp_path / "hudi.py").write_text(dedent(text), encoding="utf-8")
    monkeypatch.setattr(sinks, "__path__", [*sinks.__path__, str(tmp_path)])

    found = sinks.kinds()

    del sys.modules[f"{OURS}.hudi"]
    names = [kind.key() for kind in found]
    assert names == ["topic", "parquet", "delta", "hudi", "iceberg", "jdbc", "python", "reader"]
    hudi = found[names.index("hudi")](hudi="{folder}/a")
    assert hudi.of_run({"folder": "/run"}).spec["place"] == "/run/a"
    assert hudi.spoken == "a table of hudi"
    assert OneOf(found, "Sink", "What is written", ("a", "b")).whole.model_validate({"hudi": "{folder}/a"}).hudi == "{folder}/a"
