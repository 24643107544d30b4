"""A partition of the network, by its shape.

=======  =====================================================================================================
isolate  one broker (`target`) is parted from its peers, from clients, or from all (`from`)
split    groups of brokers that do not see each other; the brokers that no group names are one more group.
         Clients see all of them
ring     every broker sees a majority, and no two see the same one (Jepsen's majorities-ring); four brokers or more
bridge   two halves that do not see each other, and one broker (`target`) that sees both
one_way  a broker (`target`) that loses what is sent to it (`loses: incoming`), or what it sends (`outgoing`),
         whoever opened the connection
=======  =====================================================================================================
"""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.faults.declared.base import LastingFault
from chaos.grammar.targets import Broker, BrokerTarget

Shape = Literal["isolate", "split", "ring", "bridge", "one_way"]
From = Literal["peers", "clients", "all"]
_TARGETED: tuple[Shape, ...] = ("isolate", "bridge", "one_way")
_KEYS: dict[str, tuple[Shape, ...]] = {
    "target": _TARGETED,
    "groups": ("split",),
    "from_": ("isolate", "one_way"),
    "loses": ("one_way",),
}


def _numbered(value: object) -> object:
    """Broker 2 may be written as its number within groups."""
    return f"broker-{value}" if isinstance(value, int) and not isinstance(value, bool) else value


Member = Annotated[Broker, BeforeValidator(_numbered)]
Group = Annotated[tuple[Member, ...], Field(min_length=1)]


class PartitionNetwork(LastingFault):
    """Brokers do not see each other, or their clients: one is isolated, groups are split, a ring, a bridge, one way only."""

    kind: Literal["partition_network"]
    shape: Shape
    target: Broker | None = None
    groups: tuple[Group, ...] = ()
    from_: From = Field(alias="from", default="peers")
    loses: Literal["incoming", "outgoing"] = "incoming"
    how: Literal["cut", "blackhole"] = "blackhole"

    @property
    def members(self) -> list[BrokerTarget]:
        """The broker targets that it names."""
        return [*([self.target] if self.target else []), *(member for group in self.groups for member in group)]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"partition_network: {self._shape}, {'cut' if self.how == 'cut' else 'blackholed'}, {self.lasts}"

    @property
    def _shape(self) -> str:
        match self.shape:
            case "isolate":
                return f"{self.target} isolated from {self.from_}"
            case "split":
                return " | ".join([*(", ".join(map(str, group)) for group in self.groups), "the rest"])
            case "ring":
                return "a ring of majorities"
            case "bridge":
                return f"two halves, {self.target} between them"
            case "one_way":
                return f"{self.target} loses what is {self.loses}, of {self.from_}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for key, shapes in _KEYS.items():
            default = type(self).model_fields[key].default  # a schedule that is read again has all keys
            if getattr(self, key) != default and self.shape not in shapes:
                raise ValueError(f"shape {self.shape} has no `{key.rstrip('_')}`; it belongs to {' and '.join(shapes)}")
        if self.shape in _TARGETED and self.target is None:
            raise ValueError(f"shape {self.shape} needs a `target`: which broker?")
        if self.shape == "split" and not self.groups:
            raise ValueError("shape split needs `groups`, e.g. [[1], [2, 3]]")
        if self.shape == "one_way" and self.how == "cut":
            raise ValueError("a connection that is cut is lost both ways: one_way needs how: blackhole")
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.target is not None and self.target.role == "all":
            raise ValueError(f"shape {self.shape} is about one broker, not about all; to part them all: shape split")
        members = [member for group in self.groups for member in group]
        for number, member in enumerate(members):
            if member.role in ("any", "all"):
                raise ValueError(f"a group names its brokers, {member} is none; write e.g. [[1], [2, 3]]")
            if member in members[:number]:
                raise ValueError(f"{member} is in two places; a broker is in one group")
        return self
