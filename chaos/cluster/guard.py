"""The one door through which topics and groups are made and removed; it opens for names of ours only.

On a cluster of our own every name is ours. On one that others use, ours begin with its prefix, and no other is ever touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from chaos.common import clock
from chaos.common.errors import ForeignNameError

_SERVER_S = 10
_WITHIN_S = 15.0
_LEAVE_WITHIN_S = 60.0


class Guard:
    """Makes and removes what begins with a prefix."""

    def __init__(self, prefix: str) -> None:
        """Take the prefix; empty where everything is ours."""
        self.prefix = prefix

    def mine(self, names: Iterable[str]) -> list[str]:
        """The same names, if all of them are ours; also for groups and transactional ids that a client makes by using them.

        Raises:
            ForeignNameError: one does not begin with the prefix.
        """
        asked = list(names)
        foreign = [name for name in asked if not name.startswith(self.prefix) or name == self.prefix]
        if foreign:
            raise ForeignNameError(
                f"{', '.join(map(repr, foreign))} does not begin with {self.prefix!r}, so it is not ours, on a cluster that "
                "others use: nothing was done"
            )
        return asked

    def create(
        self, admin: AdminClient, topics: Iterable[str], replicas: Sequence[Sequence[int]], *, validate_only: bool = False
    ) -> None:
        """Make topics.

        Args:
            admin: a client of the cluster.
            topics: their names.
            replicas: of each partition, its leader first.
            validate_only: the cluster says whether it would, and makes nothing.

        Raises:
            ForeignNameError: one of them is not ours.
            KafkaException: the cluster refuses.
        """
        placed: Any = [list(brokers) for brokers in replicas]
        wanted = [NewTopic(name, num_partitions=len(placed), replica_assignment=placed) for name in self.mine(topics)]
        _settle(admin.create_topics(wanted, operation_timeout=_SERVER_S, validate_only=validate_only))

    def delete(self, admin: AdminClient, topics: Iterable[str]) -> None:
        """Remove topics; one that is not there is no error.

        Raises:
            ForeignNameError: one of them is not ours.
        """
        names = self.mine(topics)
        _settle(admin.delete_topics(names, operation_timeout=_SERVER_S), KafkaError.UNKNOWN_TOPIC_OR_PART)

    def delete_group(self, admin: AdminClient, group: str) -> None:
        """Remove a consumer group once its members have left; one that is not there is no error.

        Raises:
            ForeignNameError: it is not ours.
            DeadlineError: a member does not leave.
        """
        names = self.mine([group])

        def deleted() -> bool:
            _settle(admin.delete_consumer_groups(names, request_timeout=_SERVER_S), KafkaError.GROUP_ID_NOT_FOUND)
            return True

        clock.wait_until(
            deleted, within_s=_LEAVE_WITHIN_S, reason=f"the group {group} to be deleted", every_s=0.5, ignore=(KafkaException,)
        )


def _settle(futures: Mapping[str, Future[Any]], missing: int | None = None) -> None:
    """Wait for all; an error that says that something was missing is none."""
    for future in futures.values():
        try:
            future.result(_WITHIN_S)
        except KafkaException as error:
            if error.args[0].code() != missing:
                raise
