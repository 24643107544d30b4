"""`chaos audit`: two topics, or two folders of Parquet, that no run of ours has filled; asked for, audited, and reported."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.audit import folders
from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit.few_records import FewRecords
from chaos.audit.follow import plan as follow_plan
from chaos.audit.follow.plan import Following, Plan
from chaos.audit.judge import judge
from chaos.audit.logs import ASK_S, AuditUsageError, Fixed, Topics
from chaos.common import clock, files
from chaos.common.errors import InconclusiveError, RuntimeUnavailableError, one_line
from chaos.install import artifacts
from chaos.judging import spark_session
from chaos.report.formatting import number, seconds
from verifiers.base import Finding, Verdict
from verifiers.transactions.verifier import Transactions

STDOUT = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
_WRONG_USAGE = 2
_COLOURS = {Verdict.VALID: "green", Verdict.UNKNOWN: "yellow", Verdict.INVALID: "red"}
_STANDALONE = "spark://"
_LAST_PORT = 65_535
_SHOWN = 3
_ROUTINGS = ("same", "any")
_WIDE = 80
_LONG = 400
_TRANSACTIONS = Transactions().name

Echo = Callable[[str], None]
_Land = Callable[[SparkSession], Fixed | None]


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be audited, and how: the options of the command; an empty text for one that was not given.

    Attributes:
        landed: folder or URL of the logs; else they are topics.
        model: as `audit_identity.model` reads it.
        identity: dense-key, key, header:NAME, or SQL over key, value and headers.
        master: Spark's.
        landing: folder or URL where topics are landed and left; else they are landed in a temporary one.
        external: the file that declares the cluster (docs/external.md), in place of `bootstrap`.
        routing: ``same`` where a record must stay in its partition, ``any`` where the pipeline chooses one.
        expected: a query that says what is right, or ``@`` and the file of it, in place of `model`.
        transactions: whether the group's transactions are audited, and no model is asked for (`chaos.audit.transactions`).
        rows_per_record: ``1`` or ``0..1``, of such an audit.
        timers: whether the application writes rows that no record caused, likewise.
        follow: how topics are followed while they grow (`chaos.audit.follow`); None where they are audited once.
        as_state: whether of each key of the sink the last value counts, and not how it came to that.
        shared: topics that others write to as well, of an audit of transactions.
    """

    landed: str
    bootstrap: str
    source: tuple[str, ...]
    sink: tuple[str, ...]
    group: str
    model: str
    identity: str
    master: str
    landing: str
    external: str = ""
    routing: str = "same"
    expected: str = ""
    transactions: bool = False
    rows_per_record: str = ""
    timers: bool = False
    follow: Following | None = None
    as_state: bool = False
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Attributes:
        records: of both logs.
        seconds: from the first question about the logs to the last finding.
        problem: why nothing could be judged; empty if it could.
    """

    findings: tuple[Finding, ...] = ()
    records: int = 0
    seconds: float = 0.0
    problem: str = ""

    @property
    def verdict(self) -> Verdict:
        """That of its findings; UNKNOWN where something kept it from being judged."""
        return max((one.verdict for one in self.findings), default=Verdict.UNKNOWN)


def main(request: Request, report: Path | None, echo: Echo) -> int:
    """Audit, write the report and show what was found.

    Where the report goes to standard output, everything else goes to standard error.

    Args:
        report: its file, or one of `STDOUT`; None for none.

    Returns:
        The exit code: 0 valid, 1 invalid, 2 wrong usage or a report that cannot be written (there is none then), 3 unknown.
    """
    console, echo = (Console(stderr=True), _to_stderr) if _is_stdout(report) else (Console(), echo)
    try:
        check(request, report)
        done = run(request, echo)
    except AuditUsageError as error:
        echo(f"chaos audit: {error}")
        return _WRONG_USAGE
    problem = _unwritten(report, done) if report else ""
    console.print(table(done, console.width), crop=False, soft_wrap=True)  # an hour's work is not lost with the report
    if problem:
        echo(f"chaos audit: --json {report}: cannot be written: {problem}")
        return _WRONG_USAGE
    return done.verdict.exit_code


def _unwritten(report: Path, audit: Audit) -> str:
    """Write the report; returns why that was not possible."""
    try:
        write(report, audit)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_stdout(report: Path | None) -> bool:
    return str(report) in STDOUT


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")


# what is asked -------------------------------------------------------------------------------------------------------------


def check(request: Request, report: Path | None) -> None:
    """Raise AuditUsageError where too much or too little was given, or where the report cannot be put."""
    if report and not _is_stdout(report):
        _require_file("--json", report)
    if not request.identity.strip() or not request.identity.removeprefix("header:").strip():
        raise AuditUsageError(f"--identity {request.identity!r}: names nothing; write dense-key, key, header:NAME or SQL")
    if request.follow:
        _check_follow(request, request.follow)
    elif request.transactions:
        _check_transactions(request)
    else:
        _check_model(request)


def _require_file(option: str, path: Path) -> None:
    """Raise AuditUsageError where no file can be put; whether it can be written is known when it is."""
    try:
        is_folder, parent = path.is_dir(), Path(os.path.realpath(path)).parent.is_dir()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise AuditUsageError(f"{option} {path}: {error}") from None
    if is_folder:
        raise AuditUsageError(f"{option} {path}: is a folder; a file is needed")
    if not parent:
        raise AuditUsageError(f"{option} {path}: its folder is not there")


def _cluster(request: Request) -> dict[str, str]:
    """The option that says where the cluster is."""
    if request.external and request.bootstrap:
        raise AuditUsageError(f"--external and --bootstrap: the addresses are in {request.external}")
    return {"--external": request.external} if request.external else {"--bootstrap": request.bootstrap}


def _check_model(request: Request) -> None:
    if request.model and request.expected:
        raise AuditUsageError("--model and --expected-sql: both say what is right; leave one out")
    if not request.model and not request.expected:
        raise AuditUsageError(
            "missing: --model, or --expected-sql: what is right; or --transactions, for an audit without a model"
        )
    if request.expected and request.identity.startswith("header:"):
        raise AuditUsageError("--identity header:NAME and --expected-sql: rows of a query have no headers; name an expression")
    asked = {"--rows-per-record": request.rows_per_record, "--timers": request.timers, "--shared-sink": request.shared}
    alone = [name for name, value in asked.items() if value]
    if alone:
        raise AuditUsageError(f"{', '.join(alone)}: only with --transactions")
    _check_state(request)
    _check_routing(request)
    needed = _cluster(request) | {"--source": request.source, "--sink": request.sink}
    given = [name for name, value in (needed | {"--group": request.group, "--landing": request.landing}).items() if value]
    missing = [name for name, value in needed.items() if not value]
    if request.landed and request.identity.startswith("header:"):
        raise AuditUsageError("--identity header:NAME needs topics: headers are not landed; land the header as the key")
    if request.landed and given:
        raise AuditUsageError(f"--landed and {', '.join(given)}: either folders or topics")
    if not request.landed and missing:
        raise AuditUsageError(f"missing: {', '.join(missing)}; or --landed for folders")


def _check_state(request: Request) -> None:
    if request.as_state and (not request.expected or request.identity not in (audit_identity.DENSE, audit_identity.KEY)):
        raise AuditUsageError("--as-state needs --expected-sql, with one row for each key, and no --identity but the key")


def _check_transactions(request: Request) -> None:
    asked = {
        "--model": request.model,
        "--expected-sql": request.expected,
        "--source": request.source,
        "--as-state": request.as_state,
        "--identity": request.identity != audit_identity.DENSE,
        "--routing": request.routing != "same",
    }
    needless = [name for name, value in asked.items() if value]
    if needless:
        raise AuditUsageError(
            f"--transactions and {', '.join(needless)}: no model is asked for, and what a group reads is in its logs"
        )
    from chaos.audit import transactions  # noqa: PLC0415 - each way of auditing imports what it needs, and starts sooner

    transactions.rows_per_record(request.rows_per_record)
    transactions.require_apart(request.sink, request.shared)
    needed = _cluster(request) | {"--group": request.group}
    given = [name for name, value in (needed | {"--landing": request.landing}).items() if value]
    missing = [name for name, value in needed.items() if not value]
    if request.landed and given:
        raise AuditUsageError(f"--landed and {', '.join(given)}: either a folder or a cluster")
    if not request.landed and missing:
        raise AuditUsageError(f"missing: {', '.join(missing)}; or --landed for a folder")


def _check_follow(request: Request, options: Following) -> None:
    cannot = {
        "--transactions": (request.transactions, "Kafka's own logs are landed and judged as a whole"),
        "--expected-sql": (request.expected, "a query may need all of the source, and Spark"),
        "--as-state": (request.as_state, "of a topic that grows, no value is the last"),
        "--landed": (request.landed, "folders do not grow; name topics"),
        "--landing": (request.landing, "nothing is landed"),
    }
    for name, (given, why) in cannot.items():
        if given:
            raise AuditUsageError(f"--follow and {name}: it cannot be followed: {why}")
    _check_routing(request)
    needed = _cluster(request) | {"--source": request.source, "--sink": request.sink}
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise AuditUsageError(f"missing: {', '.join(missing)}")
    topics = Topics(request.bootstrap, request.source, request.sink, request.group)
    follow_plan.check(Plan(topics, request.identity, request.model, request.routing, options))


def _check_routing(request: Request) -> None:
    if request.routing not in _ROUTINGS:
        raise AuditUsageError(f"--routing {request.routing}: must be {' or '.join(_ROUTINGS)}")
    for name, topics in (("--source", request.source), ("--sink", request.sink)):
        twice = sorted(topic for topic in set(topics) if topics.count(topic) > 1)
        if twice:
            raise AuditUsageError(f"{name} {twice[0]}: is named twice")
    both = sorted(set(request.source) & set(request.sink))
    if both:
        raise AuditUsageError(
            f"--source and --sink {both[0]}: a topic cannot be compared with itself; name the one that is written"
        )
    sources, sinks = len(request.source), len(request.sink)
    if request.routing == "same" and sources != sinks and 0 not in {sources, sinks}:
        given = f"{sources} of --source and {sinks} of --sink"
        raise AuditUsageError(f"{given}: what is in the n-th source must be in the n-th sink, unless with --routing any")


def topics_of(request: Request) -> Topics | None:
    """Where the topics are; None where they were landed. A declared cluster is asked for its brokers.

    Raises:
        ScenarioError: the file of the cluster is wrong.
        InconclusiveError: no broker of that cluster answers, or none lets us in.
    """
    if request.landed:
        return None
    identity = "key" if request.expected else audit_identity.sql(request.identity)
    exact = bool(request.expected)
    topics = Topics(request.bootstrap, request.source, request.sink, request.group, identity, exact=exact)
    if not request.external:
        return topics
    from chaos.external import declaration, discovery  # noqa: PLC0415 - the system and its declaration, which only this needs

    external = declaration.load(Path(request.external))
    try:
        cluster = discovery.look(external)
    except RuntimeUnavailableError as error:
        raise InconclusiveError(str(error)) from error
    groups = f"{external.prefix}audit"
    return replace(topics, bootstrap=cluster.bootstrap, librdkafka=cluster.options, java=cluster.java, groups=groups)


def _require_master(master: str) -> None:
    """Ask a standalone master for a connection: Spark itself would try for a minute and print three stack traces.

    Raises:
        AuditUsageError: it is not the URL of a master, or that of a standalone one without a port.
        InconclusiveError: nothing answers at any of its addresses.
    """
    if not spark_session.is_master(master):
        raise AuditUsageError(f"--spark-master {master}: must be local[N], local[*], {_STANDALONE}HOST:PORT, yarn or k8s://…")
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT:
            raise AuditUsageError(f"--spark-master {master}: {_STANDALONE}HOST:PORT is needed")
        with suppress(OSError, UnicodeError), socket.create_connection((host.strip("[]"), int(port)), ASK_S):
            return
    raise InconclusiveError(f"--spark-master {master} does not answer within {ASK_S:g} s: is it up, and reachable?")


# what is done --------------------------------------------------------------------------------------------------------------


def run(request: Request, echo: Echo) -> Audit:
    """Audit; what keeps it from a verdict is told in what it returns.

    Raises:
        AuditUsageError: the audit that is asked for is not possible; Spark was not started, or something needed is not there.
    """
    if request.follow:
        return _followed(request, request.follow, echo)
    if request.transactions:
        return _of_transactions(request)
    question = _question(request)
    began_s = clock.monotonic_s()
    try:
        _require_master(request.master)
        if request.landed:
            folders.check_landed(request.landed, request.master)
        elif request.landing:
            folders.check_landing(request.landing, request.master)
        topics = topics_of(request)
        fixed = audit_logs.fix(topics) if topics else None
        records = fixed.records if fixed else audit_logs.counted(request.landed)
        parts = _parts(request, records, echo)
        with (
            _folder(request) as folder,
            _landing(request, topics, fixed, folder) as land,
            spark_session.of_audit(request.master, parts, records) as spark,
        ):
            began_s = clock.monotonic_s()
            question.require_known(spark)
            fixed = land(spark)
            as_it_is = topics is not None or bool(request.expected)
            logs = audit_logs.landed(spark, folder, fixed, "key" if as_it_is else audit_identity.sql(request.identity))
            spark_session.suit(spark, logs.records)
            return Audit(judge(logs, question.ask(logs)), logs.records, clock.monotonic_s() - began_s)
    except InconclusiveError as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))


@contextmanager
def _landing(request: Request, topics: Topics | None, fixed: Fixed | None, folder: str) -> Iterator[_Land]:
    """What lands the topics, which begins to do so before Spark is there if it can; of folders nothing has to be landed."""
    if topics is None or fixed is None:
        yield lambda _spark: None
        return
    few = spark_session.is_small(fixed.records, request.master)
    if few and not request.landing and not topics.exact and topics.identity == audit_identity.KEY:
        with FewRecords(topics, fixed, Path(folder)) as landing:
            yield lambda _spark: landing.landed()
    else:
        yield lambda spark: audit_logs.land(spark, topics, fixed, folder)


def _of_transactions(request: Request) -> Audit:
    """Without Spark: the headers of batches, which is all that is read, are few."""
    from chaos.audit import transactions  # noqa: PLC0415 - see `_check_transactions`

    rows, sinks = transactions.rows_per_record(request.rows_per_record), frozenset(request.sink)
    verifier = Transactions(rows, sinks, frozenset(request.shared), timers=request.timers)
    began_s = clock.monotonic_s()
    try:
        found, records = transactions.audit(topics_of(request), verifier, request.landed, request.landing)
    except InconclusiveError as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))
    return Audit((found,), records, clock.monotonic_s() - began_s)


def _followed(request: Request, options: Following, echo: Echo) -> Audit:
    """Without Spark, until the time is over or a signal comes."""
    from chaos.audit.follow import live  # noqa: PLC0415 - see `_check_transactions`

    began_s = clock.monotonic_s()
    try:
        topics = topics_of(replace(request, identity=audit_identity.KEY))
        assert topics is not None  # noqa: S101 - no folders
        plan = Plan(topics, request.identity, request.model, request.routing, options)
        found, records = live.run(plan, echo)
    except InconclusiveError as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))
    return Audit(found, records, clock.monotonic_s() - began_s)


def _parts(request: Request, records: int | None, echo: Echo) -> artifacts.Parts | None:
    """Topics cannot be read without; small landed logs are read sooner with the class archive, if there is one already."""
    if not request.landed:
        return artifacts.ensure(echo)
    return artifacts.at_hand() if spark_session.is_small(records, request.master) else None


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of the logs.

    Attributes:
        require_known: raises AuditUsageError where Spark cannot read it.
        ask: makes of the logs what the verifiers are asked.
    """

    require_known: Callable[[SparkSession], None]
    ask: Callable[[audit_logs.Logs], audit_identity.Asked]


