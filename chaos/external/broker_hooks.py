"""Hooks of brokers that are not ours: what is declared, filled in for one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from chaos.external.declaration import Hooks
from chaos.external.hooks import HookRun, run_hook

Kind = Literal["kill", "start", "pause", "resume"]


@dataclass(frozen=True, slots=True)
class BrokerHooks:
    """The hooks of one cluster.

    Attributes:
        values: node id -> placeholder -> what it stands for.
    """

    declared: Hooks
    values: Mapping[int, Mapping[str, object]]

    def run(self, kind: Kind, number: int) -> HookRun | None:
        """Run one for a broker, to its end; None when there is no such hook.

        Raises:
            RuntimeUnavailableError: it cannot be started, or does not end in time.
        """
        text: str | None = getattr(self.declared, kind)
        return None if text is None else run_hook(text, self.values[number], self.declared.within_s)
