"""The wheel in a repository of its own, with tests, an ini file and an environment that have nothing to do with this project.

The packages that `chaos` needs are those of the environment that runs this test, so that nothing is downloaded.
"""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import requests

from chaos.common import clock
from chaos.install import artifacts, cache, go_build, proxy

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]  # what is built here may be built for the first time

ROOT = Path(__file__).parents[2]
HOST = "127.78.9.7"
WITHIN_S = 900
SCENARIOS = """\
version: 2
topics: {numbers: {partitions: 3}}
scenarios:
  - name: first
    title: First
    pipeline: none
"""
PYTEST = ("-P", "-m", "pytest")  # as the program `pytest`: the working directory is not on the path
EDITABLE = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"


def output_of(*command, **options):
    """The output of a command, which must succeed."""
    answer = subprocess.run(tuple(map(str, command)), capture_output=True, text=True, timeout=WITHIN_S, check=False, **options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def without(program):
    """The folders of the path that do not have this program."""
    return os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / program).exists())


def built(folder, path):
    """The wheel of this repository, built with that path, and without a network where Go has its modules already."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    output_of(*pip, env={**os.environ, "PATH": path, "GOPATH": str(cache.folder() / "go-path")})
    (wheel,) = folder.glob("*.whl")
    return wheel


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def installed(wheel, folder, first=None):
    """The folder of programs of an environment with the wheel, which also sees the packages of the one that runs this test.

    Args:
        first: a folder of packages that are seen before these; the wheel must be content with all of them.
    """
    output_of(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    output_of(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    seen = (*([str(first)] if first else []), sysconfig.get_path("purelib"))
    (packages / "those-of-the-test.pth").write_text("\n".join(seen), encoding="utf-8")
    if first:
        output_of(*pip, "check")
    return folder / "bin"


def outside(path):
    """The variables of a user's shell: none of those with which this test was started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return {**kept, "PATH": path}


@pytest.fixture(scope="module")
def with_go():
    """A path with the Go that builds the proxy of a clone."""
    artifacts.ensure(print)
    go = go_build.find_go(cache.folder(), print)
    return os.pathsep.join((str(go.parent), os.environ["PATH"]))


@pytest.fixture(scope="module")
def wheel(with_go, tmp_path_factory):
    """One with the server in it."""
    return built(tmp_path_factory.mktemp("wheel"), with_go)


@pytest.fixture(scope="module")
def venv(wheel, tmp_path_factory):
    """The programs of the environment where that wheel is installed."""
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def run(venv, tmp_path):
    """Runs a program of that environment in a repository with a test and a package `pipelines` of its own; there is no Go."""
    ini = "[pytest]\ntestpaths = tests scenarios.yaml\naddopts = -q\npythonpath = .\n"
    (tmp_path / "pytest.ini").write_text(ini, encoding="utf-8")
    for folder in ("tests", "pipelines"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("OURS = 'orders'\n", encoding="utf-8")
    own = "import pipelines\n\ndef test_own():\n    assert pipelines.OURS == 'orders'\n"
    (tmp_path / "tests" / "test_own.py").write_text(own, encoding="utf-8")
    (tmp_path / "scenarios.yaml").write_text(SCENARIOS, encoding="utf-8")

    def ran(program, *arguments):
        return output_of(venv / program, *arguments, cwd=tmp_path, env=outside(without("go")))

    return ran


def test_the_package_is_that_of_the_wheel(run, venv):
    """Not that of this clone: the tests below would prove nothing."""
    place = run("python", "-c", "import chaos, verifiers; print(chaos.__file__, verifiers.__file__)")

    assert all(path.startswith(str(venv.parent)) for path in place.split())


def test_plain_pytest_runs_the_tests_of_the_repository_and_no_scenario(run):
    """The repository asked for nothing."""
    said = run("python", *PYTEST)

    assert "1 passed in" in said
    assert "deselected" not in said


def test_a_file_of_another_tool_is_left_alone(run, tmp_path):
    """Also where scenarios are asked for."""
    (tmp_path / "scenarios.yaml").write_text("- {name: log in, steps: [open, type]}\n", encoding="utf-8")

    assert "1 passed in" in run("python", *PYTEST, "tests")
    assert "1 passed in" in run("python", *PYTEST, "-m", "chaos or not chaos", ".")


def test_scenarios_are_collected_when_they_are_asked_for(run):
    """`pytest -m chaos` needs nothing but the wheel."""
    assert run("python", *PYTEST, "-m", "chaos", "--collect-only").split()[0] == "scenarios.yaml::test_scenario[first]"


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("--help", "audit"),
        ("plan", "first"),
        ("faults", "kill_broker"),
        ("schema", "scenarios.yaml"),
        ("audit --help", "transactions"),
        ("audit topics --help", "--expected-sql"),
        ("audit transactions --help", "--shared-sink"),
        ("audit follow --help", "--overdue"),
    ],
)
def test_the_commands_work(run, command, shows):
    """They find all their data in the wheel."""
    assert shows in run("chaos", *command.split())


