"""`chaos audit topics`: compare two topics, or two folders of Parquet, by a model or a query, with Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.audit import identity as audit_identity
from chaos.audit import landings, questions, settings, since_report
from chaos.audit import logs as audit_logs
from chaos.audit import since as audit_since
from chaos.audit.command import Audit, Echo
from chaos.audit.judge import judge
from chaos.audit.logs import AuditUsageError, Topics
from chaos.audit.master import require_master
from chaos.audit.questions import Question
from chaos.audit.where import Where, check_routing
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.judging import spark_session
from verifiers.base import Finding


@dataclass(frozen=True, slots=True)
class OfTopics:
    """The options of the command; an empty text for one that was not given.

    Attributes:
        model: as `audit_identity.model` reads it.
        expected: a query that gives the right rows, or ``@`` and its file, in place of `model`.
        state: whether only the last value of each key of the sink counts.
        identity: dense-key, key, header:NAME, or SQL over key, value and headers.
        routing: ``same`` if a record must stay in its partition, ``any`` if the pipeline chooses one.
        master: the URL of a Spark master.
        conf: settings of Spark, each as ``NAME=VALUE``.
        since: the file of an earlier report, from which to go on.
        keep: whether there will be a report, from which another audit may go on.
    """

    where: Where
    source: tuple[str, ...] = ()
    sink: tuple[str, ...] = ()
    group: str = ""
    model: str = ""
    expected: str = ""
    state: bool = False
    identity: str = audit_identity.DENSE
    routing: str = "same"
    master: str = "local[*]"
    conf: tuple[str, ...] = ()
    since: str = ""
    keep: bool = False
    name: str = "topics"

    def check(self) -> None:
        """Raise AuditUsageError if options are missing or exclude each other."""
        require_identity(self.identity)
        if self.model and self.expected:
            raise AuditUsageError("--model and --expected-sql: both say what is right; leave one out")
        if not self.model and not self.expected:
            raise AuditUsageError(
                "missing: --model, or --expected-sql: one says what is right; without either, use chaos audit transactions"
            )
        if self.expected and self.identity.startswith("header:"):
            raise AuditUsageError(
                "--identity header:NAME and --expected-sql: rows of a query have no headers; name an expression"
            )
        if self.state and (not self.expected or self.identity not in (audit_identity.DENSE, audit_identity.KEY)):
            raise AuditUsageError("--as-state needs --expected-sql with one row for each key, and no --identity but the key")
        check_routing(self.routing, self.source, self.sink)
        if self.where.landed and self.identity.startswith("header:"):
            raise AuditUsageError("--identity header:NAME needs topics: headers are not landed; land the header as the key")
        needed = {"--source": self.source, "--sink": self.sink}
        self.where.check(needed, {"--group": self.group, "--since": self.since}, "folders", "topics")
        if self.since and self.expected:
            why = "a query may need records that were audited before; audit everything, or use --model"
            raise AuditUsageError(f"--since and --expected-sql: {why}")
        settings.read(self.conf)
        if not self.where.landed and not self.where.landing and not spark_session.is_here(self.master):
            why = "its executors may run on other machines; name a folder or URL that they reach, and this machine too"
            raise AuditUsageError(f"--spark-master {self.master} needs --landing: {why}")

    @property
    def topics(self) -> Topics | None:
        """Topics and how to reach them; None if they were landed. Raises what `Where.connected` raises."""
        identity = "key" if self.expected else audit_identity.sql(self.identity)
        return self.where.connected(Topics("", self.source, self.sink, self.group, identity, exact=bool(self.expected)))

    def run(self, echo: Echo) -> Audit:
        """Audit; `Audit.problem` says why there is no verdict.

        Raises:
            AuditUsageError: the audit is not possible: Spark did not start, or something that it needs is missing.
        """
        question, conf = self.question(), settings.read(self.conf)
        before = since_report.read(self.since, self.shared) if self.since else None
        kept = before.kept if before else None
        began_s = clock.monotonic_s()
        try:
            require_master(self.master)
            landings.check(self.where, self.master)
            topics = self.topics
            fixed = audit_logs.fix(topics) if topics else None
            fixed, begun = before.begun(fixed) if before and fixed else (fixed, audit_since.START)
            records = fixed.records if fixed else audit_logs.counted(self.where.landed)
            parts = landings.parts(self.where, self.master, records, echo)
            with (
                landings.folder(self.where) as folder,
                landings.landing(self.where, self.master, topics, fixed, folder) as land,
                spark_session.of_audit(self.master, parts, records, conf) as spark,
            ):
                began_s = clock.monotonic_s()
                question.require_known(spark)
                fixed = land(spark)
                as_it_is = topics is not None or bool(self.expected)
                logs = audit_logs.landed(spark, folder, fixed, "key" if as_it_is else audit_identity.sql(self.identity))
                spark_session.suit(spark, logs.records, conf)
                found, kept = self._judged(logs, question, begun)
                if self.since and kept and (why := kept.get("why_not")):
                    echo(f"--since: no audit can go on from this one: {why}")
                return Audit(found, logs.records, clock.monotonic_s() - began_s, reached=kept)
        except spark_session.NotStartedError as error:
            return Audit(seconds=clock.monotonic_s() - began_s, problem=str(settings.blamed(conf, error)), reached=kept)
        except InconclusiveError as error:
            return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error), reached=kept)

    def _judged(
        self, logs: audit_logs.Logs, question: Question, begun: audit_since.Reached
    ) -> tuple[tuple[Finding, ...], Mapping[str, Any] | None]:
        """Return the findings, and what the report keeps for an audit that goes on from here."""
        if self.where.landed or self.expected:
            return judge(logs, question.ask(logs)), None
        found, reached = audit_since.judged(logs, question.ask, begun, keep=self.keep)
        return found, None if reached is None else since_report.to_json(reached, logs.fixed, self.shared)

    @property
    def shared(self) -> Mapping[str, object]:
        """The options that an audit and the one before it must share."""
        return {
            "--source": list(self.source),
            "--sink": list(self.sink),
            "--group": self.group,
            "--model": self.model,
            "--identity": self.identity,
            "--routing": self.routing,
        }

    def question(self) -> Question:
        """How the logs are compared."""
        anywhere = self.routing == "any"
        if self.expected:
            return questions.by_query(self.expected, self.identity, self.source, state=self.state, anywhere=anywhere)
        return questions.by_model(self.model, self.identity, headers=not self.where.landed, anywhere=anywhere)


def require_identity(identity: str) -> None:
    """Raise AuditUsageError if the identity names nothing."""
    if not identity.strip() or not identity.removeprefix("header:").strip():
        raise AuditUsageError(f"--identity {identity!r}: names nothing; write dense-key, key, header:NAME or SQL")
