"""The nemesis injects faults: each step of the schedule in a thread of its own, trigger -> inject -> prove -> hold -> heal.

A test that injects its faults one by one calls `begin` and `end` for each; they use threads too, so that no signal interrupts
the middle of a step.

A trigger on a request holds that request on the wire. It is let go as soon as the fault is in force, or by the fault itself.

`heal_all` undoes every injection, last in first out; the run calls it in any case. This module is one of the three places with
a broad ``except``: an error of a fault becomes an event of the history and makes the run UNKNOWN, and it must not keep the next
fault from being healed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from threading import Event as Flag
from threading import Lock, Semaphore, Thread
from typing import Any

from chaos.common import clock, signals
from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.events import (
    EventValue,
    FaultApproached,
    FaultFailed,
    FaultHealed,
    FaultInjected,
    FaultProved,
    FaultSpared,
    FaultStep,
    FaultStepBegan,
    FaultTriggered,
    OutputResumed,
    RequestMissed,
    RequestReleased,
)
from chaos.common.history import History
from chaos.engine import triggers
from chaos.engine.triggers import RequestHold, Watch, hold_request
from chaos.faults.base import FaultBase, FaultContext, Injection, prove
from chaos.grammar.triggers import AfterFault, OnRequest
from chaos.scenario.plan import Schedule, Step

_JOIN_S = 0.2
_NS_PER_MS = 1_000_000
_END_S = 30.0
_RESUMES_WITHIN_S = 60.0
_POSITION_WITHIN_S = 10.0  # the position is sampled once a second, on a machine that may be busy


@dataclass(frozen=True, slots=True)
class _InForce:
    injection: Injection
    since_s: float


class Nemesis:
    """Carries out the schedule of one run."""

    def __init__(self, schedule: Schedule, context: FaultContext, history: History, stop: Flag) -> None:
        """Prepare; nothing happens before `approach` and `run`.

        Args:
            stop: set when the run ends early; triggers and holds end at once then.
        """
        self._schedule = schedule
        self._context = context
        self._history = history
        self._stop = stop
        self._lock = Lock()
        self._in_force: dict[str, _InForce] = {}
        self._request_holds: dict[str, RequestHold] = {}
        self._released = {step.name: Flag() for step in schedule.steps}
        self._slots = Semaphore(schedule.at_once) if schedule.at_once else None
        self._end_at_heal = 0
        self._approaching: list[Thread] = []
        self._threads: list[Thread] = []

    def approach(self) -> None:
        """Begin slow preparations of injections in the background. No trigger waits for them.

        To be called as soon as the pipeline runs: an approach takes seconds, and meanwhile the requests that a trigger counts
        pass.
        """
        if any(_has_approach(step.fault) for step in self._schedule.steps):
            with signals.deferred():  # `heal_all` can join a thread only if it was started
                self._approaching = [Thread(target=self._approach, name="approach", daemon=True)]
                self._approaching[0].start()

    def run(self, watch: Watch, check: Callable[[], None]) -> None:
        """Carry out all steps, and return when the last one has ended.

        Args:
            check: called several times a second in this thread; its errors are raised here.
        """
        with signals.deferred():
            self._threads = [
                Thread(target=self._step, args=(step, watch), name=step.name, daemon=True) for step in self._schedule.steps
            ]
            for thread in self._threads:
                thread.start()
        self._join(check)

    def begin(self, step: Step, watch: Watch, check: Callable[[], None]) -> None:
        """Carry out one more step as far as its proof, beside those of the schedule; it stays in force until `end`.

        Args:
            check: as in `run`.
        """
        self._released[step.name] = Flag()
        self._in_thread(step.name, partial(self._begin, step, watch), check)

    def end(self, name: str, check: Callable[[], None], *, at_once: bool = False) -> None:
        """Heal a begun fault, once it has been in force for its declared time, or at once."""
        if at_once:
            self._released[name].set()
        self._in_thread(name, partial(self._end, name), check)

    def heal_all(self) -> None:
        """Heal all faults in force. From then on nothing can be injected."""
        with self._lock:
            self._stop.set()
            names = list(self._in_force)
        for released in self._released.values():
            released.set()
        for name in reversed(names):
            self._heal(name)
        for thread in (*self._approaching, *self._threads):
            thread.join(_END_S)
        for name in list(self._request_holds):
            self._let_go(name)

    def _in_thread(self, name: str, action: Callable[[], None], check: Callable[[], None]) -> None:
        with signals.deferred():  # as in `run`
            self._threads.append(Thread(target=action, name=name, daemon=True))
            self._threads[-1].start()
        self._join(check)

    def _join(self, check: Callable[[], None]) -> None:
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            check()
            alive[0].join(_JOIN_S)

    def _begin(self, step: Step, watch: Watch) -> None:
        if _has_approach(step.fault):
            self._do("approach", step.name, partial(_approached, step, self._context))
        if self._trigger(step, watch):
            self._strike(step)

    def _end(self, name: str) -> None:
        self._hold(name)
        self._heal(name)
        self._let_go(name)

    def _step(self, step: Step, watch: Watch) -> None:
        if not self._trigger(step, watch):
            self._let_go(step.name)
            return
        with self._slot():
            if self._goes_on(step, watch) and self._strike(step):
                self._hold(step.name)
            self._heal(step.name)
        self._let_go(step.name)

    def _trigger(self, step: Step, watch: Watch) -> bool:
        when = step.fault.when
        return self._do("trigger", step.name, lambda: self._triggered(step, watch), when=str(when), moment=when.moment)

    def _strike(self, step: Step) -> bool:
        """Put it in force and get its proof; return whether it is in force."""
        if not self._do("inject", step.name, lambda: self._inject(step), kind=step.fault.kind, draw=step.draw):
            return False
        self._do("prove", step.name, lambda: self._prove(step.name))
        self._release(step.name)
        return True

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Wait until fewer faults than the limit are in force. A run that is stopped meanwhile injects nothing."""
        taken = False
        while self._slots is not None and not taken and not self._stop.is_set():
            taken = self._slots.acquire(timeout=_JOIN_S)
        try:
            yield
        finally:
            if self._slots is not None and taken:
                self._slots.release()

    def _goes_on(self, step: Step, watch: Watch) -> bool:
        """Whether to inject the fault, if the number of simultaneous faults is limited.

        The output must have grown since the last heal: a fault in a pipeline that stands still proves nothing. A random fault
        is spared when its turn comes after the whole workload has passed.
        """
        if self._slots is None:
            return True
        if not self._do("resume", step.name, lambda: self._await_growth(step.name, watch)):
            return False
        spared = step.by_chance and self._is_too_late(watch)
        if spared:
            self._history.record(FaultSpared(fault=step.name))
        return not spared

    def _await_growth(self, name: str, watch: Watch) -> OutputResumed:
        clock.wait_until(
            lambda: triggers.end(self._history) > self._end_at_heal or triggers.through(watch) or self._stop.is_set(),
            within_s=_RESUMES_WITHIN_S,
            reason="the output to grow again after the fault before this one",
        )
        return OutputResumed(fault=name, committed=triggers.committed(self._history))

    def _is_too_late(self, watch: Watch) -> bool:
        """Whether the whole workload has passed; if the output suggests it, wait for the pipeline's position."""
        with suppress(DeadlineError):
            clock.wait_until(
                lambda: triggers.committed(self._history) < watch.total or triggers.through(watch) or self._stop.is_set(),
                within_s=_POSITION_WITHIN_S,
                reason="the pipeline's position at the end of the source",
            )
        return triggers.through(watch)

    def _approach(self) -> None:
        for step in self._schedule.steps:
            if _has_approach(step.fault) and not self._stop.is_set():
                self._do("approach", step.name, partial(_approached, step, self._context))

    def _triggered(self, step: Step, watch: Watch) -> FaultTriggered:
        return FaultTriggered(fault=step.name, **self._await(step, watch))

    def _await(self, step: Step, watch: Watch) -> Mapping[str, Any]:
        when = step.fault.when
        if not isinstance(when, OnRequest):
            return triggers.wait_for(when, watch, offset=step.offset)
        if when.since is not None:
            triggers.wait_for(AfterFault(fault=when.since), watch)
        rng = Random(step.draw)  # noqa: S311 - a schedule, no secret
        late, hold_s = step.fault.outlives_client, step.fault.holds_request_s
        request_hold = hold_request(step.name, when, self._context, rng, late=late, hold_s=hold_s)
        self._request_holds[step.name] = request_hold
        try:
            triggers.until(
                lambda: request_hold.interception() is not None, watch, f"{when}", over=lambda: triggers.all_through(watch)
            )
        except (DeadlineError, InconclusiveError) as error:
            missed = request_hold.missed()
            self._history.record(RequestMissed(fault=step.name, **missed))
            said = f"{missed['sent']} {when.request} were sent on {', '.join(missed['links'])} in this run"
            raise type(error)(f"{error}; {said}") from error
        interception = request_hold.interception()
        return dict(interception.facts) if interception else {}

    def _inject(self, step: Step) -> FaultInjected:
        request_hold, when = self._request_holds.get(step.name), step.fault.when
        followed = self._request_holds.get(when.fault) if isinstance(when, AfterFault) else None
        context = replace(self._context, held=request_hold or followed)
        injection = step.fault.prepare(context, Random(step.draw))  # noqa: S311 - a schedule, no secret
        with self._lock:
            if self._stop.is_set():
                raise InconclusiveError("the run ended before the fault was injected")
            self._in_force[step.name] = _InForce(injection, clock.monotonic_s())
            injection.inject()
        let_go = _let_go_of(request_hold, step.fault)
        return FaultInjected(fault=step.name, target=injection.target, hold_s=injection.hold_s, **let_go)

    def _prove(self, name: str) -> FaultProved:
        in_force = self._in_force.get(name)
        if in_force is None:
            raise InconclusiveError("the fault was healed before it was proved")
        proof = prove(in_force.injection)
        return FaultProved(fault=name, effective=proof.effective, proof=proof.facts)

    def _release(self, name: str) -> None:
        """End the hold of the faults that last until this one is proved."""
        for step in self._schedule.steps:
            if getattr(step.fault, "until", None) == name:
                self._released[step.name].set()

    def _hold(self, name: str) -> None:
        in_force = self._in_force.get(name)
        if in_force is not None:
            left_s = in_force.since_s + in_force.injection.hold_s - clock.monotonic_s()
            clock.pause(max(0.0, left_s), self._released[name])

    def _heal(self, name: str) -> None:
        """Heal an injection once: its own thread and `heal_all` may both come here."""
        with self._lock:
            in_force = self._in_force.pop(name, None)
        if in_force is not None:
            self._do("heal", name, lambda: _healed(name, in_force.injection))
            self._end_at_heal = triggers.end(self._history)

    def _let_go(self, name: str) -> None:
        """Remove the rule of a step's trigger, if it has one."""
        request_hold = self._request_holds.pop(name, None)
        if request_hold is not None:
            self._do("release", name, lambda: _removed(name, request_hold))

    def _do(self, step: FaultStep, name: str, action: Callable[[], EventValue], **value: Any) -> bool:
        """Do one step of a fault, and record its begin and its end; return whether it succeeded."""
        self._history.record(FaultStepBegan(step=step, fault=name, **value))
        try:
            outcome = action()
        except Exception as error:  # noqa: BLE001 - see the docstring of this module
            self._history.record(FaultFailed.by(name, step, error))
            return False
        self._history.record(outcome)
        return True


