"""The words of `chaos audit`: what they ask for, and how its end is told."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from chaos.audit import audit
from chaos.audit.audit import Audit, Request
from chaos.audit.logs import AuditUsageError, Topics
from chaos.judging.verdict import EXIT_CODES

_USAGE = 2


@dataclass(frozen=True, slots=True)
class Options:
    """As they were given; "" for what was not."""

    landed: str
    bootstrap: str
    source: str
    sink: str
    group: str
    model: str
    identity: str
    master: str
    landing: str
    report: Path


def main(options: Options, echo: Callable[[str], None]) -> int:
    """Audit, write the report and show it.

    Returns:
        The exit code: 0 valid, 1 invalid, 2 wrong usage or a report that cannot be written (there is none then), 3 unknown.
    """
    try:
        done = audit.run(request(options), echo)
    except AuditUsageError as error:
        echo(f"chaos audit: {error}")
        return _USAGE
    _show(done)  # first: what an hour's work came to is not lost with the report
    try:
        audit.write(options.report, done)
    except OSError as error:
        echo(f"chaos audit: --json {options.report}: cannot be written: {error.strerror}")
        return _USAGE
    return EXIT_CODES[done.verdict]


def request(options: Options) -> Request:
    """What is asked for.

    Raises:
        AuditUsageError: too much or too little was given.
    """
    if not options.report.resolve().parent.is_dir():
        raise AuditUsageError(f"--json {options.report}: its folder is not there")
    if options.report.is_dir():
        raise AuditUsageError(f"--json {options.report}: is a folder; a file is needed")
    asked = {"--bootstrap": options.bootstrap, "--source": options.source, "--sink": options.sink}
    beyond = {"--group": options.group, "--landing": options.landing}
    given = [name for name, value in (asked | beyond).items() if value]
    missing = [name for name, value in asked.items() if not value]
    if options.landed and given:
        raise AuditUsageError(f"--landed and {', '.join(given)}: either folders or topics")
    if not options.landed and missing:
        raise AuditUsageError(f"missing: {', '.join(missing)}; or --landed for folders")
    header = options.identity.removeprefix("header:") if options.identity.startswith("header:") else ""
    topics = None if options.landed else Topics(options.bootstrap, options.source, options.sink, options.group, header)
    return Request(options.landed or None, topics, options.model, options.identity, options.master, options.landing)


def _show(done: Audit) -> None:
    console = Console()
    console.print(audit.table(done, console.width), crop=False, soft_wrap=True)
