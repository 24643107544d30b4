"""Triggers: when a fault is injected.

=============================  ==========================================================================================
{after: 5s}                    after output flows
{progress: 40%}                of the workload can be read at the pipeline's output
{request: EndTxn, nth: 20}     the 20th EndTxn since faults may begin is on the wire: held, while the fault is injected
{fault: cut, after: 2s}        after another fault of the scenario was proved
=============================  ==========================================================================================

Requests have their names from https://kafka.apache.org/protocol.html#protocol_api_keys. Who sends what is taken from the
``listeners`` of each ``*Request.json`` of Kafka 4.3 and, where both may, from what really passes a client's listener and the
inter-broker one.
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
        ValueError: there is none of this name; the message lists them.
    """
    if isinstance(text, str) and text in NAMES:
        return text
    raise ValueError(
        f"{shown(text)} is not a request of Kafka's protocol{did_you_mean(text, NAMES)}; there are: {', '.join(sorted(NAMES))}"
    )


Api = Annotated[str, BeforeValidator(api), WithJsonSchema({"type": "string", "enum": sorted(NAMES)})]


class After(Declared):
    """`after: 5s`, counted from the moment when output flows."""

    after_s: Seconds = Field(alias="after")

    def __str__(self) -> str:
        return f"{spoken_seconds(self.after_s)} after output flows"


class Progress(Declared):
    """`progress: 40%` of the workload committed at the pipeline's output."""

    percent: Percent = Field(alias="progress")

    def __str__(self) -> str:
        return f"at {self.percent:g} % of the workload"


class OnRequest(Declared):
    """`request: EndTxn, nth: 20, at: request`: that frame is on the wire, and held there while the fault is injected.

    ``nth`` counts, over all links meant, from the moment when faults may begin (output flows). Without ``link`` the links of
    the pipeline are meant, or those between brokers for what only brokers send. Ids are globs; without one, any will do.
    ``since`` begins to count when another fault was proved. ``then: lose`` closes the connection instead of letting the frame
    go on.
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
        what = f"{self.request} {self.nth}" if self.at == "request" else f"the response to {self.request} {self.nth}"
        of = f" of {self.transactional_id}" if self.transactional_id else ""
        since = f" since {self.since}" if self.since else ""
        return f"while {what}{of}{since} is on the wire"


class AfterFault(Declared):
    """`fault: cut-1`: once another fault of the scenario was proved (or just injected), or some time after that."""

    fault: FaultName
    once: Literal["injected", "proved"] = "proved"
    after_s: Seconds = Field(alias="after", default=0.0)

    def __str__(self) -> str:
        later = f"{spoken_seconds(self.after_s)} after" if self.after_s else "once"
        return f"{later} {self.fault} is {self.once}"


Trigger = After | Progress | OnRequest | AfterFault

_MOMENTS: Mapping[str, type[After | Progress | OnRequest | AfterFault]] = {
    "request": OnRequest,
    "fault": AfterFault,
    "progress": Progress,
    "after": After,
}
_HELP = "write {after: 5s}, {progress: 40%}, {request: EndTxn, nth: 20} or {fault: NAME}"


def _one_trigger(value: Any) -> Any:
    """Tell them apart by their key, so that errors speak of one of them."""
    if isinstance(value, Trigger):
        return value
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"this is no trigger; {_HELP}")
    found = [key for key in _MOMENTS if key in value]
    if not found:
        raise ValueError(f"there is no trigger {shown(next(iter(value)))}{did_you_mean(next(iter(value)), _MOMENTS)}; {_HELP}")
    if len(found) > 1 and found != ["fault", "after"]:
        raise ValueError(f"{' and '.join(found)} are triggers of different kinds; {_HELP}")
    return _MOMENTS[found[0]].model_validate(value)


When = Annotated[After | Progress | OnRequest | AfterFault, BeforeValidator(_one_trigger)]
