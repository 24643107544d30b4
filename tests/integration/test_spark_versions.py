"""PySpark 3.5.7: as what a system is declared with, and as what the repository has where the wheel is installed.

The second has an environment whose PySpark is 3.5.7; all other packages are those of the environment that runs this test, so
that nothing is downloaded but that PySpark, at its first use.
"""

import json
import shutil
import sysconfig

import pytest

from chaos.install import artifacts, cache, go_build, spark_versions
from chaos.scenario.load import load
from tests.integration.external import environment
from tests.integration.test_wheel import PYTEST, ROOT, built, installed, output_of, without
from verifiers.base import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

OTHER = "3.5.7"
JOB = ("--kind", "spark-submit", "--application", "copy_topic.py", "--", "{bootstrap}", "{source}", "{sink}", "{checkpoint}")
INI = """\
[pytest]
testpaths = tests scenarios.yaml
pythonpath = .
filterwarnings =
    error
    ignore:unclosed:ResourceWarning
"""


@pytest.fixture(scope="module")
def other():
    """The parts with that Spark; made if they are not there yet."""
    return artifacts.of_spark(OTHER, artifacts.ensure(print), print)


@pytest.mark.nightly
def test_a_system_with_another_spark_than_the_judge(chaos_session, other):
    """Driver and Python workers are of its version: the exactly-once job loses its executors, and no record."""
    file = load(ROOT / "examples" / "versions" / "scenarios.yaml")
    scenario = file.scenario("executors-killed-after-commit-3-5-7")

    report = chaos_session.run(scenario, scenario.system, "", lambda _event: None).report

    assert report.verdict is Verdict.VALID, report.problems
    versions = json.loads((report.run_dir / "versions.json").read_text(encoding="utf-8"))
    assert (versions["spark"], versions["spark of the judge"]) == (OTHER, spark_versions.here())
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in (report.run_dir / "logs").glob("pipeline*.log")]
    assert any(f"Running Spark version {OTHER}" in text for text in logs)
    assert other.spark.version == OTHER


@pytest.fixture
def repository(tmp_path, other, net):
    """Runs a program in a repository whose environment has PySpark 3.5.7 and the wheel; there is no Go."""
    go = go_build.find_go(cache.folder(), print)
    wheel = built(tmp_path / "wheel", f"{go.parent}:{sysconfig.get_path('scripts')}:/usr/bin:/bin")
    programs = installed(wheel, tmp_path / "venv", first=other.spark.home.parent)
    place = tmp_path / "repository"
    (place / "tests").mkdir(parents=True)
    (place / "pipelines").mkdir()
    (place / "pipelines" / "__init__.py").write_text("OURS = 'orders'\n", encoding="utf-8")
    own = "import pyspark\n\nimport pipelines\n\n\ndef test_own():\n"
    own += f"    assert (pipelines.OURS, pyspark.__version__) == ('orders', '{OTHER}')\n"
    (place / "tests" / "test_own.py").write_text(own, encoding="utf-8")
    (place / "pytest.ini").write_text(INI, encoding="utf-8")
    shutil.copy(ROOT / "examples" / "spark_job" / "copy_topic.py", place)
    kept = {name: value for name, value in environment(net).items() if not name.startswith(("PYTHON", "PYTEST"))}

    def ran(program, *arguments):
        return output_of(programs / program, *arguments, cwd=place, env={**kept, "PATH": without("go")})

    return place, ran


@pytest.mark.nightly
def test_a_repository_with_pyspark_3_5(repository):
    """Its plain `pytest` runs its tests and no scenario; `-m chaos` breaks a broker under its job, and judges it."""
    place, run = repository

    run("chaos", "init", *JOB)
    plain = run("python", *PYTEST)
    run("python", *PYTEST, "-m", "chaos", "scenarios.yaml", "-k", "sink-leader-killed", "-p", "no:cacheprovider")

    assert "1 passed in" in plain
    assert "deselected" not in plain
    (found,) = place.glob("runs/*/report.json")
    report = json.loads(found.read_text(encoding="utf-8"))
    assert (report["scenario"], report["verdict"]) == ("sink-leader-killed", "VALID")
    versions = json.loads(found.with_name("versions.json").read_text(encoding="utf-8"))
    assert versions["spark"] == OTHER
    assert "spark of the judge" not in versions
    assert "VALID" in run("chaos", "judge", found.parent)
