"""How a command ends that does not come to its end: never with 1, which says that a guarantee is broken."""

import subprocess
import sys

import pytest

RAISES = """
from chaos import cli, errors

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
    """One message; of a defect the stack trace, for whoever mends it."""
    command = (sys.executable, "-c", RAISES.replace("{error}", error))

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, said)
    assert ("Traceback" in done.stderr) == (code == 70)
