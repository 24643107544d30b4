"""What each registry's own client is asked for, and the one line that is made of what it prints."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import jars, packages
from chaos.install.registries import GoModules, Npm, PyPI
from tests.unit.wording import raised

IVY = jars.Ivy(Path("java"), Path("spark"))
AIOKAFKA = PyPI(("aiokafka==0.14.0",))
KAFKAJS = Npm(("kafkajs@2.2.4",))
KGO = GoModules(("github.com/twmb/franz-go/pkg/kgo@v1.20.7",))


class Clients:
    """Stands in for pip, npm and go, which would ask a registry; environments are made by the real Python.

    Attributes:
        asked: the words of each call.
        says: what they print; if anything, they fail.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.says = ""

    def run(self, argv, *, within_s, cwd=None, env=None):
        if "pip" not in argv and "install" not in argv and "/usr/bin/go" not in argv:
            return REAL(argv, within_s=within_s, cwd=cwd, env=env)
        self.asked.append(tuple(argv))
        if not self.says and "--prefix" in argv:
            (Path(argv[argv.index("--prefix") + 1]) / "node_modules").mkdir()
        return subprocess.CompletedProcess(argv, 1 if self.says else 0, "", self.says)


REAL = processes.run


@pytest.fixture
def clients(monkeypatch, tmp_path):
    stand_in = Clients()
    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(processes, "run", stand_in.run)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in ("node", "npm", "go") else None)
    return stand_in


def test_packages_of_python_have_an_environment_of_their_own(clients):
    """Its interpreter imports nothing of the framework's environment, and pip is asked once."""
    first, second = (packages.ensure(AIOKAFKA, IVY, print) for _ in range(2))

    (asked,) = clients.asked
    assert asked[-1] == "aiokafka==0.14.0"
    assert first == second
    found = REAL((first.python, "-c", "import sys; print(sys.prefix); import pydantic"), within_s=60)
    assert Path(found.stdout.strip()) == Path(first.python).parents[1]
    assert "No module named 'pydantic'" in found.stderr
    assert first.paths[0].is_relative_to(found.stdout.strip())


def test_another_set_is_another_environment(clients):
    first, second = (packages.ensure(PyPI((f"aiokafka=={version}",)), IVY, print) for version in ("0.13.0", "0.14.0"))

    assert first.python != second.python
    assert len(clients.asked) == 2


@pytest.mark.usefixtures("clients")
def test_an_environment_whose_python_is_gone():
    """It is refused once, and made anew the next time."""
    python = Path(packages.ensure(AIOKAFKA, IVY, print).python)
    python.unlink()

    with pytest.raises(RuntimeUnavailableError, match=r"the Python of .* is gone from this machine"):
        packages.ensure(AIOKAFKA, IVY, print)
    packages.ensure(AIOKAFKA, IVY, print)

    assert python.exists()


def test_packages_of_node_are_in_their_folder(clients):
    first, second = (packages.ensure(KAFKAJS, IVY, print) for _ in range(2))

    (asked,) = clients.asked
    assert (asked[:2], asked[-1]) == (("/usr/bin/npm", "install"), "kafkajs@2.2.4")
    assert first == second
    assert [path.name for path in first.paths] == ["node_modules"]
    assert first.paths[0].is_dir()


def test_packages_of_go_are_in_a_module(clients):
    found = packages.ensure(KGO, IVY, print)

    assert [asked[1:3] for asked in clients.asked] == [("mod", "init"), ("get", KGO.packages[0])]
    assert found.paths[0].is_dir()


@pytest.mark.parametrize(
    ("registry", "says", "line"),
    [
        (AIOKAFKA, "ERROR: No matching distribution found for aiokafka==0.14.0\n", "PyPI has no aiokafka==0.14.0 for Python"),
        (AIOKAFKA, "NewConnectionError: Failed to establish a new connection", "PyPI cannot be reached"),
        (AIOKAFKA, "error: command 'gcc' failed", "aiokafka==0.14.0 could not be installed: error: command 'gcc' failed"),
        (KAFKAJS, "npm error code ETARGET\nnpm error No matching version found for kafkajs@2.2.4.", "npm has no kafkajs@2.2.4"),
        (KAFKAJS, "npm error code E404\nnpm error 404 Not Found - GET", "npm has no kafkajs@2.2.4"),
        (KAFKAJS, "npm error code ENOTFOUND", "npm's registry cannot be reached"),
        (KAFKAJS, "npm error gyp ERR! build error", "kafkajs@2.2.4 could not be installed"),
        (
            KGO,
            "go: github.com/twmb/franz-go/pkg/kgo@v1.20.7: invalid version: unknown revision",
            "has no github.com/twmb/franz-go",
        ),
        (KGO, "go: dial tcp: lookup proxy: no such host", "cannot be reached"),
        (KGO, "go: requires go >= 9.0", "kgo@v1.20.7 could not be fetched"),
    ],
)
def test_what_cannot_be_had(clients, tmp_path, registry, says, line):
    """One line says why, and nothing stays in the cache."""
    clients.says = says

    with raised(RuntimeUnavailableError, line, hidden={platform.python_version(): "<version>"}):
        packages.ensure(registry, IVY, print)

    assert not [path for path in (tmp_path / "cache").glob("packages-*") if not path.name.endswith(".half")]


def test_a_runtime_that_is_not_there(clients, monkeypatch):
    """It is named before anything is fetched."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with raised(RuntimeUnavailableError, "node ", "Node.js"):
        packages.ensure(KAFKAJS, IVY, print)
    with raised(RuntimeUnavailableError, "go ", "Go"):
        packages.ensure(KGO, IVY, print)
    with raised(RuntimeUnavailableError, "python3.8"):
        packages.ensure(PyPI(("confluent-kafka==1.5.0",), "python3.8"), IVY, print)

    assert clients.asked == []


@pytest.mark.usefixtures("clients")
def test_a_python_by_its_name_is_found(monkeypatch):
    """What counts is the interpreter that the name leads to."""
    monkeypatch.setattr(shutil, "which", lambda _name: sys.executable)

    assert PyPI(("a==1",), "python3").recipe() == PyPI(("a==1",)).recipe()