def _question(request: Request) -> _Question:
    """Dense keys are told by their partitions, so by any routing they are keys like others."""
    anywhere = request.routing == "any"
    if request.expected:
        from chaos.audit import expected  # noqa: PLC0415 - only this needs the grammar of scenarios: half a second

        query = expected.model(request.expected, request.identity, state=request.as_state)
        known = partial(expected.require_known, asked=query, topics=request.source)
        return _Question(known, partial(expected.by_model, asked=query, anywhere=anywhere))
    model = audit_identity.model(request.model)
    known = partial(audit_identity.require_known, identity=request.identity, demanded=model, headers=not request.landed)
    if request.identity == audit_identity.DENSE and not anywhere:
        return _Question(known, partial(audit_identity.dense, demanded=model))
    return _Question(known, partial(audit_identity.by_key, demanded=model, anywhere=anywhere))


@contextmanager
def _folder(request: Request) -> Iterator[str]:
    """Where the logs are, or will be landed."""
    if given := request.landed or request.landing:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="chaos-audit-", ignore_cleanup_errors=True) as folder:
        yield folder


# what was found ------------------------------------------------------------------------------------------------------------


def write(path: Path, audit: Audit) -> None:
    """Write the report: in one step where it is a regular file."""
    report = {
        "verdict": audit.verdict.name,
        "findings": [_finding(finding) for finding in audit.findings],
        "records": audit.records,
        "seconds": round(audit.seconds, 3),
        "records_per_second": _rate(audit),
        "problem": audit.problem,
    }
    text = json.dumps(report, indent=1)
    if _is_stdout(path):
        sys.stdout.write(f"{text}\n")
    else:
        files.write_atomically(path, text)


