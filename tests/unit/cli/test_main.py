"""How a command ends that fails: never with 1, which means that a guarantee is broken.

Every command here is run by the real `main` with the real app, in a process of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wording import keep

RAISES = """
import sys

from chaos.cli import main as cli
from chaos.common import errors

@cli.app.command()
def raising():
    {does}

sys.argv[1:] = ["raising"]
cli.main()
"""
LONG = "print('x' * 100000); print('\\u2026')"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("errors.ScenarioError('f:1:2: what')", 2, "f:1:2: what"),
        ("errors.InconclusiveError('nothing was proved')", 3, "chaos: nothing was proved"),
        ("errors.RuntimeUnavailableError('no Java')", 4, "chaos: no Java"),
        ("errors.DeadlineError('waited 5 s for a broker')", 4, "chaos: waited 5 s for a broker"),
        ("KeyError('a defect')", 70, "KeyError: 'a defect'"),
        ("EOFError", 70, "EOFError"),
        ("BrokenPipeError(32, 'Broken pipe')", 70, "BrokenPipeError: [Errno 32] Broken pipe"),
        ("RuntimeError('another defect')", 70, "RuntimeError: another defect"),
    ],
)
def test_no_error_is_a_verdict(error, code, said):
    """One message; a defect has its stack trace too, and only a defect has one."""
    done = ended(f"raise {error}")

    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, said)
    assert ("Traceback" in done.stderr) == (code == 70)


@pytest.mark.parametrize("code", ["0", "1", "None", "'text'"])
def test_a_module_that_ends_the_process_does_not_choose_the_exit_code(code):
    """No command of ours calls `sys.exit`, so whatever does is somebody else's, and its code is no verdict."""
    done = ended(f"sys.exit({code})")

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (70, "", 1)
    assert f"exit({code}) was called at <string>:9" in done.stderr


# what cannot be written ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_reader_that_is_gone_changes_no_exit_code(code):
    """`chaos … | head -1`: the reader has what it wanted, and the verdict is what it is."""
    reader, writer = os.pipe()
    os.close(reader)
    done = ended(f"{LONG}; raise cli.typer.Exit({code})", stdout=writer)
    os.close(writer)

    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(("code", "ends_with"), [(0, 2), (1, 1), (3, 3)])
def test_a_full_disk_is_told_and_is_no_success(code, ends_with):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = ended(f"{LONG}; raise cli.typer.Exit({code})", stdout=full)

    assert (done.returncode, done.stderr.count("\n")) == (ends_with, 1)
    assert "No space left on device" in keep(done.stderr)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_closed(closed):
    """No file that the command opens takes the place of the stream, and gets what is printed."""
    does = f"opened = open('/dev/null'); assert opened.fileno() > 2, opened.fileno(); {LONG}"
    command = f'exec "$0" -c "$1" {closed}'
    program = RAISES.replace("{does}", does)
    done = subprocess.run(["/bin/sh", "-c", command, sys.executable, program], capture_output=True, timeout=300, check=False)

    assert done.returncode == 0


def test_a_stream_for_errors_that_is_full():
    """The exit code alone says then what happened."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = ended("raise errors.InconclusiveError('nothing')", stderr=full)

    assert done.returncode == 3


@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict", "latin-1", "utf-8"])
def test_a_character_that_the_encoding_lacks_is_escaped(encoding):
    """Also one that is no character: a file name that is not UTF-8."""
    done = ended("print('\\u2026 \\udcff')", env=os.environ | {"PYTHONIOENCODING": encoding})

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in {"\\u2026 \\udcff\n", "\u2026 \\udcff\n"}


# interrupts ----------------------------------------------------------------------------------------------------------------


def test_an_interrupt_outside_the_command_is_not_a_defect():
    """It may come while the command begins or ends, where typer does not see it."""
    done = ended("raise KeyboardInterrupt")

    assert (done.returncode, done.stderr) == (130, "")


def test_sigterm_is_an_interrupt():
    """For every command, so that its context managers are left."""
    done = ended("__import__('os').kill(__import__('os').getpid(), 15); raise KeyError('it was not obeyed')")

    assert (done.returncode, done.stderr) == (130, "")


def test_a_table_of_no_runs_is_not_a_good_night(tmp_path):
    """Exit code 3: nothing is known."""
    code = "from chaos.cli.main import main; main()"
    command = (sys.executable, "-c", code, "table", str(tmp_path), "--markdown")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"chaos: {tmp_path} holds no run directory")


def ended(does, *, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=None):
    """The result of a command that does this."""
    command = (sys.executable, "-c", RAISES.replace("{does}", does))
    return subprocess.run(command, stdout=stdout, stderr=stderr, text=True, timeout=300, check=False, env=env)
