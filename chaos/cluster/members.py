"""The members of a consumer group, of the classic protocol or of the one of KIP-848 (``group.protocol=consumer``).

confluent-kafka 2.16.1 describes classic groups only, and brokers answer it that any other group is dead. ConsumerGroupDescribe
describes the others; brokers have it from 3.7 on, and kafka-python 3.0.12 has no class for it. Its schema is that of KIP-848.
"""

import warnings
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from chaos.cluster import login
from chaos.cluster.addresses import Address
from chaos.cluster.protocol import ERROR_CODES, answer_to

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.metadata import ApiVersionsRequest

    class ConsumerGroupDescribeRequest(ApiMessage, load_json="chaos.cluster.schemas"):  # type: ignore[misc, call-arg]
        """As Kafka's schema has it, version 0."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json="chaos.cluster.schemas"):  # type: ignore[misc, call-arg]
        """Likewise."""


_UNKNOWN = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION)
_NO_SUCH_GROUP = ERROR_CODES["GROUP_ID_NOT_FOUND"]
_STABLE = "Stable"


class Member(NamedTuple):
    """One member.

    Attributes:
        instance_id: its ``group.instance.id``; None for a dynamic member.
        topics: those of its assignment.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    topics: frozenset[str]


class Members(NamedTuple):
    """What its coordinator says of a group; one that does not exist has no members."""

    stable: bool = False
    members: tuple[Member, ...] = ()


def of_classic(admin: AdminClient, group: str, within_s: float) -> Members | None:
    """Describe a group; None if it does not exist, or is not classic.

    Raises:
        KafkaException: its coordinator does not answer now.
    """
    asked: Any = admin.describe_consumer_groups([group], request_timeout=within_s)[group]
    try:
        found = asked.result(within_s + 1)
    except KafkaException as error:
        if error.args[0].code() not in _UNKNOWN:
            raise
        return None
    if found.state == ConsumerGroupState.DEAD:
        return None
    members = (
        Member(one.member_id, one.group_instance_id, one.client_id, _topics(one.assignment, "topic")) for one in found.members
    )
    return Members(found.state == ConsumerGroupState.STABLE, tuple(members))


def of_consumer_protocol(coordinator: Address, options: Mapping[str, str], group: str, within_s: float) -> Members:
    """Describe a group of KIP-848; one that is not of that kind has no members.

    Args:
        options: of librdkafka clients, for TLS and a login.

    Raises:
        KafkaException: the coordinator does not answer now, or with an error.
    """
    asked = ConsumerGroupDescribeRequest(version=0, group_ids=[group], include_authorized_operations=False)
    try:
        with closing(login.connect(coordinator, options, within_s)) as connection:
            known = answer_to(connection, ApiVersionsRequest(version=0)).api_keys
            if all(one.api_key != asked.API_KEY for one in known):
                return Members()
            (found,) = answer_to(connection, asked).groups
    except OSError as error:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))) from error  # noqa: SLF001 - librdkafka's own codes
    if found.error_code == _NO_SUCH_GROUP:
        return Members()
    if found.error_code:
        raise KafkaException(KafkaError(found.error_code))
    members = (
        Member(one.member_id, one.instance_id, one.client_id, _topics(one.assignment, "topic_name")) for one in found.members
    )
    return Members(found.group_state == _STABLE, tuple(members))


def _topics(assignment: Any, name: str) -> frozenset[str]:
    return frozenset(getattr(place, name) for place in assignment.topic_partitions)