def _finding(finding: Finding) -> Mapping[str, Any]:
    examples = [{**asdict(one), "detail": f"{one.anomaly}: {one.detail}"} for one in finding.examples]
    return {**asdict(finding), "verdict": finding.verdict.name, "examples": examples}


def table(audit: Audit, width: int) -> RenderableType:
    """The findings, the first examples of each, and the speed, for people."""
    speed = f"{number(audit.records)} records in {seconds(audit.seconds)}, {number(_rate(audit))} records/s"
    last = Text(f"{audit.verdict.name}: {audit.problem or speed}", style=f"bold {_COLOURS[audit.verdict]}")
    if not audit.findings:
        return last
    rows = Table("verifier", "verdict", box=box.SIMPLE_HEAD, width=min(width, _WIDE), pad_edge=False)
    for name in ("wrong", "checked"):
        rows.add_column(name, justify="right", no_wrap=True)
    for finding in audit.findings:
        verdict = Text(finding.verdict.name, style=f"bold {_COLOURS[finding.verdict]}") if finding.asked else Text("not asked")
        rows.add_row(finding.verifier, verdict, number(finding.count), number(finding.checked))
    return Group(rows, *(Text(line) for finding in audit.findings for line in _lines(finding)), last)


def _lines(finding: Finding) -> Iterator[str]:
    if finding.note:
        yield f"{finding.verifier}: {one_line(finding.note)}"
    for one in finding.examples[:_SHOWN]:
        who = f"id {one.id}" if one.id is not None or finding.verifier != _TRANSACTIONS else ""
        partition = "" if one.partition < 0 else f"partition {one.partition}"
        offset = "" if one.offset is None else f"offset {one.offset}"
        place = ", ".join(filter(None, (who, " ".join(filter(None, (partition, offset))))))
        told = ": ".join(filter(None, (one.anomaly, place, one.detail)))
        yield f"{finding.verifier}: {one_line(told, _LONG)}"
    if finding.count > _SHOWN:
        yield f"{finding.verifier}: and {number(finding.count - _SHOWN)} more"


def _rate(audit: Audit) -> int:
    """Records per second."""
    return round(audit.records / audit.seconds) if audit.seconds else 0
