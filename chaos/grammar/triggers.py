"""Triggers: when a fault is injected.

=============================  ==========================================================================================
{after: 5s}                    five seconds after output began to flow
{progress: 40%}                some time after 40 % of the workload can be read at the pipeline's output
{request: EndTxn, nth: 20}     while the 20th EndTxn is on the wire: it is held while the fault is injected
{fault: cut, after: 2s}        two seconds after another fault of the scenario was proved
{batch: 2, seen: rows}         when rows of batch 2 of a Spark job are in its sink, and its checkpoint does not say it is done
=============================  ==========================================================================================

Requests have the names of https://kafka.apache.org/protocol.html#protocol_api_keys. Whether clients or brokers send a request
is taken from the ``listeners`` of each ``*Request.json`` of Kafka 4.3; where these name both, from what was seen to pass a
listener of clients and the inter-broker one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from chaos.grammar.base import Declared, FaultName, WrongValueError, did_you_mean, shown
from chaos.grammar.targets import Links
from chaos.grammar.units import Percent, Seconds, spoken_seconds

_CLIENTS = (
    "Produce ListOffsets OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup InitProducerId "
    "AddOffsetsToTxn EndTxn TxnOffsetCommit ConsumerGroupHeartbeat Metadata"
)
_BROKERS = (
    "WriteTxnMarkers Vote BeginQuorumEpoch EndQuorumEpoch AlterPartition BrokerRegistration BrokerHeartbeat "
    "AllocateProducerIds FetchSnapshot ControllerRegistration"
)
_BOTH = "Fetch ApiVersions AddPartitionsToTxn OffsetForLeaderEpoch"

OF_CLIENTS = frozenset(_CLIENTS.split())
OF_BROKERS = frozenset(_BROKERS.split())
TRANSACTIONAL = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "WriteTxnMarkers"})
NAMES = (*_CLIENTS.split(), *_BROKERS.split(), *_BOTH.split())


def api(text: Any) -> str:
    """The name of a request.

    Raises:
        ValueError: there is no request of this name; the message lists all names.
    """
    if isinstance(text, str) and text in NAMES:
        return text
    raise WrongValueError(
        "not-a-request",
        f"{shown(text)} is not a request of Kafka's protocol{did_you_mean(text, NAMES)}; there are: {', '.join(sorted(NAMES))}",
    )


Api = Annotated[str, BeforeValidator(api), WithJsonSchema({"title": "request", "type": "string", "enum": sorted(NAMES)})]


class Moment(Declared):
    """When a fault is injected; its text says what is waited for."""

    @property
    def moment(self) -> str:
        """What reports say of it afterwards, e.g. ``while EndTxn 3 was on the wire``; "" if no log shows that moment."""
        return ""


class After(Moment):
    """`after: 5s`, counted from when output began to flow."""

    after_s: Seconds = Field(alias="after")
    """how long after output began to flow."""

    def __str__(self) -> str:
        return f"{spoken_seconds(self.after_s)} after output flows"


class Progress(Moment):
    """`progress: 40%` of the workload committed at the pipeline's output.

    It counts the records that a read_committed reader of the output can see, so duplicates count, and transaction markers and
    aborted rows do not.

    An output is seen to grow when rows were committed, so this moment would always be the same one of the pipeline's cycle, and
    never that between a position and its rows. So a part of the usual time between two growths is waited for, too: the seed of
    the run says how much of it. To strike at one moment of the cycle, aim at a request: ``{request: OffsetCommit, nth: 20}``.
    """

    percent: Percent = Field(alias="progress")
    """how much of the workload."""
    at: Literal["growth"] | None = None
    """``growth`` strikes at once, when the output was seen to grow."""

    @property
    def is_offset(self) -> bool:
        """Whether a part of the time between two growths is waited for."""
        return self.at is None

    def __str__(self) -> str:
        return f"at {self.percent:g} % of the workload" + ("" if self.is_offset else ", when the output grows")


class OnRequest(Moment):
    """`request: EndTxn, nth: 20, at: request`: that frame is on the wire, and is held there while the fault is injected."""

    request: Api
    """its name."""
    nth: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    """which of them, counted over all links that match, from when output began to flow."""
    at: Literal["request", "response"] = "request"
    """hold the request, or the answer to it."""
    link: Links | None = None
    """where it passes; the default are the links of the pipeline, or those between brokers for requests
    that only brokers send.
    """
    transactional_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    """a glob, for requests of these transactional ids only."""
    client_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    """a glob, for requests of these clients only."""
    since: FaultName | None = None
    """count from the proof of this fault."""
    then: Literal["deliver", "lose"] = "deliver"
    """deliver the frame once the fault is in force, or lose it and end its connection."""

    @property
    def frame(self) -> str:
        """Which request or response it is, in words."""
        frame = f"{self.request} {self.nth}" if self.at == "request" else f"the response to {self.request} {self.nth}"
        of = f" of {self.transactional_id}" if self.transactional_id else ""
        since = f" since {self.since}" if self.since else ""
        return f"{frame}{of}{since}"

    @property
    def moment(self) -> str:
        return f"while {self.frame} was on the wire"

    def __str__(self) -> str:
        return f"while {self.frame} is on the wire"


class AfterFault(Moment):
    """`fault: cut-1`: once another fault of the scenario is proved (or only injected), or some time after that."""

    fault: FaultName
    """its name, or its kind with a number, e.g. ``cut_link-1``."""
    once: Literal["injected", "proved"] = "proved"
    """which moment of it."""
    after_s: Seconds = Field(alias="after", default=0.0)
    """how long after that."""

    def __str__(self) -> str:
        later = f"{spoken_seconds(self.after_s)} after" if self.after_s else "once"
        return f"{later} {self.fault} is {self.once}"


def _batch(value: Any) -> Any:
    """One message for both kinds of values, where a union would show an error for each."""
    if value == LAST or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise WrongValueError("not-a-batch", f"{shown(value)} is not a batch; write its number, counted from 0, or last")


LAST: Literal["last"] = "last"
Batch = Annotated[
    int | Literal["last"],
    BeforeValidator(_batch),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "last"}]}),
]
Seen = Literal["planned", "rows", "done"]


class AtBatch(Moment):
    """`batch: 2, seen: rows`: how far a batch of a Spark job is, by its checkpoint and its sink.

    =======  ===================================================================================
    planned  the checkpoint has its plan (``offsets/2``); nothing of it may be written yet
    rows     rows of it are in the sink, committed or not, and the checkpoint does not say it is done
    done     the checkpoint says it is done (``commits/2``)
    =======  ===================================================================================

    ``last`` is the batch in which all of the workload is planned; which one that is, is known once the loader has ended.
    """

    batch: Batch
    """its number in the checkpoint, from 0 on."""
    seen: Seen = "rows"
    """how far it is, see above."""

    def __str__(self) -> str:
        batch = "the last batch" if self.batch == LAST else f"batch {self.batch}"
        if self.seen == "rows":
            return f"when rows of {batch} are in the sink and it is not done"
        return f"when {batch} is {self.seen}"


Trigger = After | Progress | OnRequest | AfterFault | AtBatch

_TRIGGERS: Mapping[str, type[Trigger]] = {
    "request": OnRequest,
    "fault": AfterFault,
    "batch": AtBatch,
    "progress": Progress,
    "after": After,
}
_HELP = "write {after: 5s}, {progress: 40%}, {request: EndTxn, nth: 20}, {batch: 2, seen: rows} or {fault: NAME}"


def _one_trigger(value: Any) -> Any:
    """Choose the kind of trigger by its key, so that error messages are about this kind only."""
    if isinstance(value, Trigger):
        return value
    if not isinstance(value, Mapping) or not value:
        raise WrongValueError("not-a-trigger", f"this is not a trigger; {_HELP}")
    found = [key for key in _TRIGGERS if key in value]
    if not found:
        first = next(iter(value))
        raise WrongValueError("unknown-trigger", f"there is no trigger {shown(first)}{did_you_mean(first, _TRIGGERS)}; {_HELP}")
    if len(found) > 1 and found != ["fault", "after"]:
        raise WrongValueError("two-triggers", f"{' and '.join(found)} are triggers of different kinds; {_HELP}")
    return _TRIGGERS[found[0]].model_validate(value)


When = Annotated[Trigger, BeforeValidator(_one_trigger)]
