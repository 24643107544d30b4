"""How a command ends that fails: never with 1, which means that a guarantee is broken."""

import subprocess
import sys

import pytest

RAISES = """
from chaos.cli import main as cli
from chaos.common import errors

def app():
    raise {error}

cli.app = app
cli.main()
"""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("errors.ScenarioError('f:1:2: what')", 2, "f:1:2: what"),
        ("errors.InconclusiveError('nothing was proved')", 3, "chaos: nothing was proved"),
        ("errors.RuntimeUnavailableError('no Java')", 4, "chaos: no Java"),
        ("errors.DeadlineError('waited 5 s for a broker')", 4, "chaos: waited 5 s for a broker"),
        ("KeyError('a defect')", 70, "KeyError: 'a defect'"),
    ],
)
def test_no_error_is_a_verdict(error, code, said):
    """One message; a defect has its stack trace too."""
    done = ended(error)

    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, said)
    assert ("Traceback" in done.stderr) == (code == 70)


def test_an_interrupt_outside_the_command_is_not_a_defect():
    """It may come while the command begins or ends, where typer does not see it."""
    done = ended("KeyboardInterrupt")

    assert (done.returncode, done.stderr) == (130, "")


def test_sigterm_is_an_interrupt():
    """For every command, so that its context managers are left."""
    done = ended("__import__('os').kill(__import__('os').getpid(), 15) or KeyError('it was not obeyed')")

    assert (done.returncode, done.stderr) == (130, "")


def test_a_table_of_no_runs_is_not_a_good_night(tmp_path):
    """Exit code 3: nothing is known."""
    code = "from chaos.cli.main import main; main()"
    command = (sys.executable, "-c", code, "table", str(tmp_path), "--markdown")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"chaos: {tmp_path} holds no run directory")


def ended(error):
    """The result of a command that raises."""
    command = (sys.executable, "-c", RAISES.replace("{error}", error))
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
