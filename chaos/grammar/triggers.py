"""Triggers: when a fault is injected.

=============================  ==========================================================================================
{after: 5s}                    five seconds after output began to flow
{progress: 40%}                when 40 % of the workload can be read at the pipeline's output
{request: EndTxn, nth: 20}     while the 20th EndTxn is on the wire: it is held while the fault is injected
{fault: cut, after: 2s}        two seconds after another fault of the scenario was proved
=============================  ==========================================================================================

Requests have the names of https://kafka.apache.org/protocol.html#protocol_api_keys. Whether clients or brokers send a request
is taken from the ``listeners`` of each ``*Request.json`` of Kafka 4.3; where these name both, from what was seen to pass a
listener of clients and the inter-broker one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from chaos.grammar.base import Declared, FaultName, did_you_mean, shown
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
    raise ValueError(
        f"{shown(text)} is not a request of Kafka's protocol{did_you_mean(text, NAMES)}; there are: {', '.join(sorted(NAMES))}"
    )


Api = Annotated[str, BeforeValidator(api), WithJsonSchema({"type": "string", "enum": sorted(NAMES)})]


class After(Declared):
    """`after: 5s`, counted from when output began to flow."""

    after_s: Seconds = Field(alias="after")

    def __str__(self) -> str:
        return f"{spoken_seconds(self.after_s)} after output flows"


class Progress(Declared):
    """`progress: 40%` of the workload committed at the pipeline's output."""

    percent: Percent = Field(alias="progress")

    def __str__(self) -> str:
        return f"at {self.percent:g} % of the workload"


class OnRequest(Declared):
    """`request: EndTxn, nth: 20, at: request`: that frame is on the wire, and is held there while the fault is injected.

    ``nth`` counts over all matching links, from when output began to flow, or, with ``since``, from when another fault was
    proved. Without ``link``, the links of the pipeline match, or those between brokers for requests that only brokers send.
    The two ids are globs; without them any id matches. ``then: lose`` closes the connection instead of delivering the frame.
    """

    request: Api
    nth: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    at: Literal["request", "response"] = "request"
    link: Links | None = None
    transactional_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    client_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    since: FaultName | None = None
    then: Literal["deliver", "lose"] = "deliver"

    def __str__(self) -> str:
        frame = f"{self.request} {self.nth}" if self.at == "request" else f"the response to {self.request} {self.nth}"
        of = f" of {self.transactional_id}" if self.transactional_id else ""
        since = f" since {self.since}" if self.since else ""
        return f"while {frame}{of}{since} is on the wire"


class AfterFault(Declared):
    """`fault: cut-1`: once another fault of the scenario is proved (or only injected), or some time after that."""

    fault: FaultName
    once: Literal["injected", "proved"] = "proved"
    after_s: Seconds = Field(alias="after", default=0.0)

    def __str__(self) -> str:
        later = f"{spoken_seconds(self.after_s)} after" if self.after_s else "once"
        return f"{later} {self.fault} is {self.once}"


Trigger = After | Progress | OnRequest | AfterFault

_TRIGGERS: Mapping[str, type[After | Progress | OnRequest | AfterFault]] = {
    "request": OnRequest,
    "fault": AfterFault,
    "progress": Progress,
    "after": After,
}
_HELP = "write {after: 5s}, {progress: 40%}, {request: EndTxn, nth: 20} or {fault: NAME}"


def _one_trigger(value: Any) -> Any:
    """Choose the kind of trigger by its key, so that error messages are about this kind only."""
    if isinstance(value, Trigger):
        return value
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"this is not a trigger; {_HELP}")
    found = [key for key in _TRIGGERS if key in value]
    if not found:
        first = next(iter(value))
        raise ValueError(f"there is no trigger {shown(first)}{did_you_mean(first, _TRIGGERS)}; {_HELP}")
    if len(found) > 1 and found != ["fault", "after"]:
        raise ValueError(f"{' and '.join(found)} are triggers of different kinds; {_HELP}")
    return _TRIGGERS[found[0]].model_validate(value)


When = Annotated[After | Progress | OnRequest | AfterFault, BeforeValidator(_one_trigger)]
