"""`chaos audit follow`: judge the topics of a live pipeline as they grow, without Spark."""

from dataclasses import dataclass

from chaos.audit.command import Audit, Echo
from chaos.audit.follow import live, options
from chaos.audit.follow.options import Following, Plan
from chaos.audit.logs import AuditUsageError, Topics
from chaos.audit.where import Where, check_routing
from chaos.common import clock
from chaos.common.errors import InconclusiveError


@dataclass(frozen=True, slots=True)
class OfFollowing:
    """The options of the command; an empty text for one that was not given.

    Attributes:
        model: ``identity`` to compare values too; empty to compare identities alone.
        identity: key, row, header:NAME, or dense-key, which means key here.
        routing: ``same`` if a record must stay in its partition, ``any`` if the pipeline chooses one.
        options: how the topics are followed.
    """

    where: Where
    source: tuple[str, ...] = ()
    sink: tuple[str, ...] = ()
    group: str = ""
    model: str = ""
    identity: str = "dense-key"
    routing: str = "same"
    options: Following = Following()  # noqa: RUF009 - it is frozen
    name: str = "follow"

    def check(self) -> None:
        """Raise AuditUsageError if options are missing or exclude each other."""
        if not self.identity.strip():
            raise AuditUsageError(f"--identity {self.identity!r}: names nothing; write key, row or header:NAME")
        check_routing(self.routing, self.source, self.sink)
        self.where.check({"--source": self.source, "--sink": self.sink}, {}, "", "")
        options.check(self._plan(self._topics))

    def run(self, echo: Echo) -> Audit:
        """Follow until the time is over or a signal arrives, without Spark."""
        began_s = clock.monotonic_s()
        try:
            topics = self.where.connected(self._topics)
            assert topics is not None  # noqa: S101 - there are no folders
            found, records = live.run(self._plan(topics), echo)
        except InconclusiveError as error:
            return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))
        return Audit(found, records, clock.monotonic_s() - began_s)

    @property
    def _topics(self) -> Topics:
        return Topics(self.where.bootstrap, self.source, self.sink, self.group)

    def _plan(self, topics: Topics) -> Plan:
        return Plan(topics, self.identity, self.model, self.routing, self.options)
