"""What all faults have."""

from typing import ClassVar

from pydantic import Field

from chaos.grammar.base import Declared, FaultName
from chaos.grammar.targets import BrokerTarget, LinkPattern, Links
from chaos.grammar.triggers import When
from chaos.grammar.units import SomeSeconds, spoken_seconds


class FaultBase(Declared):
    """What all faults have."""

    needs: ClassVar[str] = ""  # the only runtime in which it is possible; "" when all can
    because: ClassVar[str] = ""  # why
    name: FaultName = ""
    when: When

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        raise NotImplementedError


class LastingFault(FaultBase):
    """A fault for a declared time, or until another fault of the scenario was proved, if that comes first."""

    for_s: SomeSeconds = Field(alias="for")
    until: FaultName | None = None

    @property
    def lasts(self) -> str:
        """How long, in words."""
        return f"for {spoken_seconds(self.for_s)}" + (f" or until {self.until} is proved" if self.until else "")


class LinkFault(LastingFault):
    """A fault of links."""

    link: Links


def ends_of(link: LinkPattern) -> list[BrokerTarget]:
    """The broker targets at the ends of a link."""
    return [end for end in (link.left, link.right) if isinstance(end, BrokerTarget)]
