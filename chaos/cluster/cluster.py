"""A Kafka cluster as its clients see it: where its brokers are, and how one is let in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from chaos.cluster import protocol
from chaos.cluster.addresses import Address, joined

_ASK_S = 2.0
_SOCKET_MS = 5000
INTERNAL = frozenset({"__transaction_state", "__consumer_offsets"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster.

    Attributes:
        brokers: node id -> where this broker can always be reached, past any proxy.
        prefix: of every name that we make; empty where the cluster is ours.
        replication: replicas of a topic.
        options: of librdkafka clients: TLS, SASL and whatever else is declared.
        java: the same for Kafka's Java clients.
    """

    brokers: Mapping[int, Address]
    prefix: str = ""
    replication: int = 3
    options: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """For clients that no fault may touch."""
        return joined(list(self.brokers.values()))

    @property
    def is_encrypted(self) -> bool:
        """Whether its connections are under TLS."""
        return self.options.get("security.protocol", "").upper().endswith("SSL")

    def client(self, bootstrap: str = "", hear: Callable[[KafkaError], object] = lambda _error: None) -> AdminClient:
        """A client that asks, and says nothing in our logs.

        Args:
            bootstrap: instead of all brokers.
            hear: told of every error of a connection.
        """
        own: dict[str, Any] = {
            "bootstrap.servers": bootstrap or self.bootstrap,
            "log_level": 0,
            "socket.timeout.ms": _SOCKET_MS,
            "error_cb": hear,
        }
        return AdminClient({**self.options, **own})

    def answers(self, number: int) -> bool:
        """Whether a broker answers a request: a port that is open is no broker yet."""
        address = self.brokers[number]
        if not self.is_encrypted:
            return protocol.answers(address)
        try:
            self.client(joined([address])).list_topics(timeout=_ASK_S)
        except KafkaException:
            return False
        return True

    def watched(self, topic: str) -> bool:
        """Whether the health of a topic is our business: ours, and what transactions and groups rest on."""
        return topic in INTERNAL or topic.startswith(self.prefix)
