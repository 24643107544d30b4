"""The version of the code that runs, wherever it is."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from chaos.common import version

ROOT = Path(__file__).parents[3]
ELSEWHERE = ("*.toml", "*.md", "*.yml", "*.cfg", "*.py", "*.j2", "Dockerfile*", "Makefile")
RECORDS = {"CHANGELOG.md"}


def project(folder, *lines):
    """A clone with such a `pyproject.toml`."""
    (folder / "pyproject.toml").write_text("\n".join(("[project]", *lines)), encoding="utf-8")
    return folder


@pytest.fixture
def installed(monkeypatch):
    """The metadata of a package that is installed with another version."""
    monkeypatch.setattr(metadata, "version", {version.DISTRIBUTION: "7.0"}.__getitem__)


def test_this_clone_has_the_version_of_its_pyproject():
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

    assert version.version() == written


@pytest.mark.usefixtures("installed")
def test_a_clone_is_believed_before_what_is_installed(tmp_path):
    """It may have gone on since it was installed."""
    assert version.version(project(tmp_path, f'name = "{version.DISTRIBUTION}"', 'version = "8.1"')) == "8.1"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("lines", [('name = "shop"', 'version = "8.1"'), ("not toml",), ('version = "8.1"',)])
def test_a_project_of_others_is_not_believed(tmp_path, lines):
    """A wheel may be installed into the folder of one."""
    assert version.version(project(tmp_path, *lines)) == "7.0"


@pytest.mark.usefixtures("installed")
def test_a_wheel_has_it_in_its_metadata(tmp_path):
    """Nothing is beside the packages."""
    assert version.version(tmp_path) == "7.0"


def test_packages_without_metadata_have_none(monkeypatch, tmp_path):
    """They were copied, and nothing says what they are."""

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)

    assert version.version(tmp_path) == version.UNKNOWN


def test_the_version_is_written_once():
    """Another place would be forgotten at the next release."""
    name = version.DISTRIBUTION.replace("-", "[-_]")
    written = re.compile(rf"{name}(?:-|==| ){re.escape(version.version())}|__version__ = ")
    files = [
        path
        for pattern in ELSEWHERE
        for folder in ("", "chaos/**/", "docs/**/", ".github/**/")
        for path in ROOT.glob(folder + pattern)
    ]

    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if path.name not in RECORDS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if written.search(line)
    }

    assert len(files) > 300
    assert found == set()
