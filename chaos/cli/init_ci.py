"""`chaos init --ci`: write a workflow for the current repository. Its text is in `init_ci_text.py`."""

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
# matches a name, a wheel, or an address in a line of pip's; but neither a part of another name nor an extra of one
_NAMED = re.compile(r"(?<![\w.-])kafka[-_.]+spark[-_.]+chaos(?=\.git\b|(?![-_.]*[a-z]))", re.IGNORECASE)
_REQUIREMENTS = ("requirements*.txt", "requirements/*.txt", "requirements*.lock", "requirements/*.lock")
_YAML = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Values of the flags; empty if not given."""

    ci: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow to write.

    Attributes:
        install: the command that installs this package; "" if it is unknown.
        origin: why this command, for messages.
        packages: the file that names the packages to install.
        scenarios: path of the scenarios from the root of the repository.
    """

    system: System
    install: str
    origin: str
    packages: str
    scenarios: str

    def write(self) -> Iterator[str]:
        """Write the workflow; yield the lines to print.

        Raises:
            InitUsageError: it cannot be written.
        """
        file, entry = Path(self.system.file), self.system.entry
        job = Job(self.install or _placeholder(self.system.file), self.packages, as_typed(self.scenarios))
        _make(file.parent)
        init_files.write(file, text(self.system, job), "check permissions and free space")
        yield f"wrote {file}: it runs {self.scenarios} {self.system.runs}"
        if self.install:
            yield f"  it installs with `{self.install}`, {self.origin}"
        else:
            yield f"  it fails until you replace its line with echo by the command that installs {_PACKAGE}"
        if entry and not os.path.lexists(entry):
            init_files.write(Path(entry), self.system.include, "check permissions and free space")
            yield f"wrote {entry}, which includes it: {self.system.include}"
        elif entry and file.name not in _read(Path(entry)):
            yield f"  put this line into {entry}: {self.system.include}"
        if self.system.by_hand:
            yield f"  {self.system.by_hand}"


def workflow(wanted: Wanted, scenarios: Path) -> Workflow | None:
    """Prepare the requested workflow, without writing it.

    Args:
        scenarios: the scenarios file.

    Returns:
        None if no workflow is requested.

    Raises:
        InitUsageError: it cannot be written, or a flag is wrong.
    """
    if not wanted.ci:
        if wanted.install:
            raise InitUsageError(f"--install: sets a step of a workflow; add --ci {' or '.join(SYSTEMS)}")
        return None
    if wanted.ci not in SYSTEMS:
        known = tuple(SYSTEMS)
        raise InitUsageError(f"--ci: {wanted.ci!r} is not known{did_you_mean(wanted.ci, known)}; write {' or '.join(known)}")
    system = SYSTEMS[wanted.ci]
    _check_is_root(system, scenarios)
    if os.path.lexists(system.file):
        raise InitUsageError(
            f"{system.file}: exists already, and is not overwritten; move it away and run this again, or change it by hand"
        )
    path = _inside(scenarios)
    if wanted.install:
        return Workflow(system, _one_line(wanted.install), "as --install says", system.file, path)
    install, packages = _found()
    return Workflow(system, install, f"because {packages} names {_PACKAGE}", packages or system.file, path)


def check_readable(scenarios: Path) -> None:
    """Check that an existing file is a scenarios file, so that a workflow for it can be green.

    Raises:
        InitUsageError: it is not.
    """
    if scenarios.suffix not in _YAML:  # tests in Python, or a folder of them
        return
    try:
        load(scenarios)
    except ScenarioError as error:
        first, *_ = str(error).splitlines()
        raise InitUsageError(f"{first}; this file exists and cannot be read, so no workflow was written for it") from None


def _one_line(command: str) -> str:
    if not command.strip() or not command.isprintable():
        raise InitUsageError("--install: write one line, e.g. --install 'pip install PATH_OF_THE_WHEEL'")
    return command.strip()


def _placeholder(file: str) -> str:
    said = f"{file}: replace this line by the command that installs {_PACKAGE}: pip install PATH_OR_ADDRESS"
    return f'echo "{said}" >&2; exit 1'


def as_typed(scenarios: str) -> str:
    """Return the arguments of pytest for these scenarios; a file with another name than the usual one needs an option."""
    path = shlex.quote(scenarios)
    is_known = Path(scenarios).name == NAME or Path(scenarios).suffix not in _YAML
    return path if is_known else f"-o {shlex.quote(f'chaos_files={path}')} {path}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InitUsageError(f"{folder}: cannot be created: {error.strerror}; create it, and run this again") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# the repository ------------------------------------------------------------------------------------------------------------


def _inside(scenarios: Path) -> str:
    """Return the path of the scenarios file, as the workflow names it."""
    path = os.path.relpath(scenarios.absolute(), Path.cwd())
    if path.startswith(os.pardir):
        raise InitUsageError(f"{scenarios}: is outside this folder, so its workflow cannot name it; run this in another folder")
    if not path.isprintable():
        raise InitUsageError(f"{path!r}: cannot stand in a line of a workflow; rename the file")
    return path


def _check_is_root(system: System, scenarios: Path) -> None:
    """Check that this is the root of a repository: CI systems read workflows only there."""
    below = _place_in_repository()
    if not below:
        return
    up = os.path.relpath(Path(), below)
    file = "" if scenarios.is_absolute() else f", and add --file {shlex.quote(str(Path(below) / scenarios))}"
    raise InitUsageError(f"--ci: {system.file} must be in the root of a repository: first cd {up}{file}")


def _place_in_repository() -> str:
    """Return the path from the root of the repository to here; "" at the root, and without a repository or git."""
    answer = init_files.git("rev-parse", "--show-prefix")
    return answer.stdout.strip() if answer else ""


# installing this package ---------------------------------------------------------------------------------------------------


def _found() -> tuple[str, str]:
    """Find a file of this repository that names this package; return the command that installs from it, and the file."""
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
