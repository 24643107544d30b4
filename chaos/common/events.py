"""The events in the history of a run: one type for each.

On disk an event has the ``process`` that did ``f``, and a ``type`` (Jepsen's words): invoke for a beginning, ok for a success,
fail for a failure, info for an observation. Its ``value`` holds the fields of the event's type below; keys in brackets are
optional, and … stands for keys that are not fixed.

    process    type    f         event              value
    runner     invoke  run       RunBegan           run, format
    runner     invoke  phase     PhaseBegan         phase, [load]
    runner     ok      phase     PhaseEnded         phase
    runner     fail    phase     PhaseFailed        phase, error, [cause]
    runner     fail    run       RunFailed          error
    runner     ok      run       RunEnded           events
    runner     info    twin      TwinUsed           key, rows, made, [runs]
    nemesis    invoke  a step    FaultStepBegan     fault, [when], [moment], [kind], [draw]
    nemesis    fail    a step    FaultFailed        fault, error, [cause]
    nemesis    ok      approach  FaultApproached    fault
    nemesis    ok      trigger   FaultTriggered     fault, …: the observation
    nemesis    ok      resume    OutputResumed      fault, committed
    nemesis    ok      inject    FaultInjected      fault, [target], [hold_s], [after_trip_ms]
    nemesis    ok      prove     FaultProved        fault, effective, [proof]
    nemesis    ok      heal      FaultHealed        fault, [target], [effective], …: the outcome
    nemesis    ok      release   RequestReleased    fault, [outcome]
    nemesis    info    spared    FaultSpared        fault
    nemesis    info    missed    RequestMissed      fault, request, links, sent, unparsed
    sampler    info    progress  ProgressSampled    written, committed, total, end
    sampler    info    blocked   ReadersBlocked     partition, end, seconds
    sampler    info    silent    LeaderSilent       error
    sampler    info    pipeline  PipelineSampled    positions, lag, [executors]

The steps of a fault are approach, trigger, resume, inject, prove, heal and release. A report of a managed process (the loader,
the pipeline) is a `ProcessReport`, an info event whose ``f`` and value are the process's own. Anything else was recorded by a
newer version and is kept as an `UnknownEvent`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field

from chaos.common.errors import ProcessEndedError, StandstillError

FORMAT: Literal[4] = 4
"""The format of a run directory, its history and its reports. Raise it when something written there changes its meaning."""
LOADER = "loader"
PIPELINE = "pipeline"
STANDSTILL = "standstill"
EventType = Literal["invoke", "ok", "fail", "info"]
FaultStep = Literal["approach", "trigger", "resume", "inject", "prove", "heal", "release"]


class EventValue(BaseModel):
    """The value of one event. Keys without a field of their own are kept as ``details``."""

    model_config = ConfigDict(frozen=True, extra="allow")
    PLACE: ClassVar[tuple[str, EventType, str]]

    @property
    def place(self) -> tuple[str, str, str]:
        """Process, type and f."""
        return self.PLACE

    @property
    def process(self) -> str:
        return self.place[0]

    @property
    def type(self) -> str:
        return self.place[1]

    @property
    def f(self) -> str:
        return self.place[2]

    @property
    def details(self) -> Mapping[str, Any]:
        return self.model_extra or {}

    def to_json(self) -> Mapping[str, Any]:
        """The value as it is on disk: JSON values, if the recorder gave such."""
        return self.model_dump(exclude_unset=True)


class Failed(EventValue):
    """A phase, or a step of a fault, that ended with an error.

    Attributes:
        error: its type and its message.
        cause: e.g. ``pipeline ended``, if a process of the run had ended by itself; `STANDSTILL`, if the program under test did
            not move any more; "" for any other cause.
    """

    error: str = ""
    cause: str = ""

    def says(self, ends: str) -> bool:
        """Whether the program under test has ended, and these words are in the error."""
        return self.cause == f"{PIPELINE} ended" and ends in self.error


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _cause(error: BaseException) -> str:
    """Return `Failed.cause` of an error, or of the error that caused it."""
    if isinstance(error, ProcessEndedError):
        return f"{error.process} ended"
    if isinstance(error, StandstillError):
        return STANDSTILL
    return _cause(error.__cause__) if error.__cause__ else ""


class RunBegan(EventValue):
    """The first event of a run.

    Attributes:
        run: the name of its folder.
        format: the format of the run directory; formats before 3 did not record it.
    """

    PLACE = "runner", "invoke", "run"
    run: str
    format: int = 2


class PhaseBegan(EventValue):
    """A phase begins.

    Attributes:
        load: processes that ran or waited for a core of this machine, for each of its cores, in the mean of a minute
            (``getloadavg(3)``); None in older histories.
    """

    PLACE = "runner", "invoke", "phase"
    phase: str
    load: float | None = None


class PhaseEnded(EventValue):
    PLACE = "runner", "ok", "phase"
    phase: str


class PhaseFailed(Failed):
    PLACE = "runner", "fail", "phase"
    phase: str

    @classmethod
    def by(cls, phase: str, error: BaseException) -> Self:
        return cls(phase=phase, error=_words(error), cause=_cause(error))


class RunFailed(EventValue):
    """Something has ended the run early, in a phase or between two of them."""

    PLACE = "runner", "fail", "run"
    error: str


class RunEnded(EventValue):
    """The end of a run that began with `RunBegan`, whatever its result.

    Attributes:
        events: number of events before this one.
    """

    PLACE = "runner", "ok", "run"
    events: int


class TwinUsed(EventValue):
    """The expected rows are the output of a run without faults.

    Attributes:
        key: the key of that pipeline and workload, in this version of them.
        rows: number of rows that it wrote.
        made: its time, in UTC.
        runs: number of runs without faults that were needed now; 0 if a kept one was used.
    """

    PLACE = "runner", "info", "twin"
    key: str
    rows: int
    made: str
    runs: int = 0


class FaultEvent(EventValue):
    """Something that the nemesis did with one fault."""

    fault: str


class FaultStepBegan(FaultEvent):
    """A step of a fault was begun.

    Attributes:
        when: for the step trigger: the awaited condition, in words.
        moment: for the step trigger: the words of reports for it (`chaos.grammar.triggers.Moment`).
        kind, draw: for the step inject.
    """

    PLACE = "nemesis", "invoke", ""
    step: FaultStep = Field(exclude=True)
    when: str = ""
    moment: str = ""
    kind: str = ""
    draw: int | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        return *self.PLACE[:2], self.step


class FaultFailed(Failed, FaultEvent):
    PLACE = "nemesis", "fail", ""
    step: FaultStep = Field(exclude=True)

    @classmethod
    def by(cls, fault: str, step: FaultStep, error: BaseException) -> Self:
        return cls(fault=fault, step=step, error=_words(error), cause=_cause(error))

    @property
    def place(self) -> tuple[str, str, str]:
        return *self.PLACE[:2], self.step


class FaultApproached(FaultEvent):
    """Preparations that are too slow for the moment of injection were made in advance."""

    PLACE = "nemesis", "ok", "approach"


class FaultTriggered(FaultEvent):
    """The moment of a fault has come; a trigger on a request records the request (``api``, ``link``, …)."""

    PLACE = "nemesis", "ok", "trigger"


class OutputResumed(FaultEvent):
    """The output has grown since the fault before this one was healed."""

    PLACE = "nemesis", "ok", "resume"
    committed: int = 0


class FaultInjected(FaultEvent):
    """A fault is in force.

    Attributes:
        target: its target, resolved.
        hold_s: seconds that it shall last.
        after_trip_ms: milliseconds between the interception of the held request and the injection.
    """

    PLACE = "nemesis", "ok", "inject"
    target: str = ""
    hold_s: float = 0.0
    after_trip_ms: float | None = None


class FaultProved(FaultEvent):
    """The proof of a fault: whether it took effect, and the numbers."""

    PLACE = "nemesis", "ok", "prove"
    effective: bool
    proof: Mapping[str, Any] = {}


class FaultHealed(FaultEvent):
    """A fault is over.

    Attributes:
        effective: False if only its end showed that it had no effect, e.g. a late request that no broker answered; the details
            have the reason, as ``problem``.
    """

    PLACE = "nemesis", "ok", "heal"
    target: str = ""
    effective: bool = True


class RequestReleased(FaultEvent):
    """The rule of a trigger on a request was removed; the outcome is that of the held request."""

    PLACE = "nemesis", "ok", "release"
    outcome: str = ""


class FaultSpared(FaultEvent):
    """A random fault was left out because the whole workload was through when its turn came."""

    PLACE = "nemesis", "info", "spared"


class RequestMissed(FaultEvent):
    """The awaited request of a trigger did not come often enough.

    Attributes:
        sent: number of such requests on these links in this run.
        unparsed: number of this run's connections on these links that do not speak Kafka's protocol.
    """

    PLACE = "nemesis", "info", "missed"
    request: str
    links: list[str]
    sent: int
    unparsed: int


class ProgressSampled(EventValue):
    """The progress of the run, according to the brokers; recorded whenever it has changed.

    Attributes:
        written: offsets in the source, at most total.
        committed: records of the output below its last stable offset, at most total.
        total: records of the workload.
        end: sum of the output's last stable offsets. Transaction markers take offsets too.
    """

    PLACE = "sampler", "info", "progress"
    written: int
    committed: int
    total: int
    end: int


class ReadersBlocked(EventValue):
    """The last stable offset of an output partition stood still with records above it; recorded when that is over.

    Attributes:
        end: that offset.
        seconds: the duration; less than a second is not recorded.
    """

    PLACE = "sampler", "info", "blocked"
    partition: int
    end: int
    seconds: float


class LeaderSilent(EventValue):
    """A leader did not answer the sampler; recorded whenever the reason has changed."""

    PLACE = "sampler", "info", "silent"
    error: str


class PipelineSampled(EventValue):
    """The positions of the pipeline, as it has committed them; recorded whenever they have changed.

    Attributes:
        positions: source partition -> committed position (exclusive); a partition without one is left out.
        lag: number of source offsets between the positions and the last stable offsets.
        executors: number of live Spark executors, with or without an application; 0 where none can be seen from here.
    """

    PLACE = "sampler", "info", "pipeline"
    positions: dict[int, int]
    lag: int
    executors: int = 0


class ProcessReport(EventValue):
    """A report of a managed process about itself: its own event, with its own details."""

    who: str
    event: str
    content: Mapping[str, Any]

    @property
    def is_of_loader(self) -> bool:
        """Whether a loader reported it: the first is ``loader``, those of further topics are ``loader-TOPIC``."""
        return self.who == LOADER or self.who.startswith(f"{LOADER}-")

    @property
    def place(self) -> tuple[str, str, str]:
        return self.who, "info", self.event

    def to_json(self) -> Mapping[str, Any]:
        return self.content


class UnknownEvent(EventValue):
    """An event that this version of chaos does not know."""

    seen_at: tuple[str, str, str]
    content: Mapping[str, Any]

    @property
    def place(self) -> tuple[str, str, str]:
        return self.seen_at

    def to_json(self) -> Mapping[str, Any]:
        return self.content


TYPES: tuple[type[EventValue], ...] = (
    RunBegan,
    PhaseBegan,
    PhaseEnded,
    PhaseFailed,
    RunFailed,
    RunEnded,
    TwinUsed,
    FaultStepBegan,
    FaultFailed,
    FaultApproached,
    FaultTriggered,
    OutputResumed,
    FaultInjected,
    FaultProved,
    FaultHealed,
    RequestReleased,
    FaultSpared,
    RequestMissed,
    ProgressSampled,
    ReadersBlocked,
    LeaderSilent,
    PipelineSampled,
)
_BY_PLACE: Mapping[tuple[str, str, str], type[EventValue]] = {kind.PLACE: kind for kind in TYPES}
_PROCESSES = frozenset(kind.PLACE[0] for kind in TYPES)


def read(process: str, type_: str, f: str, value: Any) -> EventValue:
    """Parse the event of a line of a history.

    Raises:
        ValueError, TypeError: it lacks a field that every version wrote.
    """
    kind = _BY_PLACE.get((process, type_, f))
    if kind is not None:
        return kind.model_validate(value)
    of_steps = _BY_PLACE.get((process, type_, "")) if f in get_args(FaultStep) else None
    if of_steps is not None:
        return of_steps.model_validate({**value, "step": f})
    if type_ == "info" and process not in _PROCESSES:
        return ProcessReport(who=process, event=f, content=value)
    return UnknownEvent(seen_at=(process, type_, f), content=value)
