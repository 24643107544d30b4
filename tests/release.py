"""The notes of a release, if the repository is ready for it.

    python3 tests/release.py v0.1.0 > notes.md

It is ready if the tag is the version in `pyproject.toml`, `CHANGELOG.md` has a section for that, and no fragment is left in
`changelog.d/`. The section is printed. `.github/workflows/release.yml` runs this before anything is built.
"""

import re
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]*)\)\n", re.MULTILINE)
_UNRELEASED = "unreleased"


class NotReadyError(Exception):
    """What is missing, and what to do about it."""


def notes(tag: str, root: Path = _ROOT) -> str:
    """The section of this release, without its heading.

    Raises:
        NotReadyError: the repository is not ready for this tag.
    """
    version = str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    if tag != f"v{version}":
        raise NotReadyError(
            f"the tag is {tag}, and pyproject.toml has version {version}; tag v{version}, or change the version"
        )
    left = sorted(path.name for path in (root / "changelog.d").glob("*.*.md"))
    if left:
        raise NotReadyError(f"changelog.d/ still has {', '.join(left)}; collect them: make changelog")
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=True):
        if heading["version"] == version and heading["date"] != _UNRELEASED:
            return text[heading.end() : end].strip() + "\n"
    raise NotReadyError(f"CHANGELOG.md has no section `## {version} (DATE)`; write it: make changelog, or put the date there")


def main() -> None:
    """Print the notes of the tag that is given, or end with what is missing."""
    try:
        sys.stdout.write(notes(sys.argv[1]))
    except NotReadyError as error:
        sys.exit(f"not ready: {error}")


if __name__ == "__main__":
    main()
