"""The version of chaos. It is written in `pyproject.toml`, and nowhere else."""

import tomllib
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "kafka-spark-chaos"
UNKNOWN = "unknown"
_CLONE = Path(__file__).parents[2]


def version(clone: Path = _CLONE) -> str:
    """The version of the code that runs.

    In a clone it is read from its `pyproject.toml`: the clone may be newer than what was installed from it, or not installed
    at all. A wheel has no such file, and its metadata has the version.

    Args:
        clone: the folder that would have the file.

    Returns:
        E.g. ``0.1.0``; ``unknown`` where neither has it.
    """
    try:
        project = tomllib.loads((clone / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        if project["name"] == DISTRIBUTION:
            return str(project["version"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return UNKNOWN
