"""What is said of a record that went wrong: a template, and the facts that stand in it. Only this module puts both into words.

A fact stays one until it is printed, so whoever knows more of it says so: the key of a record that has a number here
(`chaos.matching.row_ids`), the topic of a partition (`chaos.audit.judge`), the place of a row in a table. Nothing reads words.

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
    """One or more records that stand in one phrase, by their ids.

    Attributes:
        key: what people know each of them by, where that is not its id; None where it is.
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
        side: ``source`` where it is one of the source, else of the log that is judged.
        topic: which one it is of, where logs of several topics are judged as one.
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
        partition: None where it is that of the example.
        name: of a place in a table: its file and version, say.
    """

    offset: int
    partition: Partition | None = None
    name: str = ""

    def __str__(self) -> str:
        there = self.name or f"offset {self.offset}"
        return there if self.partition is None else f"{self.partition} {there}"


@dataclass(frozen=True, slots=True)
class Key:
    """The key that a place holds, where another record was expected: an id, until somebody knows better; None for null."""

    text: str | None

    def __str__(self) -> str:
        return repr(self.text)


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer that wrote something (KIP-98)."""

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
    """A template with a name in braces for each fact; of several facts in one place the words are joined by commas."""

    template: str
    facts: Mapping[str, Facts] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format_map({name: _words(fact) for name, fact in self.facts.items()})

    def __bool__(self) -> bool:
        return bool(self.template)

    def __add__(self, more: "Detail") -> "Detail":
        return Detail(self.template + more.template, {**self.facts, **more.facts})

    def of_kind(self, kind: type[R]) -> Iterator[R]:
        """The facts of a kind, also those within others."""
        found: list[R] = []

        def note(one: R) -> R:
            found.append(one)
            return one

        self.replaced(kind, note)
        return iter(found)

    def replaced(self, kind: type[R], by: Callable[[R], R]) -> "Detail":
        """The same, with facts of a kind replaced by those that say more."""

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
    """What is said of these, one after the other; what is empty is left out."""
    told = [part for part in parts if part]
    if not any(isinstance(part, Detail) for part in told):
        return by.join(map(str, told))
    facts = {f"part_{number}": part for number, part in enumerate(told)}
    return told[0] if len(told) == 1 else Detail(by.join(f"{{{name}}}" for name in facts), facts)


def replaced(said: Wording, kind: type[R], by: Callable[[R], R]) -> Wording:
    """`Detail.replaced`; plain words stay."""
    return said.replaced(kind, by) if isinstance(said, Detail) else said


def _words(fact: Facts) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)
