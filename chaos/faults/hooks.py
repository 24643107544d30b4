"""Faults of brokers that are not ours: a hook does it, and whether it was done is asked of the brokers.

The exit status of a hook proves nothing: a command that was accepted kills nobody yet. A broker is down when it answers no
request any more, or has left the metadata. It is watched from before the hook begins, for whoever looks after it may start it
again before the hook has ended.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import Random
from threading import Event
from typing import Any

from confluent_kafka import KafkaException

from chaos.cluster.hooks import BrokerHooks, HookRun, Kind
from chaos.cluster.kafka import Kafka
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.declared.broker import KillBroker, PauseBroker
from chaos.faults.targets import resolve_brokers

_GONE_WITHIN_S = 30.0
_BACK_WITHIN_S = 180.0
_ASK_S = 2.0
_HEALED = "healed"


def prepare_kill(fault: KillBroker, scene: Scene, rng: Random) -> Injection:
    """Aim a `KillBroker` at brokers that are not ours."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return HookedBrokers(target, fault.restart_after_s, scene.system.kafka, _hooks(scene), broker_ids, ("kill", "start"))


def prepare_pause(fault: PauseBroker, scene: Scene, rng: Random) -> Injection:
    """Aim a `PauseBroker` at brokers that are not ours."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return HookedBrokers(target, fault.for_s, scene.system.kafka, _hooks(scene), broker_ids, ("pause", "resume"))


@dataclass(slots=True)
class HookedBrokers:
    """Brokers that a hook has taken down, and that another one, or whoever looks after them, brings back.

    Attributes:
        kinds: the hook that takes them down, and the one that brings them back.
    """

    target: str
    hold_s: float
    kafka: Kafka
    hooks: BrokerHooks
    broker_ids: list[int]
    kinds: tuple[Kind, Kind]
    ran: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _watches: dict[int, Future[str]] = field(default_factory=dict)
    _stop: Event = field(default_factory=Event)
    _undone: bool = False

    def inject(self) -> None:
        """Watch the brokers, and run the hook for each."""
        pool = ThreadPoolExecutor(max_workers=len(self.broker_ids), thread_name_prefix="watch")
        self._watches = {number: pool.submit(self._seen_down, number) for number in self.broker_ids}
        pool.shutdown(wait=False)
        for number in self.broker_ids:
            ran = self.hooks.run(self.kinds[0], number)
            if ran is not None:
                self.ran[f"broker-{number}"] = ran.facts

    def proof(self) -> Proof:
        """Every broker was seen to answer no more, or to be gone from the metadata; what the hook said is told beside it."""
        found = {f"broker-{number}": self._outcome(number) for number in self.broker_ids}
        down = {name: how for name, how in found.items() if how}
        return Proof(len(down) == len(self.broker_ids), {"down": down, "hooks": self.ran})

    def heal(self) -> Mapping[str, Any]:
        """Bring them back, once, and return when all of them answer.

        Raises:
            DeadlineError: a broker does not come back.
        """
        self._stop.set()
        due, self._undone = [] if self._undone else self.broker_ids, True
        ran = {number: run for number in due if (run := self.hooks.run(self.kinds[1], number))}
        for number in self.broker_ids:
            clock.wait_until(
                partial(self.kafka.cluster.answers, number),
                within_s=_BACK_WITHIN_S,
                reason=f"broker-{number} to answer again{_blamed(ran.get(number))}",
                every_s=0.2,
            )
        return {"hooks": {f"broker-{number}": run.facts for number, run in ran.items()}} if ran else {}

    def _seen_down(self, number: int) -> str:
        """How it was seen to be down, twice in a row; nothing when it was not, or nobody wants to know any more."""
        try:
            return clock.wait_until(
                lambda: _HEALED if self._stop.is_set() else self._down(number) and self._down(number),
                within_s=self.hooks.declared.within_s + _GONE_WITHIN_S,
                reason=f"broker-{number} to be down",
                every_s=0.05,
            ).removeprefix(_HEALED)
        except DeadlineError:
            return ""

    def _down(self, number: int) -> str:
        if not self.kafka.cluster.answers(number):
            return "it does not answer"
        try:
            known = self.kafka.admin.list_topics(timeout=_ASK_S).brokers
        except KafkaException:
            return ""
        return "" if number in known else "it has left the metadata"

    def _outcome(self, number: int) -> str:
        watch = self._watches.get(number)
        try:
            return watch.result(_GONE_WITHIN_S) if watch else ""
        except TimeoutError:
            return ""


def _blamed(run: HookRun | None) -> str:
    return f" (its hook ended with {run.exit_code}: {run.output})" if run and run.exit_code else ""


def _hooks(scene: Scene) -> BrokerHooks:
    if scene.system.hooks is None:
        raise InjectionError("this system has no hooks")
    return scene.system.hooks


CATALOGUE: Mapping[type, Prepare] = {KillBroker: prepare_kill, PauseBroker: prepare_pause}
