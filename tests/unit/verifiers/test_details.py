"""Descriptions of records: facts stay facts until this module puts them into words."""

from dataclasses import replace

import pytest

from verifiers.base import Example
from verifiers.details import Detail, Key, Partition, Place, Producer, Record, joined, replaced

TWICE = Detail(
    "also at {others}; cause: replay ({again} as well)",
    {"others": (Place(17), Place(4, Partition(2))), "again": Record((9, 15))},
)


def test_facts_are_put_into_words() -> None:
    """The partition is named where it is another one."""
    assert str(TWICE) == "also at offset 17, partition 2 offset 4; cause: replay (id 9 and 15 as well)"


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Record((9,), ("ann",)), "key ann"),
        (Partition(3, "source"), "source partition 3"),
        (Partition(0, topic="orders"), "partition 0 of orders"),
        (Place(5, Partition(1), name="version 2, file part-0"), "partition 1 version 2, file part-0"),
        (Key("ann"), "'ann'"),
        (Key(None), "None"),
        (Producer(7, 2), "producer 7 epoch 2"),
        ("{value}", "{value}"),
    ],
)
def test_a_fact_has_its_words(fact: Record | Partition | Place | Key | Producer | str, words: str) -> None:
    """A text of a user is never read as a template."""
    assert str(Detail("{it}", {"it": fact})) == words


def test_whoever_knows_more_of_a_fact_says_so() -> None:
    """Also of those within others; what is of another kind stays."""

    def topic(one: Partition) -> Partition:
        return replace(one, topic="orders")

    known = TWICE.replaced(Partition, topic).replaced(Record, lambda one: replace(one, keys=("ann", "eve")))

    assert str(known) == "also at offset 17, partition 2 of orders offset 4; cause: replay (key ann and eve as well)"
    assert [one.number for one in TWICE.of_kind(Partition)] == [2]
    assert list(TWICE.of_kind(Key)) == []


def test_what_is_said_is_joined() -> None:
    """Empty parts are left out; facts stay facts, even when they are joined again."""
    both = joined(("", "it recurs {at}", Detail("in {where}", {"where": Partition(2)})))

    assert str(joined(("first", both))) == "first; it recurs {at}; in partition 2"
    assert str(replaced(both, Partition, lambda one: replace(one, topic="t"))) == "it recurs {at}; in partition 2 of t"
    assert joined(("", "one", "two")) == "one; two"
    assert joined(("", Detail("alone"))) == Detail("alone")
    assert joined(("", Detail(""))) == ""


def test_an_example_is_written_with_words_and_facts() -> None:
    """So a report can be read by people and by programs."""
    written = Example("duplicate", 0, 18, 9, None, TWICE, topic="orders").to_json()

    assert written["detail"] == str(TWICE)
    assert written["said"]["template"] == TWICE.template
    assert written["said"]["facts"]["again"] == {"ids": (9, 15), "keys": None}
    assert "said" not in Example("duplicate", 0, 18, 9, None, "plain").to_json()
