"""`chaos audit transactions`: check that a group commits rows and positions atomically, on any cluster and without a model.

`chaos.judging.transaction_logs` reads the logs, and `verifiers.transactions` judges them.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from chaos.audit.command import Audit, Echo
from chaos.audit.logs import AuditUsageError, Topics
from chaos.audit.where import Where
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.judging import transaction_logs
from chaos.judging.transaction_logs import NotTransactionalError
from verifiers.base import Finding
from verifiers.transactions import logs
from verifiers.transactions.logs import Logs, LogsError
from verifiers.transactions.verifier import RowsPerRecord, Transactions

_NUMBER = r"\d+(?:\.\d+)?"
_ROWS = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class OfTransactions:
    """The options of the command; an empty text for one that was not given.

    Attributes:
        sink: the topics to which only the application writes.
        shared: the topics to which others write as well.
        rows_per_record: ``1`` or ``0..1``.
        timers: whether the application writes rows that no record caused.
    """

    where: Where
    group: str = ""
    sink: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    rows_per_record: str = ""
    timers: bool = False
    name: str = "transactions"

    def check(self) -> None:
        """Raise AuditUsageError if options are missing or exclude each other."""
        rows_per_record(self.rows_per_record)
        require_apart(self.sink, self.shared)
        self.where.check({"--group": self.group}, {}, "a folder", "a cluster")

    def run(self, _echo: Echo) -> Audit:
        """Audit without Spark: only the headers of batches are read, and they are few."""
        rows, sinks = rows_per_record(self.rows_per_record), frozenset(self.sink)
        verifier = Transactions(rows, sinks, frozenset(self.shared), timers=self.timers)
        began_s = clock.monotonic_s()
        try:
            topics = self.where.connected(Topics("", (), self.sink, self.group))
            found, records = audit(topics, verifier, self.where.landed, self.where.landing)
        except InconclusiveError as error:
            return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))
        return Audit((found,), records, clock.monotonic_s() - began_s)


def rows_per_record(text: str) -> RowsPerRecord | None:
    """Parse ``1``, or ``0..1``; None for an empty text.

    Raises:
        AuditUsageError: it is neither.
    """
    if not text:
        return None
    found = _ROWS.fullmatch(text)
    if found is None or float(found[2] or found[1]) < float(found[1]):
        raise AuditUsageError(f"--rows-per-record {text}: write the number of rows per record, 1, or the least and most, 0..1")
    return RowsPerRecord(float(found[1]), float(found[2] or found[1]))


def require_apart(alone: Collection[str], shared: Collection[str]) -> None:
    """Raise AuditUsageError if a topic is both the application's alone and shared with others."""
    both = sorted(set(alone) & set(shared))
    if both:
        raise AuditUsageError(f"--sink and --shared-sink {both[0]}: a topic cannot be both the application's alone and shared")


def audit(topics: Topics | None, verifier: Transactions, landed: str, landing: str) -> tuple[Finding, int]:
    """Audit the transactions; return the finding, and the number of records in the batches that were read.

    Args:
        topics: the cluster, the group, and the sinks that are its application's alone; None for logs that were landed.
        landed: the folder of the landed logs.
        landing: the folder where logs are landed and kept, or an empty text.

    Raises:
        AuditUsageError: no such group or topic, a group without transactions, or a folder that cannot be used.
        InconclusiveError: a broker does not answer, or what it answers cannot be read.
    """
    try:
        if topics is None:
            found = logs.load(Path(landed))
        else:
            found = _landed(topics, landing, with_sources=verifier.rows_per_record is not None)
    except (NotTransactionalError, LogsError) as error:
        raise AuditUsageError(str(error)) from error
    _require_known(found, "--sink", verifier.alone)
    _require_known(found, "--shared-sink", verifier.shared)
    return verifier.check(found), sum(batch.records for batch in found.rows("batches"))


def _require_known(found: Logs, option: str, topics: Collection[str]) -> None:
    there = {extent.topic for extent in found.rows("extents")} - {logs.OFFSETS, logs.STATES}
    unknown = sorted(set(topics) - there)
    if unknown:
        known = ", ".join(sorted(there)) or "none"
        raise AuditUsageError(f"{option} {unknown[0]}: is not among the topics of these logs: {known}")


def _landed(topics: Topics, landing: str, *, with_sources: bool) -> Logs:
    place = Path(landing)
    if landing and any((place / name).exists() for name in logs.SCHEMAS):
        raise AuditUsageError(f"--landing {landing}: logs are there already: name another, or audit them with --landed")
    asked = transaction_logs.LandingRequest(topics.bootstrap, (topics.group,), topics.librdkafka, topics.sinks, with_sources)
    found = transaction_logs.land(asked)
    if landing:
        try:
            logs.write(place, found)
        except OSError as error:
            raise AuditUsageError(f"--landing {landing}: {error.strerror}: is it a folder of this machine?") from error
    return found
