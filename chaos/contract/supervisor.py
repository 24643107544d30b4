"""A program that runs any command in one or several copies, and reports their starts and ends in JSON lines.

    {"supervisor": "started", "copies": 3, "pids": [71, 72, 73]}      all copies run; not if they say so themselves
    {"supervisor": "ended", "copy": 1, "code": 0}                     the code is negative for a signal
    {"supervisor": "restarted", "copy": 1, "pid": 80, "restarts": 1}
    {"supervisor": "killed", "copies": [2]}                           told to end, they had not after five seconds
    {"supervisor": "stopped"}

The key is not ``event``, since many programs begin the lines of their own log with that. The copies share standard output and
error with this process; before each report it breaks a line that one of them may have left unfinished. It runs until SIGTERM,
which it sends on to the copies, and ends with 0, even if all copies have ended with 0 before. It ends with 1 if a copy died
more often than it may be restarted.

A secret text is handed on in memory, since neither a command line nor a file may show it: the command names the variable that
has it, and `IN_MEMORY` in its words becomes the path of a file that only the copies can read, and that ends with the last one.

The kernel kills the copies when this process dies (``PR_SET_PDEATHSIG``): a copy that went on alone would be a second pipeline.
So would a program that a copy has started, and that did not end with it: ``go run`` and ``sh`` do not hand SIGTERM on. Such
orphans become children of this process (``PR_SET_CHILD_SUBREAPER``), and get SIGTERM and five seconds after the copies.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from chaos.common.clock import monotonic_s
from chaos.common.messages import state
from chaos.common.signals import adopt_orphans, die_with_parent
from chaos.contract.variables import of_program

IN_MEMORY = "{in_memory}"
_AGAIN_S = 1.0
_TURN_S = 0.5
_STOP_WITHIN_S = 5.0  # copies, and then what they leave behind


@dataclass(slots=True)
class Copy:
    """One copy of the command.

    Attributes:
        files: descriptors that it inherits.
        due_s: time of its next start; None while it runs, or if there is none.
    """

    number: int
    argv: Sequence[str]
    process: subprocess.Popen[bytes]
    began_s: float
    files: Sequence[int] = ()
    restarts: int = 0
    due_s: float | None = None
    heard: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for a copy that has ended.

    Attributes:
        restarts: number of restarts after an end with an error.
        repeat: whether a copy that ended with 0 is started again, without a limit.
        says_started: whether the copies report ``started`` themselves.
        folder: their working directory; None for that of this process.
    """

    restarts: int
    repeat: bool
    says_started: bool = False
    folder: str | None = None


def supervised(
    copies: Sequence[Sequence[str]],
    restarts: int,
    *,
    repeat: bool = False,
    says_started: bool = False,
    in_memory: str = "",
    folder: str = "",
) -> tuple[str, ...]:
    """Return the command that runs these copies under this supervisor.

    Args:
        says_started: whether the copies report ``started`` themselves.
        in_memory: the variable whose text is in the file at `IN_MEMORY`; "" for none.
        folder: their working directory; "" for that of the supervisor, which does not run there: Python would import from it.
    """
    flags = (*(("--repeat",) if repeat else ()), *(("--says-started",) if says_started else ()))
    flags += ("--in-memory", in_memory) if in_memory else ()
    flags += ("--folder", folder) if folder else ()
    return (sys.executable, "-m", __name__, "--copies", json.dumps(copies), "--restarts", str(restarts), *flags)


def main() -> None:
    """Run the copies until told to stop, or until one died too often."""
    signals: list[int] = []
    arguments = _parsed()
    adopt_orphans()
    with _woken(signals) as wait:
        rules = Rules(arguments.restarts, arguments.repeat, arguments.says_started, arguments.folder or None)
        commands, files = json.loads(arguments.copies), list[int]()
        if arguments.in_memory:
            files.append(_in_memory(os.environ.pop(arguments.in_memory)))
            commands = [[word.replace(IN_MEMORY, f"/proc/self/fd/{files[0]}") for word in argv] for argv in commands]
        code = supervise(commands, rules, signals, wait, files)
        _end_orphans()
        sys.exit(code)


