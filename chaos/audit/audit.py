"""`chaos audit`: two topics, or two folders of Parquet, that nobody here filled: is the sink what the source demands?

The model says the value of each record from that of its source record, and a record stays in its partition. What is judged is
what scenarios are judged by (`verifiers.single_scan`); without a consumer group all of the source counts as processed,
so whatever is missing is lost.
"""

import json
import os
import re
import shlex
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit.identity import Asked
from chaos.audit.limitations import doubted
from chaos.audit.logs import ASK_S, AuditUsageError, Logs, Topics
from chaos.common import clock, files
from chaos.common.errors import InconclusiveError
from chaos.common.text import one_line
from chaos.install import artifacts, preflight
from chaos.judging import spark_session
from chaos.report.formatting import number, seconds
from verifiers import VERIFIERS
from verifiers.base import Evidence, Example, Finding, Verdict
from verifiers.findings import first, rule
from verifiers.single_scan import islands
from verifiers.single_scan.groups import UNDECODABLE, Groups, Limits

EXIT = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 3}
IDENTITIES = "dense-key, key or header:NAME"
_COLOURS = {Verdict.VALID: "green", Verdict.UNKNOWN: "yellow", Verdict.INVALID: "red"}
_STANDALONE = "spark://"
_LAST_PORT = 65_535
_SHOWN = 3
_WIDE = 80
_MADE = re.compile(r"\bid \d+(?: and \d+)?")

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be audited, how.

    Attributes:
        landed: folder or URL of the logs, None where they are topics.
        topics: None where they were landed.
        model: as `audit_identity.model` reads it.
        identity: one of `IDENTITIES`.
        master: Spark's.
        landing: folder or URL where topics are landed and left; empty for a temporary one.
        limits: of the algorithm.
    """

    landed: str | None
    topics: Topics | None
    model: str
    identity: str
    master: str = "local[*]"
    landing: str = ""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of it.

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


def run(request: Request, echo: Echo) -> Audit:
    """Audit, whatever comes of it.

    Raises:
        AuditUsageError: it cannot be asked; nothing was started, or what is needed is not there.
    """
    demanded, identify = audit_identity.model(request.model), _identity(request)
    began_s = clock.monotonic_s()
    try:
        _reached(request.master)
        fixed = audit_logs.fix(request.topics) if request.topics else None
        with session(request, echo) as started, _place(request) as place:
            began_s = clock.monotonic_s()
            if request.topics is not None and fixed is not None:
                audit_logs.land(started, request.topics, fixed, place)
            logs = audit_logs.landed(started, place, fixed)
            findings, records = judge(logs, identify(logs, demanded), request.limits)
            return Audit(findings, records, clock.monotonic_s() - began_s)
    except InconclusiveError as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))
    except spark_session.FAILURES as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=spark_session.failure(error))


def judge(logs: Logs, asked: Asked, limits: Limits) -> tuple[tuple[Finding, ...], int]:
    """All findings, and how many records there are in both logs.

    Raises:
        AuditUsageError: a log was landed more than once.
        InconclusiveError: the source's keys do not identify its records.
    """
    evidence = asked.evidence
    expected, observed = islands.summarize(evidence, limits)
    for side, name in ((expected, "source"), (observed, "sink")):
        if side is not None and side.placed:
            _landed_once(side, name)
    if expected is None or UNDECODABLE in expected["line"]:
        audit_identity.identified(asked)
    found = islands.judge(evidence, expected, observed, limits, unique=asked.unique)
    if logs.positions is not None:
        once = evidence if asked.unique else replace(evidence, expected=islands.demanded(evidence.expected))
        found = (*found, VERIFIERS["offsets"].check(once))
    if logs.uncommitted is not None:
        found = (*found, _read_committed(evidence, logs.sink, logs.uncommitted))
    return _named([doubted(one, logs) for one in found], asked), logs.records


def write(path: Path, audit: Audit) -> None:
    """The report, put in place in one step."""
    report = {
        "verdict": audit.verdict.name,
        "findings": [_finding(finding) for finding in audit.findings],
        "records": audit.records,
        "seconds": round(audit.seconds, 3),
        "records_per_second": round(audit.records / audit.seconds) if audit.seconds else 0,
        "problem": audit.problem,
    }
    files.write_atomically(path, json.dumps(report, indent=1))


def table(audit: Audit, width: int) -> RenderableType:
    """The findings, the first examples of each, and the speed, for people."""
    last = Text(f"{audit.verdict.name}: {audit.problem or _speed(audit)}", style=f"bold {_COLOURS[audit.verdict]}")
    if not audit.findings:
        return last
    rows = Table("verifier", "verdict", box=box.SIMPLE_HEAD, width=min(width, _WIDE), pad_edge=False)
    for name in ("wrong", "checked"):
        rows.add_column(name, justify="right", no_wrap=True)
    for finding in audit.findings:
        verdict = Text(finding.verdict.name, style=f"bold {_COLOURS[finding.verdict]}")
        rows.add_row(finding.verifier, verdict, number(finding.count), number(finding.checked))
    return Group(rows, *(Text(line) for finding in audit.findings for line in _told(finding)), last)


def _speed(audit: Audit) -> str:
    rate = round(audit.records / audit.seconds) if audit.seconds else 0
    return f"{number(audit.records)} records in {seconds(audit.seconds)}, {number(rate)} records/s"


def _told(finding: Finding) -> Iterator[str]:
    if finding.note:
        yield f"{finding.verifier}: {one_line(finding.note)}"
    for one in finding.examples[:_SHOWN]:
        place = f"partition {one.partition}" + (f" offset {one.offset}" if one.offset is not None else "")
        yield f"{finding.verifier}: {one_line(f'{one.anomaly}: id {one.id}, {place}: {one.detail}')}"
    if finding.count > _SHOWN:
        yield f"{finding.verifier}: and {number(finding.count - _SHOWN)} more"


def _finding(finding: Finding) -> Mapping[str, Any]:
    examples = [{**asdict(one), "detail": f"{one.anomaly}: {one.detail}"} for one in finding.examples]
    return {**asdict(finding), "verdict": finding.verdict.name, "examples": examples}


def _identity(request: Request) -> Callable[[Logs, audit_identity.Model], Asked]:
    if request.identity == "dense-key":
        return audit_identity.dense
    header = request.identity.startswith("header:")
    if header and request.topics is None:
        raise AuditUsageError("--identity header:NAME needs topics: headers are not landed; land the header as the key")
    if header or request.identity == "key":
        return audit_identity.by_key
    raise AuditUsageError(f"--identity {request.identity}: must be {IDENTITIES}")


def _landed_once(log: Groups, name: str) -> None:
    for partition in np.unique(log["partition"]):
        here = log["partition"] == partition
        first, last, delta, records = (log[column][here] for column in ("first", "last", "delta", "records"))
        found, offsets = records.sum(), (last - delta).max() - (first - delta).min() + 1
        if found > offsets:
            what = f"{name}: partition {partition} has {found} records at {offsets} offsets"
            raise AuditUsageError(f"{what}: it was landed more than once; land each topic once, into an empty folder")


def _named(findings: Sequence[Finding], asked: Asked) -> tuple[Finding, ...]:
    """With keys in place of ids that were made here, also where a detail speaks of other records."""
    if asked.keys is None:
        return tuple(findings)
    examples = [one for finding in findings for one in finding.examples]
    told = {int(id_) for one in examples for id_ in re.findall(r"\d+", " ".join(_MADE.findall(_ids_of(one))))}
    keys = asked.keys(frozenset(told | {one.id for one in examples if one.id is not None}))
    return tuple(replace(finding, examples=tuple(_renamed(one, keys) for one in finding.examples)) for finding in findings)


def _ids_of(one: Example) -> str:
    """The detail, if it speaks of other records: that of a wrong value speaks of what others wrote."""
    return one.detail if one.anomaly in {"duplicate", "inversion"} else ""


def _renamed(one: Example, keys: Mapping[int, str]) -> Example:
    def key(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda id_: keys.get(int(id_[0]), id_[0]), match[0].replace("id ", "key "))

    detail = _MADE.sub(key, one.detail) if _ids_of(one) else one.detail
    return replace(one, id=None if one.id is None else keys.get(one.id), detail=detail)  # type: ignore[arg-type]


def _read_committed(evidence: Evidence, sink: DataFrame, uncommitted: DataFrame) -> Finding:
    """Every committed row is in the uncommitted view as well; what is only there was aborted, or is open.

    Args:
        sink: the committed view as it was landed: the evidence may have an id in place of the key.
    """
    place, row = ["partition", "offset"], "struct(key, value)"
    both = sink.selectExpr(*place, "timestamp_ms", f"{row} AS read").join(
        uncommitted.selectExpr(*place, f"{row} AS there"), place, "full"
    )
    kinds = both.selectExpr(
        "*", "CASE WHEN read IS NULL THEN 'aborted' WHEN read <=> there THEN 'same' ELSE 'split view' END AS kind"
    )
    found = {one["kind"]: one["count"] for one in kinds.groupBy("kind").count().collect()}
    split, hidden = found.get("split view", 0), found.get("aborted", 0)
    checked = sum(found.values())
    verdict, note = rule(evidence, split, checked)
    examples = tuple(_split(one) for one in first(kinds.where("kind = 'split view'"), split))
    return Finding("atomicity", "sink", verdict, split, checked, {"split view": split, "aborted": hidden}, examples, note)


def _split(row: Row) -> Example:
    """No id: what the views disagree about may be the key."""
    read, there = row["read"], row["there"]
    shown = f"key {there['key']!r}, value {there['value']!r}" if there is not None else "nothing"
    detail = f"key {read['key']!r}, value {read['value']!r}; the uncommitted view shows {shown} here"
    return Example("split view", row["partition"], row["offset"], None, row["timestamp_ms"], detail)


def _reached(master: str) -> None:
    """Ask before Spark does, who would try for a minute and print three stack traces.

    Raises:
        AuditUsageError: a standalone master's URL has no port.
        InconclusiveError: nobody answers at any of its places.
    """
    if not master.startswith(_STANDALONE):
        return
    for place in master.removeprefix(_STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT:
            raise AuditUsageError(f"--spark-master {master}: {_STANDALONE}HOST:PORT is needed")
        with suppress(OSError, UnicodeError), socket.create_connection((host.strip("[]"), int(port)), ASK_S):
            return
    raise InconclusiveError(f"--spark-master {master} does not answer within {ASK_S:g} s: is it up, and reachable?")


@contextmanager
def _place(request: Request) -> Iterator[str]:
    """Where the logs are, or will be landed."""
    if request.landed is not None or request.landing:
        yield request.landed if request.landed is not None else request.landing
        return
    with tempfile.TemporaryDirectory(prefix="chaos-audit-", ignore_cleanup_errors=True) as folder:
        yield folder


@contextmanager
def session(request: Request, echo: Echo) -> Iterator[SparkSession]:
    """Compiled code and a JVM that optimizes, unlike the auditor's of small scenarios: rows outweigh the start."""
    os.environ.setdefault("JAVA_HOME", str(preflight.find_java().parents[1]))
    builder = (
        SparkSession.builder.master(request.master)
        .appName("chaos audit")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.cache.maxEntries", "1000")  # a hundred are fewer than the classes of one audit
        .config("spark.sql.session.timeZone", "UTC")
        # Spark's default without kafka: its first reader makes a Row of each record on the way, a quarter of a scan's work
        .config("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
    )
    if request.topics is not None:
        builder = builder.config("spark.jars", ",".join(map(str, artifacts.ensure(echo).connector_jars)))
    if request.master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="chaos-audit-spark-", ignore_cleanup_errors=True) as scratch:
        # a JVM that is killed removes nothing; this adds to what the user wants of Java and Spark, and overrides none of it
        given = os.environ.get("SPARK_SUBMIT_OPTS", "")
        os.environ["SPARK_SUBMIT_OPTS"] = f"-Djava.io.tmpdir={shlex.quote(scratch)} {given}"
        with spark_session.session(builder.getOrCreate) as started:
            yield started
