"""Details of a record that went wrong: a template, and the facts in it. Only this module turns both into words.

A fact stays a fact until it is printed, so a later module can add what it knows: the key of a record that has a number here
(`chaos.matching.row_ids`), the topic of a partition (`chaos.audit.judge`), the place of a row in a table. Nothing parses words.

    Detail("also at {others}; cause: {cause}", {"others": (Place(17), Place(4, partition=2)), "cause": "other partition"})
    also at offset 17, partition 2 offset 4; cause: other partition
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, Union, cast

R = TypeVar("R", bound="Record | Place | Partition | Key | Producer")
Side = Literal["", "source"]


@dataclass(frozen=True, slots=True)
class Record:
    """One or more records in one phrase.

    Attributes:
        keys: their keys, if people know the records by these; None if by their ids.
    """

    ids: tuple[int, ...]
    keys: tuple[str, ...] | None = None

    def __str__(self) -> str:
        kind, names = ("id", map(str, self.ids)) if self.keys is None else ("key", iter(self.keys))
        return f"{kind} {' and '.join(names)}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a log.

    Attributes:
        side: ``source`` for a partition of the source; "" for one of the log that is judged.
        topic: its topic, if logs of several topics are judged as one.
    """

    number: int
    side: Side = ""
    topic: str = ""

    def __str__(self) -> str:
        if self.topic:
            return f"partition {self.number} of {self.topic}"
        return f"{self.side} partition {self.number}".lstrip()


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a log, or in a table.

    Attributes:
        partition: None if it is the example's own.
        name: of a place in a table, its file and version for example.
    """

    offset: int
    partition: Partition | None = None
    name: str = ""

    def __str__(self) -> str:
        there = self.name or f"offset {self.offset}"
        return there if self.partition is None else f"{self.partition} {there}"


@dataclass(frozen=True, slots=True)
class Key:
    """The key at a place where another record was expected: an id, until it is replaced by the key; None for null."""

    text: str | None

    def __str__(self) -> str:
        return repr(self.text)


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer, by id and epoch (KIP-98)."""

    id: int
    epoch: int

    def __str__(self) -> str:
        return f"producer {self.id} epoch {self.epoch}"


Fact = Union[Record, Partition, Place, Key, Producer, "Detail", int, float, str]
Facts = Fact | tuple[Fact, ...]
Wording = Union["Detail", str]
"""A template with its facts, or plain words without any."""


@dataclass(frozen=True, slots=True)
class Detail:
    """A template with a name in braces for each fact; commas join several facts of one name."""

    template: str
    facts: Mapping[str, Facts] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format_map({name: _words(fact) for name, fact in self.facts.items()})

    def __bool__(self) -> bool:
        return bool(self.template)

    def __add__(self, more: "Detail") -> "Detail":
        return Detail(self.template + more.template, {**self.facts, **more.facts})

    def of_kind(self, kind: type[R]) -> Iterator[R]:
        """Return the facts of a kind, also those inside other facts."""
        found: list[R] = []

        def note(one: R) -> R:
            found.append(one)
            return one

        self.replaced(kind, note)
        return iter(found)

    def replaced(self, kind: type[R], by: Callable[[R], R]) -> "Detail":
        """Replace the facts of a kind, also those inside other facts."""

        def one(fact: Fact) -> Fact:
            if isinstance(fact, kind):
                return by(fact)
            if isinstance(fact, Detail):
                return fact.replaced(kind, by)
            if isinstance(fact, Place) and isinstance(fact.partition, kind):
                return replace(fact, partition=cast("Partition", by(fact.partition)))
            return fact

        facts = {name: tuple(map(one, fact)) if isinstance(fact, tuple) else one(fact) for name, fact in self.facts.items()}
        return replace(self, facts=facts)


def joined(parts: Iterable[Wording], by: str = "; ") -> Wording:
    """Join the parts that are not empty."""
    told = [part for part in parts if part]
    if not any(isinstance(part, Detail) for part in told):
        return by.join(map(str, told))
    facts = {f"part_{number}": part for number, part in enumerate(told)}
    return told[0] if len(told) == 1 else Detail(by.join(f"{{{name}}}" for name in facts), facts)


def replaced(said: Wording, kind: type[R], by: Callable[[R], R]) -> Wording:
    """Apply `Detail.replaced`; plain words stay."""
    return said.replaced(kind, by) if isinstance(said, Detail) else said


def _words(fact: Facts) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)
