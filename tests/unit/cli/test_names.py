"""The names of the command: `chaos` is also that of Chaos Toolkit, so two others always work."""

import re
import subprocess
import sys

import pytest

from chaos.common.version import version

SCRIPT = "import sys\nfrom chaos.cli.main import main\nsys.exit(main())\n"


def ended(*command):
    """A command in a process of its own."""
    return subprocess.run(tuple(map(str, command)), capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(params=["chaos", "kafka-spark-chaos", "python -m chaos", "something-else"])
def called(request, tmp_path):
    """The name that is shown, and the words that call it, as pip's script for an entry point would be called."""
    if request.param.startswith("python"):
        return request.param, (sys.executable, "-m", "chaos")
    script = tmp_path / request.param
    script.write_text(SCRIPT, encoding="utf-8")
    return {"something-else": "chaos"}.get(request.param, request.param), (sys.executable, script)


def test_usage_has_the_name_of_the_call(called):
    """So that what it says can be typed."""
    name, words = called

    done = ended(*words, "audit", "--help")

    assert done.returncode == 0
    assert re.search(rf"Usage: {name} audit ", done.stdout)


def test_so_has_what_is_said_of_a_wrong_word(called):
    name, words = called

    done = ended(*words, "plan", "--seeed", "1")

    assert done.returncode == 2
    assert done.stderr.startswith(f"{name} plan: ")
    assert done.stderr.endswith(f"see {name} plan --help\n")


def test_the_version_is_told(called):
    _, words = called

    assert ended(*words, "--version").stdout == f"kafka-spark-chaos {version()}\n"