def supervise(
    commands: Sequence[Sequence[str]],
    rules: Rules,
    signals: list[int],
    wait: Callable[[float], None],
    files: Sequence[int] = (),
) -> int:
    """Run the copies, and return the exit code.

    Args:
        signals: the signals that came; SIGTERM ends the copies.
        wait: returns at the next signal, or after so many seconds.
        files: descriptors that the copies inherit.
    """
    copies = [_started(number, argv, files, rules.folder) for number, argv in enumerate(commands)]
    if not rules.says_started:
        _say("started", copies=len(copies), pids=[copy.process.pid for copy in copies])
    lost = None
    while signal.SIGTERM not in signals and lost is None:
        wait(_TURN_S)
        lost = next((copy for copy in copies if not _tended(copy, rules)), None)
    _end(copies)
    _say("stopped", **({} if lost is None else {"why": f"copy {lost.number} died {lost.restarts + 1} times"}))
    return 0 if lost is None else 1


def _say(word: str, **value: object) -> None:
    """Report this on a separate line: a copy may have left half a line in the log, which they share."""
    sys.stdout.write("\n")
    state(supervisor=word, **value)


def _tended(copy: Copy, rules: Rules) -> bool:
    """Report and restart one copy if it has ended; return False if it died more often than it may be restarted."""
    code = copy.process.poll()
    if code is not None and not copy.heard:
        copy.heard = True
        _say("ended", copy=copy.number, code=code)
        if code != 0 and copy.restarts == rules.restarts:
            return False
        if code != 0 or rules.repeat:
            copy.restarts += code != 0
            copy.due_s = max(monotonic_s(), copy.began_s + _AGAIN_S)
    if copy.due_s is not None and monotonic_s() >= copy.due_s:
        again = _started(copy.number, copy.argv, copy.files, rules.folder)
        copy.process, copy.began_s, copy.due_s, copy.heard = again.process, again.began_s, None, False
        if code != 0:
            _say("restarted", copy=copy.number, pid=copy.process.pid, restarts=copy.restarts)
    return True


def _started(number: int, argv: Sequence[str], files: Sequence[int], folder: str | None) -> Copy:
    environment = of_program(os.environ)
    process = subprocess.Popen(argv, preexec_fn=die_with_parent, pass_fds=files, cwd=folder, env=environment)  # noqa: PLW1509 - this process has one thread
    return Copy(number, argv, process, monotonic_s(), files)


def _in_memory(text: str) -> int:
    """Make a file in memory with this text, which only this user can open; it vanishes if this process is killed."""
    file = os.memfd_create("settings")
    os.fchmod(file, 0o600)
    os.write(file, text.encode())
    return file


def _end(copies: Sequence[Copy]) -> None:
    """Send SIGTERM to all, and SIGKILL to those that take too long."""
    living = [copy for copy in copies if copy.process.poll() is None]
    for copy in living:
        copy.process.terminate()
    give_up_s, killed = monotonic_s() + _STOP_WITHIN_S, []
    for copy in living:
        try:
            copy.process.wait(max(0.0, give_up_s - monotonic_s()))
        except subprocess.TimeoutExpired:
            copy.process.kill()
            copy.process.wait()
            killed.append(copy.number)
    if killed:
        _say("killed", copies=killed)


def _end_orphans() -> None:
    """Send SIGTERM to all that the copies left behind, and SIGKILL to those that take too long."""
    orphans = psutil.Process().children(recursive=True)
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for one in orphans:
            with suppress(psutil.NoSuchProcess):
                send(one)
        _, orphans = psutil.wait_procs(orphans, timeout=_STOP_WITHIN_S)


@contextmanager
def _woken(signals: list[int]) -> Iterator[Callable[[float], None]]:
    """Give a wait that ends early at SIGTERM or at the end of a copy; neither can be missed between two waits."""
    ours, theirs = socket.socketpair()
    with ours, theirs, selectors.DefaultSelector() as selector:
        ours.settimeout(0)
        theirs.settimeout(0)  # as set_wakeup_fd demands
        selector.register(ours, selectors.EVENT_READ)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda came, _frame: signals.append(came) if came == signal.SIGTERM else None)
        signal.set_wakeup_fd(theirs.fileno())

        def wait(seconds: float) -> None:
            if selector.select(seconds):
                ours.recv(4096)

        try:
            yield wait
        finally:
            signal.set_wakeup_fd(-1)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run copies of a command")
    parser.add_argument("--copies", required=True, help="JSON: a list of commands, each a list of words")
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--repeat", action="store_true")
    parser.add_argument("--says-started", action="store_true")
    parser.add_argument("--folder", default="", help="their working directory")
    parser.add_argument("--in-memory", default="", help="the variable whose text is in the file at " + IN_MEMORY)
    return parser.parse_args()


if __name__ == "__main__":
    main()