def _has_approach(fault: FaultBase) -> bool:
    return type(fault).approach is not FaultBase.approach


def _approached(step: Step, context: FaultContext) -> FaultApproached:
    step.fault.approach(context)
    return FaultApproached(fault=step.name)


def _let_go_of(request_hold: RequestHold | None, fault: FaultBase) -> Mapping[str, Any]:
    """Let go of the request that was held until its fault is in force, unless the fault is about the request itself.

    Return the milliseconds from the request's interception until the fault was in force.
    """
    interception = request_hold.interception() if request_hold else None
    if request_hold is None or interception is None:
        return {}
    delay_ms = (clock.now_ns() - interception.intercepted_ns) / _NS_PER_MS
    if isinstance(fault.when, OnRequest) and not fault.settles_request:
        request_hold.let_go("deliver" if fault.when.then == "deliver" else "close")
    return {"after_trip_ms": round(delay_ms, 1)}


def _removed(name: str, request_hold: RequestHold) -> RequestReleased:
    request_hold.remove()
    interception = request_hold.interception()
    return RequestReleased(fault=name, outcome=interception.outcome) if interception else RequestReleased(fault=name)


def _healed(name: str, injection: Injection) -> FaultHealed:
    return FaultHealed(fault=name, **{"target": injection.target, **(injection.heal() or {})})
