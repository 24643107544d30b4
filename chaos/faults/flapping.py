"""A link that flaps: down for the first half of every period, up for the second."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event

from chaos.cluster.links import Link
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.background import Course
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.declared.network import FlappingLink
from chaos.faults.links import await_use, heal_each, name_of, refused_by
from chaos.faults.targets import resolve_links

_ENOUGH = 2


def prepare_flapping(fault: FlappingLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `FlappingLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    return FlappingLinks(target, fault.for_s, name_of(fault), links, fault.period_s)


@dataclass(slots=True)
class FlappingLinks:
    """Links that are cut and mended until the heal.

    Attributes:
        downs, ups: how often all of them were seen to be refused, and to be open again.
    """

    target: str
    hold_s: float
    name: str
    links: list[Link]
    period_s: float
    downs: int = 0
    ups: int = 0
    in_use: int = 0
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self._flap)

    def inject(self) -> None:
        """Begin with the first cut."""
        self.in_use = await_use(self.links)
        for link in self.links:
            link.cut(self.name)
        self.course.begin()

    def proof(self) -> Proof:
        """Somebody's connections were closed; the links were down at least twice, and up in between."""
        with suppress(DeadlineError):  # the numbers say so
            clock.wait_until(self._flapped, within_s=self.hold_s, reason="the links to flap twice")
        facts = {"downs": self.downs, "ups": self.ups, "in_use": self.in_use}
        return Proof(self._flapped() and self.in_use > 0, facts)

    def heal(self) -> Mapping[str, int]:
        """Open them all for good."""
        self.course.end()
        heal_each(self.links, lambda link: link.mend(self.name))
        return {"downs": self.downs, "ups": self.ups}

    def _flapped(self) -> bool:
        self.course.through()  # raises what it could not do
        return self.downs >= _ENOUGH and self.ups >= _ENOUGH - 1

    def _flap(self, stop: Event) -> None:
        """They are down when this begins."""
        while not stop.is_set():
            self.downs += len(refused_by(self.links)) == sum(len(link.proxies) for link in self.links)
            if clock.pause(self.period_s / 2, stop):
                return
            for link in self.links:
                link.mend(self.name)
            self.ups += not refused_by(self.links)
            if clock.pause(self.period_s / 2, stop):
                return
            for link in self.links:
                link.cut(self.name)


CATALOGUE: Mapping[type, Prepare] = {FlappingLink: prepare_flapping}
