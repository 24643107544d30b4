"""Faults of brokers that are not ours: a hook does the fault, and the brokers' behaviour proves it.

The exit status of a hook proves nothing: an accepted command has not killed a broker yet. A broker is down when it answers no
request while another broker does, or has left the metadata: if none answers, the network may be slow. The watch begins before
the hook, because an operator may start the broker again before the hook has ended.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from confluent_kafka import KafkaException

from chaos.cluster.hooks import BrokerHooks, HookRun, Kind
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, Proof, already_down

_GONE_WITHIN_S = 30.0
_BACK_WITHIN_S = 180.0
_ASK_S = 2.0
_HEALED = "healed"


@dataclass(slots=True)
class HookedBrokers(Injection):
    """Brokers that a hook takes down, and that another hook, or an operator, brings back.

    Attributes:
        kinds: the hook that takes them down, and the one that brings them back.
        ran: broker -> result of the hook that should take it down.
    """

    system: System
    broker_ids: list[int]
    kinds: tuple[Kind, Kind]
    ran: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _watches: dict[int, Future[str]] = field(default_factory=dict)
    _stop: Event = field(default_factory=Event)
    _undone: bool = False

    def inject(self) -> None:
        """Watch the brokers, and run the hook for each.

        Raises:
            InjectionError: a broker was down before.
        """
        ended = [f"broker-{broker}" for broker in self.broker_ids if self._down(broker) and self._down(broker)]
        if ended:
            raise InjectionError(already_down(ended))
        pool = ThreadPoolExecutor(max_workers=len(self.broker_ids), thread_name_prefix="watch")
        self._watches = {broker: pool.submit(self._seen_down, broker) for broker in self.broker_ids}
        pool.shutdown(wait=False)
        for broker in self.broker_ids:
            ran = self._hooks.run(self.kinds[0], broker)
            if ran is not None:
                self.ran[f"broker-{broker}"] = ran.facts

    def proof(self) -> Proof:
        """Show that every broker stopped answering, or left the metadata; the hooks' results are only facts beside it."""
        down = {f"broker-{broker}": how for broker in self.broker_ids if (how := self._outcome(broker))}
        return Proof(len(down) == len(self.broker_ids), {"down": down, "hooks": self.ran})

    def heal(self) -> Mapping[str, Any]:
        """Bring them back, once, and return when all of them answer."""
        self._stop.set()
        due, self._undone = [] if self._undone else self.broker_ids, True
        ran = {broker: run for broker in due if (run := self._hooks.run(self.kinds[1], broker))}
        for broker in self.broker_ids:
            clock.wait_until(
                partial(self.system.kafka.cluster.answers, broker),
                within_s=_BACK_WITHIN_S,
                reason=f"broker-{broker} to answer again{_blamed(ran.get(broker))}",
                every_s=0.2,
            )
        return {"hooks": {f"broker-{broker}": run.facts for broker, run in ran.items()}} if ran else {}

    @property
    def _hooks(self) -> BrokerHooks:
        if self.system.hooks is None:
            raise InjectionError("this system has no hooks")
        return self.system.hooks

    def _seen_down(self, broker: int) -> str:
        """The sign that it is down, seen twice in a row; "" if there was none, or it was healed before."""
        try:
            return clock.wait_until(
                lambda: _HEALED if self._stop.is_set() else self._down(broker) and self._down(broker),
                within_s=self._hooks.declared.within_s + _GONE_WITHIN_S,
                reason=f"broker-{broker} to be down",
                every_s=0.05,
            ).removeprefix(_HEALED)
        except DeadlineError:
            return ""

    def _down(self, broker: int) -> str:
        cluster = self.system.kafka.cluster
        if not cluster.answers(broker):
            others = [number for number in cluster.brokers if number not in self.broker_ids]
            return "it does not answer" if not others or any(map(cluster.answers, others)) else ""
        try:
            known = self.system.kafka.admin.list_topics(timeout=_ASK_S).brokers
        except KafkaException:
            return ""
        return "" if broker in known else "it has left the metadata"

    def _outcome(self, broker: int) -> str:
        watch = self._watches.get(broker)
        try:
            return watch.result(_GONE_WITHIN_S) if watch else ""
        except TimeoutError:
            return ""


def _blamed(run: HookRun | None) -> str:
    return f" (its hook ended with {run.exit_code}: {run.output})" if run and run.exit_code else ""
