"""`chaos audit tables`: compare two tables, or a table and a topic, with `verifiers.audit`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

import verifiers
from chaos.audit import settings
from chaos.audit.command import Audit, Echo
from chaos.audit.logs import AuditUsageError
from chaos.audit.master import require_master
from chaos.audit.tables import addresses, connectors
from chaos.audit.tables.addresses import Address, Reading
from chaos.audit.where import Where
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.install import artifacts
from chaos.judging import spark_session
from verifiers import Report
from verifiers.base import Finding, Verdict
from verifiers.frames import RowsError

_NAMES = re.compile(r"\w+(\s*,\s*\w+)*")
_NOT_ORDERED = "not asked: --order names the columns that order the rows, the position last"
_CERTAIN = {"source": frozenset({"gaps"}), "sink": frozenset({"duplicates", "values"})}
"""Side whose rows may be incomplete -> verifiers whose anomalies are certain all the same."""


@dataclass(frozen=True)
class OfTables:
    """The options of the command; an empty text for one that was not given.

    Attributes:
        source, sink: addresses (`chaos.audit.tables.addresses`).
        key, order, columns: each as it was typed: a name, names between commas, or, for a key, SQL.
        expected: a query over the table ``source`` that gives the right rows, or ``@`` and its file.
        packages: packages of Maven Central, each as ``group:artifact:version``.
        master: the URL of a Spark master.
        conf: settings of Spark, each as ``NAME=VALUE``.
    """

    where: Where
    source: str = ""
    sink: str = ""
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    expected: str = ""
    packages: tuple[str, ...] = ()
    master: str = "local[*]"
    conf: tuple[str, ...] = ()
    name: str = "tables"

    def check(self) -> None:
        """Raise AuditUsageError if options are missing or exclude each other."""
        needed = {"--source": self.source, "--sink": self.sink, "--key": "".join(self.key).strip()}
        missing = [name for name, value in needed.items() if not value]
        if missing:
            raise AuditUsageError(f"missing: {', '.join(missing)}")
        source, sink = self.sides
        if str(source) == str(sink):
            raise AuditUsageError(
                f"--source and --sink {source}: a table cannot be compared with itself; name another, or a version"
            )
        of_topics = [one for one in self.sides if one.OF_CLUSTER]
        if len(of_topics) > 1:
            raise AuditUsageError(f"--source {source} and --sink {sink}: two topics are compared by chaos audit topics")
        if not of_topics and (self.where.bootstrap or self.where.external):
            raise AuditUsageError(
                "--bootstrap and --external are for topics, and none is named; leave them out, or write topic:NAME"
            )
        connectors.check(self.packages)
        settings.read(self.conf)
        _ = self.query

    @cached_property
    def query(self) -> str | None:
        """The query for the right rows, or that in its file."""
        return settings.query(self.expected) if self.expected else None

    @cached_property
    def sides(self) -> tuple[Address, Address]:
        """Both addresses."""
        return addresses.parse("--source", self.source, self.where), addresses.parse("--sink", self.sink, self.where)

    def run(self, echo: Echo) -> Audit:
        """Audit; `Audit.problem` says why there is no verdict.

        Raises:
            AuditUsageError: the audit is not possible: something that it needs is missing or does not compare.
            RuntimeUnavailableError: the jars that Spark needs are not in the cache, and cannot be fetched.
        """
        began_s = clock.monotonic_s()
        try:
            return self._audit(echo)
        except spark_session.NotStartedError as error:
            problem = str(settings.blamed(settings.read(self.conf), error))
        except InconclusiveError as error:
            problem = str(error)
        return Audit(seconds=clock.monotonic_s() - began_s, problem=problem)

    def _audit(self, echo: Echo) -> Audit:
        require_master(self.master)
        known = [side.look(self.master) for side in self.sides]
        records = None if None in known else sum(filter(None, known))
        jars = connectors.ensure(filter(None, (side.connector for side in self.sides)), self.packages, echo)
        needed = [side.settings(self.master) for side in self.sides]
        of_jars = {"spark.jars": ",".join(map(str, jars))} if jars else {}
        given = spark_session.joined(*needed, of_jars, settings.read(self.conf))
        with spark_session.of_audit(self.master, self._parts(records, echo), records, given) as spark:
            return self.compared(spark, jars)

    def compared(self, spark: SparkSession, jars: Sequence[Path]) -> Audit:
        """Compare the tables in a session.

        Args:
            jars: those that the session has for them.

        Raises:
            AuditUsageError: a table does not exist, Spark lacks a reader for it, or they do not compare.
            InconclusiveError: a table cannot be read, or its rows cannot be judged.
        """
        began_s = clock.monotonic_s()
        source, sink = self.sides
        given = settings.read(self.conf)
        spark_session.suit(spark, 1, given)  # what is asked of logs and catalogs has few rows
        into = sink.open(spark, jars)  # before the source: each row of it has its record there
        out_of = source.open(spark, jars)
        spark_session.suit(spark, into.rows + out_of.rows, given)
        report = self._judged(out_of, into)
        findings = tuple(self._told(one, out_of, into) for one in report.findings)
        read = {"source": out_of.address, "sink": into.address}
        return Audit(findings, report.records + report.rows, clock.monotonic_s() - began_s, read=read)

    def _judged(self, source: Reading, sink: Reading) -> Report:
        """Ask the library.

        Raises:
            AuditUsageError: the tables cannot be compared as asked.
            InconclusiveError: their rows cannot be: some have no key, or others were read the second time.
        """
        try:
            return verifiers.audit(
                source.frame,
                sink.frame,
                key=_listed(self.key),
                order=_listed(self.order) or None,
                expected=self.query,
                columns=_listed(self.columns) or None,
            )
        except RowsError as error:
            raise InconclusiveError(str(error)) from None
        except verifiers.AuditError as error:
            raise AuditUsageError(str(error)) from None

    def _told(self, finding: Finding, source: Reading, sink: Reading) -> Finding:
        """Make a finding UNKNOWN if rows that are absent by right may be the reason; name options, not arguments."""
        if not finding.asked:
            return replace(finding, note=_NOT_ORDERED)
        why = [source.lacking] if finding.verifier not in _CERTAIN["source"] or self.expected else []
        why += [sink.lacking] if finding.verifier not in _CERTAIN["sink"] else []
        doubts = "; ".join(filter(None, why))
        if finding.verdict is not Verdict.INVALID or not doubts:
            return finding
        note = f"{doubts}: that may be the reason"
        return replace(finding, verdict=Verdict.UNKNOWN, note=f"{note}; {finding.note}" if finding.note else note)

    def _parts(self, records: int | None, echo: Echo) -> artifacts.Parts | None:
        """Return Spark's parts, which a topic needs; else what is there already helps a small audit to start sooner."""
        if any(side.OF_CLUSTER for side in self.sides):
            return artifacts.ensure(echo)
        return artifacts.at_hand() if spark_session.is_small(records, self.master) else None


def _listed(given: Sequence[str]) -> list[str]:
    """Return names: ``a,b`` is two of them; anything else between commas is SQL, and one."""
    return [name for one in given for name in (re.split(r"\s*,\s*", one.strip()) if _NAMES.fullmatch(one.strip()) else [one])]
