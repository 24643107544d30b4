"""`chaos audit`: two topics, or two folders of Parquet, that nobody here filled: is the sink what the source demands?

The model says the value of each record from that of its source record, and a record stays in its partition. What is judged is
what scenarios are judged by, by islands (`verifiers.islands`); without a consumer group all of the source counts as processed,
so whatever is missing is lost.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos import audit_identity, audit_logs, clock
from chaos.audit_identity import Asked
from chaos.audit_logs import AuditUsageError, Ends, Logs, Topics
from chaos.errors import InconclusiveError
from chaos.report.wording import number, one_line, seconds
from chaos.runtime import artifacts, preflight
from verifiers import VERIFIERS, groups, islands
from verifiers.base import Evidence, Example, Finding, Verdict
from verifiers.findings import rule
from verifiers.groups import Limits

EXIT = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 3}
IDENTITIES = "dense-key, key or header:NAME"
_COLOURS = {Verdict.VALID: "green", Verdict.UNKNOWN: "yellow", Verdict.INVALID: "red"}
_SHOWN = 3

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
    limits: Limits = Limits()


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
        fixed = audit_logs.fix(request.topics) if request.topics else None
        with _session(request, echo) as spark, _place(request) as place:
            began_s = clock.monotonic_s()
            if request.topics is not None and fixed is not None:
                audit_logs.land(spark, request.topics, fixed, place)
            logs = audit_logs.landed(spark, place, fixed)
            findings, records = judge(logs, identify(logs, demanded), request.limits)
            return Audit(findings, records, clock.monotonic_s() - began_s)
    except InconclusiveError as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=str(error))
    except (PySparkException, Py4JError, ConnectionError) as error:
        return Audit(seconds=clock.monotonic_s() - began_s, problem=f"Spark failed: {one_line(str(error))}")


def judge(logs: Logs, asked: Asked, limits: Limits) -> tuple[tuple[Finding, ...], int]:
    """All findings, and how many records there are in both logs.

    Raises:
        InconclusiveError: the source's keys do not identify its records.
    """
    expected = groups.summarize_expected(asked.evidence, limits, by_position=not asked.unique)
    observed = groups.summarize(asked.evidence, limits)
    sides = [logs.source.count() if side is None else int(side["records"].sum()) for side in (expected, observed)]
    there = logs.source.count()
    if asked.keys is None and sides[0] < there:
        raise InconclusiveError(_no_ids(logs, there - sides[0], there))
    found = islands.judge(asked.evidence, expected, observed, limits, unique=asked.unique)
    if logs.positions is not None:
        found = (*found, VERIFIERS["offsets"].check(asked.evidence))
    if logs.uncommitted is not None:
        found = (*found, _read_committed(asked.evidence, logs.uncommitted))
    return _named(found, asked), sides[0] + sides[1]


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
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