@pytest.mark.parametrize("words", [("kafka-spark-chaos",), ("python", "-P", "-m", "chaos"), ("chaos",)], ids=" ".join)
def test_each_name_of_the_command_works(run, wheel, words):
    """Another package may have `chaos`."""
    version = wheel.name.split("-")[1]

    assert run(*words, "--version") == f"kafka-spark-chaos {version}\n"


def test_the_parts_need_no_go(run):
    """The server came with the wheel, so none is built."""
    said = run("chaos", "parts")

    assert f"toxiproxy       {proxy.toxiproxy_version()}" in said
    assert "building" not in said


def test_the_server_is_the_one_of_the_wheel(run, venv):
    """It is the one that a run starts, it can be executed, and it answers."""
    asks = "from chaos.install import artifacts; print(artifacts.ensure(print).toxiproxy)"
    server = run("python", "-c", asks).strip()
    assert server.startswith(str(venv.parent))

    with subprocess.Popen([server, "-host", HOST, "-port", "8474"], stdout=subprocess.DEVNULL) as process:
        try:
            answer = clock.wait_until(
                lambda: requests.get(f"http://{HOST}:8474/version", timeout=60),
                within_s=300,
                reason="the server to answer",
                ignore=(requests.ConnectionError,),
            )
            assert answer.json()["version"]
        finally:
            process.kill()


def test_a_wheel_with_the_server_is_for_this_platform_only(wheel):
    """And it has the sources as well, from which `chaos parts` would build the same server."""
    names = names_in(wheel)
    sources = {str(proxy.IN_WHEEL / path.relative_to(proxy.SOURCES)) for path in proxy.sources()}

    assert "-py3-none-manylinux_" in wheel.name
    assert sources | {str(proxy.IN_WHEEL / "server"), str(proxy.IN_WHEEL / "go.lock")} <= names


def test_a_wheel_has_no_package_that_a_repository_may_have_too(wheel):
    """With two packages `pipelines`, Python would import one in place of the other."""
    packages = {name.partition("/")[0] for name in names_in(wheel)}

    assert {name for name in packages if not name.endswith(".dist-info")} == {"chaos", "verifiers"}


def test_a_wheel_has_the_files_of_the_demo(wheel):
    """Two of them are programs, which nothing imports."""
    files = {f"chaos/demo/files/{name}" for name in ("scenarios.yaml", "copy_in_transactions.py", "copy_in_steps.py")}

    assert files <= names_in(wheel)


def test_a_wheel_has_the_templates_of_the_pages(wheel):
    """They are no modules, so nothing but a page that is written would miss them."""
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "chaos" / "report" / "html" / "templates").glob("*.j2")}

    assert templates
    assert templates <= names_in(wheel)


def test_the_packages_of_a_wheel_are_typed(wheel):
    """A type checker believes the annotations of an installed package with this file only (PEP 561)."""
    assert {"chaos/py.typed", "verifiers/py.typed"} <= names_in(wheel)


def test_without_go_the_wheel_has_the_sources_and_is_for_every_platform(with_go, tmp_path):
    """The server is built from them where it is needed, as in a clone."""
    wheel = built(tmp_path, without("go"))
    builds = "import sys; from pathlib import Path; from chaos.install import artifacts; "
    builds += "print(artifacts._toxiproxy(Path(sys.argv[1]), print))"
    environment = {**outside(with_go), "GOPATH": str(cache.folder() / "go-path")}
    place = tmp_path / "cache"
    place.mkdir()

    said = output_of(installed(wheel, tmp_path / "venv") / "python", "-P", "-c", builds, place, env=environment)

    assert wheel.name.endswith("-py3-none-any.whl")
    assert str(proxy.IN_WHEEL / "server") not in names_in(wheel)
    assert Path(said.split()[-1]).is_relative_to(place)
    assert (
        "Usage of" in subprocess.run((said.split()[-1], "-h"), capture_output=True, text=True, timeout=300, check=False).stderr
    )


def test_an_editable_install_uses_its_clone(tmp_path):
    """It takes no copy of the sources, and needs no Go."""
    output_of(sys.executable, "-c", EDITABLE, tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")

    assert not any(name.startswith("chaos") for name in names_in(wheel))
