"""`chaos audit`: audit logs that no run of ours has filled, and report the findings.

There are four commands, each with its own options: `chaos.audit.topics`, `chaos.audit.tables.command`,
`chaos.audit.transactions` and `chaos.audit.follow.command`.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.audit.logs import AuditUsageError
from chaos.common import files
from chaos.common.errors import one_line
from chaos.report.formatting import number, seconds
from verifiers.base import Finding, Verdict
from verifiers.transactions.verifier import Transactions

STDOUT = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
_WRONG_USAGE = 2
_COLOURS = {Verdict.VALID: "green", Verdict.UNKNOWN: "yellow", Verdict.INVALID: "red"}
_SHOWN = 3
_WIDE = 80
_LONG = 400
_TRANSACTIONS = Transactions().name

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Audit:
    """Result of an audit.

    Attributes:
        records: number of records in both logs.
        seconds: from the first request for the logs to the last finding.
        problem: why nothing could be judged; empty if it could.
        read: ``source`` and ``sink`` -> the address of what was read; empty for topics.
        reached: how far both logs were judged, for an audit that goes on from there (`chaos.audit.since_report`); None if none
            can. An audit that could not judge anything passes on what it was given.
    """

    findings: tuple[Finding, ...] = ()
    records: int = 0
    seconds: float = 0.0
    problem: str = ""
    read: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, Any] | None = None

    @property
    def verdict(self) -> Verdict:
        """Worst verdict of the findings; UNKNOWN if nothing could be judged."""
        return max((one.verdict for one in self.findings), default=Verdict.UNKNOWN)


class Way(Protocol):
    """One way to audit, with its options."""

    @property
    def name(self) -> str:
        """Name of the command."""

    def check(self) -> None:
        """Raise AuditUsageError if options are missing or exclude each other."""

    def run(self, echo: Echo) -> Audit:
        """Audit; `Audit.problem` says why there is no verdict.

        Raises:
            AuditUsageError: the requested audit is not possible.
        """


def main(way: Way, report: Path | None, echo: Echo) -> int:
    """Audit, write the report and show the findings.

    If the report goes to standard output, everything else goes to standard error.

    Args:
        report: its file, or one of `STDOUT`; None for none.

    Returns:
        The exit code: 0 valid, 1 invalid, 2 wrong usage or a report that cannot be written (there is none then), 3 unknown.
    """
    console, echo = (Console(stderr=True), _to_stderr) if _is_stdout(report) else (Console(), echo)
    try:
        if report and not _is_stdout(report):
            _require_file("--json", report)
        way.check()
        done = way.run(echo)
    except AuditUsageError as error:
        echo(f"chaos audit {way.name}: {error}")
        return _WRONG_USAGE
    problem = _unwritten(report, done) if report else ""
    console.print(table(done, console.width), crop=False, soft_wrap=True)  # an hour's work is not lost with the report
    if problem:
        echo(f"chaos audit {way.name}: --json {report}: cannot be written: {problem}")
        return _WRONG_USAGE
    return done.verdict.exit_code


def _unwritten(report: Path, audit: Audit) -> str:
    """Write the report; return why it failed, or an empty text."""
    try:
        write(report, audit)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_stdout(report: Path | None) -> bool:
    return str(report) in STDOUT


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _require_file(option: str, path: Path) -> None:
    """Raise AuditUsageError if the path cannot be a file; permission to write is not checked."""
    try:
        is_folder, parent = path.is_dir(), Path(os.path.realpath(path)).parent.is_dir()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise AuditUsageError(f"{option} {path}: {error}") from None
    if is_folder:
        raise AuditUsageError(f"{option} {path}: is a folder; a file is needed")
    if not parent:
        raise AuditUsageError(f"{option} {path}: its folder does not exist")


# findings ------------------------------------------------------------------------------------------------------------------


def write(path: Path, audit: Audit) -> None:
    """Write the report; a regular file is replaced in one step."""
    report = {
        "verdict": audit.verdict.name,
        "findings": [_with_anomalies_in_details(finding) for finding in audit.findings],
        "records": audit.records,
        "seconds": round(audit.seconds, 3),
        "records_per_second": _rate(audit),
        "problem": audit.problem,
        **({"read": dict(audit.read)} if audit.read else {}),
        **({} if audit.reached is None else {"reached": audit.reached}),
    }
    text = json.dumps(report, indent=1)
    if _is_stdout(path):
        sys.stdout.write(f"{text}\n")
    else:
        files.write_atomically(path, text)


def _with_anomalies_in_details(finding: Finding) -> Mapping[str, Any]:
    examples = [{**one.to_json(), "detail": f"{one.anomaly}: {one.words}"} for one in finding.examples]
    return finding.to_json() | {"examples": examples}


def table(audit: Audit, width: int) -> RenderableType:
    """Render the findings, the first examples of each, and the speed."""
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
    read = (Text(f"{side}: {one_line(address, _LONG)}") for side, address in audit.read.items())
    return Group(rows, *read, *(Text(line) for finding in audit.findings for line in _lines(finding)), last)


def _lines(finding: Finding) -> Iterator[str]:
    if finding.note:
        yield f"{finding.verifier}: {one_line(str(finding.note))}"
    for one in finding.examples[:_SHOWN]:
        who = f"id {one.id}" if one.id is not None or finding.verifier != _TRANSACTIONS else ""
        partition = "" if one.partition < 0 else f"partition {one.partition}"
        offset = "" if one.offset is None else f"offset {one.offset}"
        place = ", ".join(filter(None, (who, one.place or " ".join(filter(None, (partition, offset))))))
        told = ": ".join(filter(None, (one.anomaly, place, one.words)))
        yield f"{finding.verifier}: {one_line(told, _LONG)}"
    if finding.count > _SHOWN:
        yield f"{finding.verifier}: and {number(finding.count - _SHOWN)} more"


def _rate(audit: Audit) -> int:
    """Records per second."""
    return round(audit.records / audit.seconds) if audit.seconds else 0
