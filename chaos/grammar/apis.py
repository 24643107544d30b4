"""The requests of Kafka's protocol, by name, and who sends them.

Names and keys: https://kafka.apache.org/protocol.html#protocol_api_keys; who sends what: the ``listeners`` of each
``*Request.json`` of Kafka 4.3 and, where both may, what really passes a client's listener and the inter-broker one.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from chaos.grammar.words import did_you_mean, shown

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
    known = {name.lower(): name for name in NAMES}
    hint = did_you_mean(text, known)
    hint = next((hint.replace(low, name) for low, name in known.items() if f"mean {low}?" in hint), hint)
    raise ValueError(f"{shown(text)} is no request of Kafka's protocol{hint}; there are: {', '.join(sorted(NAMES))}")


Api = Annotated[str, BeforeValidator(api), WithJsonSchema({"type": "string", "enum": sorted(NAMES)})]
