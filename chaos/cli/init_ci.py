"""`chaos init --ci`: a workflow for the repository in which it is called. Its text is in `init_ci_text.py`."""

import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.cli import init_files
from chaos.cli.init_ci_text import SYSTEMS, Job, System, text
from chaos.cli.init_files import NAME, InitUsageError
from chaos.common.errors import ScenarioError
from chaos.grammar.base import did_you_mean
from chaos.scenario.load import load

_PACKAGE = "kafka-spark-chaos"
# in a line of pip's: a name, a wheel, or an address; but neither a part of another name nor an extra of one
_NAMED = re.compile(r"(?<![\w.-])kafka[-_.]+spark[-_.]+chaos(?=\.git\b|(?![-_.]*[a-z]))", re.IGNORECASE)
_REQUIREMENTS = ("requirements*.txt", "requirements/*.txt", "requirements*.lock", "requirements/*.lock")
_YAML = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was given by flags; what is empty was not given."""

    ci: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow that can be written.

    Attributes:
        install: how this package is installed; "" if nothing says it.
        origin: what says it, for people.
        packages: the file that says which packages are installed.
        scenarios: their path from the root of the repository.
    """

    system: System
    install: str
    origin: str
    packages: str
    scenarios: str

    def write(self) -> Iterator[str]:
        """Write it; gives what people should know of it, line by line.

        Raises:
            InitUsageError: it cannot be written.
        """
        file, entry = Path(self.system.file), self.system.entry
        job = Job(self.install or _placeholder(self.system.file), self.packages, _as_typed(self.scenarios))
        _make(file.parent)
        init_files.write(file, text(self.system, job), "see who may write there")
        yield f"wrote {file}: it runs {self.scenarios} {self.system.runs}"
        if self.install:
            yield f"  it installs with `{self.install}`, {self.origin}"
        else:
            yield f"  it fails until you replace its line with echo by what installs {_PACKAGE}"
        if entry and not os.path.lexists(entry):
            init_files.write(Path(entry), self.system.include, "see who may write there")
            yield f"wrote {entry}, which names it: {self.system.include}"
        elif entry and file.name not in _read(Path(entry)):
            yield f"  put this line into {entry}: {self.system.include}"
        if self.system.by_hand:
            yield f"  {self.system.by_hand}"


def workflow(wanted: Wanted, scenarios: Path) -> Workflow | None:
    """The workflow that is asked for; nothing is written yet.

    Args:
        scenarios: the scenarios file.

    Returns:
        None if none is asked for.

    Raises:
        InitUsageError: it cannot be written, or what was given is wrong.
    """
    if not wanted.ci:
        if wanted.install:
            raise InitUsageError(f"--install: is a step of a workflow; add --ci {' or '.join(SYSTEMS)}")
        return None
    if wanted.ci not in SYSTEMS:
        known = tuple(SYSTEMS)
        raise InitUsageError(f"--ci: {wanted.ci!r} is not known{did_you_mean(wanted.ci, known)}; write {' or '.join(known)}")
    system = SYSTEMS[wanted.ci]
    _check_is_root(system, scenarios)
    if os.path.lexists(system.file):
        raise InitUsageError(
            f"{system.file}: is there already, and is not overwritten; move it away and call this again, or change it by hand"
        )
    path = _inside(scenarios)
    if wanted.install:
        return Workflow(system, _one_line(wanted.install), "as --install says", system.file, path)
    install, packages = _found()
    return Workflow(system, install, f"because {packages} names {_PACKAGE}", packages or system.file, path)


def check_readable(scenarios: Path) -> None:
    """Check that a file which is there already is one of ours, so that a workflow for it can be green.

    Raises:
        InitUsageError: it is not.
    """
    if scenarios.suffix not in _YAML:  # tests in Python, or a folder of them
        return
    try:
        load(scenarios)
    except ScenarioError as error:
        first, *_ = str(error).splitlines()
        raise InitUsageError(f"{first}; it is there and cannot be read, so no workflow was written for it") from None


def _one_line(command: str) -> str:
    if not command.strip() or not command.isprintable():
        raise InitUsageError("--install: write one line, e.g. --install 'pip install PATH_OF_THE_WHEEL'")
    return command.strip()


def _placeholder(file: str) -> str:
    said = f"{file}: write here, in place of this line, how {_PACKAGE} is installed: pip install PATH_OR_ADDRESS"
    return f'echo "{said}" >&2; exit 1'


def _as_typed(scenarios: str) -> str:
    """What pytest is told of them; of a file with another name than it looks for, that it has scenarios, too."""
    path = shlex.quote(scenarios)
    is_known = Path(scenarios).name == NAME or Path(scenarios).suffix not in _YAML
    return path if is_known else f"-o {shlex.quote(f'chaos_files={path}')} {path}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InitUsageError(f"{folder}: cannot be made: {error.strerror}; make it, and call this again") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# where it is called --------------------------------------------------------------------------------------------------------


def _inside(scenarios: Path) -> str:
    """The path of the scenarios file, as the workflow names it."""
    path = os.path.relpath(scenarios.absolute(), Path.cwd())
    if path.startswith(os.pardir):
        raise InitUsageError(f"{scenarios}: is outside of this folder, so a workflow of it cannot name it; call this elsewhere")
    if not path.isprintable():
        raise InitUsageError(f"{path!r}: is no name for a line of a workflow; give the file another one")
    return path


def _check_is_root(system: System, scenarios: Path) -> None:
    """CI systems read workflows from the root of a repository only."""
    below = _place_in_repository()
    if not below:
        return
    up = os.path.relpath(Path(), below)
    file = "" if scenarios.is_absolute() else f", and add --file {shlex.quote(str(Path(below) / scenarios))}"
    raise InitUsageError(f"--ci: {system.file} is read in the root of a repository only: first cd {up}{file}")


def _place_in_repository() -> str:
    """The path from the root of the repository to here; "" at the root, and where there is no repository or no git."""
    answer = init_files.git("rev-parse", "--show-prefix")
    return answer.stdout.strip() if answer else ""


# how this package is installed ---------------------------------------------------------------------------------------------


def _found() -> tuple[str, str]:
    """The command that installs what a file of this repository says, if it names this package; and that file."""
    for pattern in _REQUIREMENTS:
        for file in sorted(Path().glob(pattern)):
            if _names_it(line.partition(" #")[0] for line in _read(file).splitlines() if not line.lstrip().startswith("#")):
                return f"pip install -r {shlex.quote(str(file))}", str(file)
    project = "pyproject.toml"
    try:
        command = _of_project(tomllib.loads(_read(Path(project))))
    except tomllib.TOMLDecodeError:
        command = ""
    return (command, project) if command else ("", "")


def _of_project(declared: Mapping[str, Any]) -> str:
    project = declared.get("project", {})
    if _names_it(project.get("dependencies", ())):
        return "pip install ."
    for extra, packages in project.get("optional-dependencies", {}).items():
        if _names_it(packages):
            return f"pip install {shlex.quote(f'.[{extra}]')}"
    for group, packages in declared.get("dependency-groups", {}).items():
        if _names_it(packages):
            return f"pip install 'pip>=25.1' && pip install --group {shlex.quote(group)}"
    return ""


def _names_it(lines: Iterable[object]) -> bool:
    return any(isinstance(line, str) and _NAMED.search(line) for line in lines)
