"""The changes: fragments that can be collected, and a section for a release."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import release
from tests.release import NotReadyError, notes

ROOT = Path(__file__).parents[3]
FRAGMENTS = sorted((ROOT / "changelog.d").glob("*"))
LONG = 6  # lines; a change that needs more wants a page, and a link to it
CHANGES = """\
# Changelog

<!-- changelog.d/ has what comes next -->

## 0.2.0 (2027-01-31)

### Added

- Second.

## 0.1.0 (unreleased)

First.
"""


def collected(*options):
    """What towncrier makes of the fragments of this repository; it writes nothing."""
    words = (sys.executable, "-m", "towncrier", "build", "--draft", "--version", "99.0", "--date", "2099-01-01", *options)
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_every_fragment_is_in_the_next_section():
    """Of a file that it does not understand, towncrier may say nothing."""
    done = collected()
    lines = {" ".join(line.split()) for line in done.stdout.splitlines()}

    assert done.returncode == 0, done.stdout + done.stderr
    assert "## 99.0 (2099-01-01)" in lines
    for path in FRAGMENTS:
        first, *others = path.read_text(encoding="utf-8").splitlines()
        assert {f"- {first}", *(" ".join(line.split()) for line in others)} <= lines, path.name


def test_a_fragment_is_a_few_sentences():
    """Its name says what kind of change it is; the bullet is towncrier's. After a release there is none."""
    for path in FRAGMENTS:
        text = path.read_text(encoding="utf-8")

        assert re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|fixed|removed)\.md", path.name)
        assert text.endswith(".\n"), path.name
        assert not text.startswith(("-", "*", "#", " ")), path.name
        assert len(text.splitlines()) <= LONG, path.name


@pytest.fixture
def repository(tmp_path):
    """One that is ready for v0.2.0."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGES, encoding="utf-8")
    (tmp_path / "changelog.d").mkdir()
    return tmp_path


def test_the_notes_are_the_section_alone(repository):
    assert notes("v0.2.0", repository) == "### Added\n\n- Second.\n"


@pytest.mark.parametrize(
    ("file", "text", "tag", "says"),
    [
        ("CHANGELOG.md", CHANGES, "v0.3.0", "the tag is v0.3.0"),
        ("CHANGELOG.md", CHANGES, "0.2.0", "the tag is 0.2.0"),
        ("CHANGELOG.md", CHANGES.replace("0.2.0", "0.2.1"), "v0.2.0", "no section"),
        ("pyproject.toml", '[project]\nversion = "0.1.0"\n', "v0.1.0", "no section"),
        ("changelog.d/+x.fixed.md", "Mended.\n", "v0.2.0", "+x.fixed.md"),
    ],
    ids=["another version", "no v", "no section", "not dated", "a fragment is left"],
)
def test_what_is_not_ready_is_not_released(repository, file, text, tag, says):
    (repository / file).write_text(text, encoding="utf-8")

    with pytest.raises(NotReadyError) as raised:
        notes(tag, repository)

    assert says in str(raised.value)


def test_this_repository_has_a_section_that_can_be_found():
    """The heading that towncrier writes is the one that is looked for."""
    heading = release._HEADING.search(collected().stdout)

    assert heading is not None
    assert (heading["version"], heading["date"]) == ("99.0", "2099-01-01")
    assert release._HEADING.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
