"""One cell of the supported versions: the wheel in an environment of its own, with one scenario on a real Kafka and Spark.

    make supported PYTHON=python3.12 PYSPARK=4.0.0 PYTEST=8
    python3 tests/supported.py --python python3.12 --pyspark 4.0.0 --pytest 8 [--wheel FILE] [--keep FOLDER]

What is not given is the newest that the wheel allows; Java is that of JAVA_HOME, or of the path. The steps are those of a user:
install the wheel, `chaos doctor`, `chaos parts`, `chaos init` for a Spark job, and pytest with a scenario in which a broker is
killed. Then the files of the run must say VALID, and the versions must be those that were asked for. Only the standard library
is used, so any Python from 3.11 on can start it. `nightly.yml` has the list of cells.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_ROOT = Path(__file__).parents[1]
_JOB = _ROOT / "examples" / "spark_job" / "copy_topic.py"
_WORDS = ("{bootstrap}", "{source}", "{sink}", "{checkpoint}")
_SCENARIO = "sink-leader-killed"
_WITHIN_S = 1800
_ASKS_VERSIONS = """
import json, platform, pyspark, pytest
print(json.dumps({"python": platform.python_version(), "pyspark": pyspark.__version__, "pytest": pytest.__version__}))
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is to be tested together; a version is 3.5.7 or its first numbers, and "" is any.

    Attributes:
        python: a program.
    """

    python: str
    pyspark: str = ""
    pytest: str = ""

    def requirements(self) -> Iterator[str]:
        """For pip, beside the wheel."""
        for name, version in {"pyspark": self.pyspark, "pytest": self.pytest}.items():
            if version:
                yield f"{name}=={version}.*"


def _environment() -> dict[str, str]:
    """The variables of a user's shell: none that leads to this clone, or changes what pytest does."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL_ENV"))}


def wheel(folder: Path, python: str) -> Path:
    """The wheel of this clone, built in an environment of its own."""
    _run(python, "-m", "venv", folder / "build")
    pip = (folder / "build" / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", _ROOT)
    return next((folder / "dist").glob("*.whl"))


def tested(cell: Cell, of_wheel: Path, folder: Path) -> str:
    """Install the wheel and run the scenario; returns one line that says what was tested.

    Raises:
        CalledProcessError: a step failed; what it printed has been seen.
        ValueError: the files of the run do not say what they must.
    """
    _run(cell.python, "-m", "venv", folder / "venv")
    programs = folder / "venv" / "bin"
    python = programs / "python"
    _run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", of_wheel, *cell.requirements())
    _run(python, "-m", "pip", "--disable-pip-version-check", "check")
    repository = folder / "repository"
    repository.mkdir()
    shutil.copy(_JOB, repository)

    def ran(*command: str | Path) -> str:
        return _run(*command, cwd=repository, env=_environment())

    ran(programs / "kafka-spark-chaos", "doctor")
    ran(programs / "chaos", "parts")
    ran(python, "-P", "-m", "chaos", "init", "--kind", "spark-submit", "--application", _JOB.name, "--", *_WORDS)
    ran(python, "-P", "-m", "pytest", "-m", "chaos", f"scenarios.yaml::test_scenario[{_SCENARIO}]")
    installed = json.loads(ran(python, "-P", "-c", _ASKS_VERSIONS))
    (run,) = {path.resolve().parent for path in (repository / "runs").glob("*/report.json")}
    return checked(cell, installed, run)


def checked(cell: Cell, installed: dict[str, str], run: Path) -> str:
    """One line of what was tested, if that is what was asked for.

    Args:
        installed: the versions of Python and of its packages.
        run: a run directory.

    Raises:
        ValueError: it is not, or the run is not VALID.
    """
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    versions = json.loads((run / "versions.json").read_text(encoding="utf-8"))
    was = {**installed, "java": versions["java"], "kafka": versions["kafka"]}
    line = f"{report['verdict']}: {', '.join(f'{name} {version}' for name, version in was.items())}"
    wrong = [name for name in ("pyspark", "pytest") if not _is_of(getattr(cell, name), was[name])]
    if report["verdict"] != "VALID" or wrong or versions["spark"] != installed["pyspark"]:
        raise ValueError(f"{line}; wanted VALID, and {cell}")
    return line


def _is_of(wanted: str, version: str) -> bool:
    return not wanted or f"{version}.".startswith(f"{wanted}.")


def _run(*command: str | Path, cwd: Path = _ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command, show what it prints, and return its output."""
    words = [str(word) for word in command]
    sys.stdout.write(f"\n$ {' '.join(words)}\n")
    sys.stdout.flush()
    answer = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, timeout=_WITHIN_S, check=False)
    sys.stdout.write(answer.stdout)
    answer.check_returncode()
    return answer.stdout


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="chaos-supported-") as folder:
            yield Path(folder)
    else:
        keep.mkdir(parents=True)
        yield keep.resolve()


def main(words: Sequence[str]) -> None:
    """Test one cell; a step that fails ends with its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="the interpreter, a name or a path")
    parser.add_argument("--pyspark", default="", help="3.5, or 3.5.7")
    parser.add_argument("--pytest", default="", help="8, or 8.4.2")
    parser.add_argument("--wheel", type=Path, help="one that was built already")
    parser.add_argument("--keep", type=Path, help="a new folder for environment and run, which stays")
    asked = parser.parse_args(words)
    cell = Cell(asked.python, asked.pyspark, asked.pytest)
    with _folder(asked.keep) as folder:
        try:
            line = tested(cell, asked.wheel.resolve() if asked.wheel else wheel(folder, cell.python), folder)
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)
        except ValueError as error:
            sys.exit(f"not what was asked for: {error}")
    sys.stdout.write(f"\n{line}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
