"""Options of `chaos audit follow`, and their checks."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from chaos.audit.follow import openmetrics
from chaos.audit.follow.rows import WINDOW, Comparison
from chaos.audit.logs import AuditUsageError, Topics

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_BEGINS = ("beginning", "now")
_LEAST_WINDOW, _LARGEST_WINDOW = 1000, 100_000_000
_KEYS = frozenset({"dense-key", "key"})
_ROW = "row"
_HEADER = "header:"


@dataclass(frozen=True, slots=True)
class Following:
    """The options of `chaos audit follow`, as they were given.

    Attributes:
        overdue, every, lasts: durations; `lasts` is ``--for``, and empty to follow until a signal arrives.
        window: how many answered rows are remembered.
        begin: where reading of both logs begins, ``beginning`` or ``now``.
        metrics: the address that serves metrics; `metrics_file` is the file that they are written to.
        state: the file from which a later start goes on.
        settle: a duration: how long the end waits for the rows of records that were read by then.
    """

    overdue: str = "60s"
    every: str = "5s"
    lasts: str = ""
    window: int = WINDOW
    begin: str = "beginning"
    metrics: str = ""
    metrics_file: str = ""
    state: str = ""
    settle: str = "15s"


@dataclass(frozen=True, slots=True)
class Plan:
    """Topics to follow, and how.

    Attributes:
        identity: key, row, header:NAME, or dense-key, which means key here.
        model: ``identity`` to compare values too; empty to compare identities alone.
    """

    topics: Topics
    identity: str
    model: str
    routing: str
    options: Following

    @property
    def asked(self) -> Comparison:
        """How `chaos.audit.follow.matching` compares both logs."""
        compared: Any = "row" if self.identity == "row" else "value" if self.model else "identity"
        overdue_ms = round(1000 * seconds("--overdue", self.options.overdue))
        begun_within = self.options.begin == "now"
        return Comparison(compared, self.routing == "any", overdue_ms, self.options.window, begun_within)


# checks --------------------------------------------------------------------------------------------------------------------


def check(plan: Plan) -> None:
    """Raise AuditUsageError if the plan cannot be followed, or a file cannot be written where it should be."""
    wrong = next((sentence for is_wrong, sentence in _rules(plan) if is_wrong), None)
    if wrong:
        raise AuditUsageError(wrong)
    options = plan.options
    durations = {"--overdue": options.overdue, "--every": options.every, "--settle": options.settle}
    for name, text in (durations | ({"--for": options.lasts} if options.lasts else {})).items():
        seconds(name, text)
    if options.metrics:
        openmetrics.place(options.metrics)


def _rules(plan: Plan) -> Iterator[tuple[bool, str]]:
    options, identity, model = plan.options, plan.identity, plan.model
    yield (
        identity not in {*_KEYS, _ROW} and not identity.startswith(_HEADER),
        f"--identity {identity}: follow runs without Spark and takes no SQL; name key, row or header:NAME",
    )
    otherwise = "must be identity, for a copy; leave it out to compare identities alone, without values"
    yield model not in {"", "identity"}, f"--model {model}: {otherwise}"
    yield options.begin not in _BEGINS, f"--from {options.begin}: must be {' or '.join(_BEGINS)}"
    nameless = identity.startswith(_HEADER) and not identity.removeprefix(_HEADER).strip()
    yield nameless, f"--identity {identity}: the name of the header is missing; write header:NAME"
    fits = _LEAST_WINDOW <= options.window <= _LARGEST_WINDOW
    yield not fits, f"--window {options.window}: must be {_LEAST_WINDOW} to {_LARGEST_WINDOW} (which takes 800 MB)"
    for name, text in (("--metrics-file", options.metrics_file), ("--state", options.state)):
        problem = _file_problem(text, read_back=name == "--state") if text else ""
        yield bool(problem), f"{name} {text}: {problem}"
    same = bool(options.state) and os.path.realpath(options.state) == os.path.realpath(options.metrics_file)
    yield same, f"--state and --metrics-file: both are {options.state}; name two files"


def _file_problem(text: str, *, read_back: bool) -> str:
    """Say why a file cannot be written there again and again; empty if it can.

    A file that is read back must be a plain file, or a link to one.
    """
    path = Path(text)
    try:
        found, parent = path.exists(), Path(os.path.realpath(path)).parent.is_dir()
        is_folder, is_pipe, is_plain = path.is_dir(), path.is_fifo() or path.is_socket(), path.is_file()
    except (OSError, ValueError) as error:  # a name that no file can have, or a folder that we may not look into
        return str(getattr(error, "strerror", None) or error)
    problems = {
        "is a folder; a file is needed": is_folder,
        "its folder does not exist": not parent,
        "is a pipe or a socket; a file is needed": is_pipe,
        "is a device; a file is needed, because it is read back": read_back and found and not is_plain,
    }
    return next((problem for problem, is_so in problems.items() if is_so), "")


def seconds(name: str, text: str) -> float:
    """Parse a duration, such as ``90s``, ``10m`` or ``8h``.

    Raises:
        AuditUsageError: it is not a duration, or zero.
    """
    found = _DURATION.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise AuditUsageError(f"{name} {text}: is not a duration; write 90s, 10m or 8h")
    return float(found[1]) * _SECONDS[found[2]]


def identify(identity: str) -> Callable[[Message], bytes | None]:
    """Return the function that gives a message's identity: its key, or the first header of this name."""
    if not identity.startswith(_HEADER):
        return Message.key
    name = identity.removeprefix(_HEADER)

    def header(message: Message) -> bytes | None:
        headers: Any = message.headers() or ()
        return next((value for key, value in headers if key == name), None)

    return header
