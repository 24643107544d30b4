"""Triggers: when a fault is injected.

=============================  ==========================================================================================
{after: 5s}                    five seconds after output began to flow
{progress: 40%}                some time after 40 % of the workload can be read at the pipeline's output
{request: EndTxn, nth: 20}     while the 20th EndTxn is on the wire: it is held while the fault is injected
{fault: cut, after: 2s}        two seconds after another fault of the scenario was proved
{batch: 2, seen: rows}         when rows of batch 2 of a Spark job are in its sink, and the batch is not done
=============================  ==========================================================================================

Requests have the names of https://kafka.apache.org/protocol.html#protocol_api_keys. Whether clients or brokers send a request
is taken from the ``listeners`` of each ``*Request.json`` of Kafka 4.3; where these name both, from the requests that were seen
on client listeners and on the inter-broker listener.
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
    """Check the name of a request.

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
    """When a fault is injected; `str` describes the event to wait for."""

    @property
    def moment(self) -> str:
        """The moment as reports describe it, e.g. ``while EndTxn 3 was on the wire``; "" if no log shows it."""
        return ""


class After(Moment):
    """`after: 5s`, counted from when output began to flow."""

    after_s: Seconds = Field(alias="after")
    """how long after output began to flow."""

    def __str__(self) -> str:
        return f"{spoken_seconds(self.after_s)} after output flows"


class Progress(Moment):
    """`progress: 40%` of the workload committed at the pipeline's output.

    It counts the records that a read_committed reader of the output can see: duplicates count; transaction markers and
    aborted rows do not.

    The output grows when the pipeline commits rows. A fault at that moment would always strike the same step of the pipeline's
    cycle, and never fall between a position and its rows. So the fault also waits for a part of the usual time between two
    growths, and the seed of the run decides for which part. To strike at one step of the cycle, aim at a request:
    ``{request: OffsetCommit, nth: 20}``.
    """

    percent: Percent = Field(alias="progress")
    """how much of the workload."""
    at: Literal["growth"] | None = None
    """``growth`` strikes as soon as the output is seen to grow."""

    @property
    def is_offset(self) -> bool:
        """Whether the fault also waits for a part of the time between two growths."""
        return self.at is None

    def __str__(self) -> str:
        return f"at {self.percent:g} % of the workload" + ("" if self.is_offset else ", when the output grows")


class OnRequest(Moment):
    """`request: EndTxn, nth: 20, at: request`: that frame is held on the wire while the fault is injected."""

    request: Api
    """the name of the request."""
    nth: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    """which of these requests, counted over all matching links from when output began to flow."""
    at: Literal["request", "response"] = "request"
    """hold the request, or the answer to it."""
    link: Links | None = None
    """the links that it passes; the default is the links of the pipeline or, for requests that only brokers send, the links
    between brokers.
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
        """The request or response in words."""
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
    """the name of the other fault, or its kind with a number, e.g. ``cut_link-1``."""
    once: Literal["injected", "proved"] = "proved"
    """the moment of that fault."""
    after_s: Seconds = Field(alias="after", default=0.0)
    """how long after that moment."""

    def __str__(self) -> str:
        later = f"{spoken_seconds(self.after_s)} after" if self.after_s else "once"
        return f"{later} {self.fault} is {self.once}"


def _batch(value: Any) -> Any:
    """Check both kinds of values at once; a union would report an error for each."""
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
    """`batch: 2, seen: rows`: a batch of a Spark job reaches a stage, by its checkpoint and its sink.

    =======  ===================================================================================
    planned  the checkpoint has the plan of the batch (``offsets/2``); perhaps no row is written yet
    rows     rows of the batch are in the sink, committed or not, and the batch is not done
    done     the checkpoint has the commit of the batch (``commits/2``)
    =======  ===================================================================================

    ``last`` is the batch whose plan reaches the end of the workload; its number is known once the loader has ended.
    """

    batch: Batch
    """the number of the batch in the checkpoint, counted from 0."""
    seen: Seen = "rows"
    """the stage, as above."""

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
