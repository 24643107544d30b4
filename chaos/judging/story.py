"""The story of each fault of a run, built once from its events, for verdict, report and tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from chaos.common.events import (
    FaultEvent,
    FaultFailed,
    FaultHealed,
    FaultInjected,
    FaultProved,
    FaultSpared,
    FaultStep,
    FaultStepBegan,
    FaultTriggered,
)
from chaos.common.history import Event, of_type

F = TypeVar("F", bound=FaultEvent)


class Occurrence(NamedTuple, Generic[F]):
    """An event and its value."""

    event: Event
    value: F


@dataclass(slots=True)
class Story:
    """One fault, from its trigger to its heal: the last event of each kind, or None.

    Attributes:
        waits: the last begin of its trigger.
        failures: step -> its failure.
    """

    waits: FaultStepBegan | None = None
    triggered: Occurrence[FaultTriggered] | None = None
    injected: Occurrence[FaultInjected] | None = None
    proved: Occurrence[FaultProved] | None = None
    healed: Occurrence[FaultHealed] | None = None
    failures: dict[FaultStep, FaultFailed] = field(default_factory=dict)

    @property
    def is_proved(self) -> bool:
        """Whether its proof shows that it took effect."""
        return self.proved is not None and self.proved.value.effective

    @property
    def is_effective(self) -> bool:
        """Whether it is proved, and its end did not show otherwise."""
        return self.is_proved and (self.healed is None or self.healed.value.effective)

    @property
    def found_nothing(self) -> bool:
        """Whether every step went well, and there was nothing to break, such as a link that nothing used."""
        return self.injected is not None and not self.failures and not self.is_proved

    def hear(self, event: Event) -> None:
        """Take the next event of this fault."""
        match event.value:
            case FaultStepBegan(step="trigger") as value:
                self.waits = value
            case FaultTriggered() as value:
                self.triggered = Occurrence(event, value)
            case FaultInjected() as value:
                self.injected = Occurrence(event, value)
            case FaultProved() as value:
                self.proved = Occurrence(event, value)
            case FaultHealed() as value:
                self.healed = Occurrence(event, value)
            case FaultFailed(step=step) as value:
                self.failures[step] = value
            case _:
                pass


def stories(faults: Iterable[str], events: Sequence[Event]) -> dict[str, Story]:
    """Build the stories of these faults, in their order; a fault that was spared is not part of the run."""
    spared = {value.fault for _, value in of_type(events, FaultSpared)}
    told = {name: Story() for name in faults if name not in spared}
    for event, value in of_type(events, FaultEvent):
        if value.fault in told:
            told[value.fault].hear(event)
    return told
