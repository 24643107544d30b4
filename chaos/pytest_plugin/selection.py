"""Decide which files are scenarios, and whether they were selected.

This module imports nothing that runs a scenario, because every pytest session imports it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FILE = "scenarios.yaml"
_TYPED = pytest.StashKey[str]()
_NAMED = pytest.StashKey[frozenset[Path]]()
_OURS = (re.compile(r"^version:[ \t]*\d+[ \t]*(#.*)?$", re.MULTILINE), re.compile(r"^scenario\w*[ \t]*:", re.MULTILINE))
_PLUGIN = "chaos.pytest_plugin.plugin"


def keep_typed(config: pytest.Config, parser: pytest.Parser) -> None:
    """Keep the ``-m`` of the command line: one in the ini, or in PYTEST_ADDOPTS, must not start anything."""
    config.stash[_TYPED] = parser.parse_known_args(config.invocation_params.args).markexpr or ""


def keep_named(config: pytest.Config) -> None:
    """Keep the files that the ini names.

    Raises:
        UsageError: a pattern of `chaos_files` is wrong.
    """
    config.stash[_NAMED] = frozenset(path for pattern in config.getini("chaos_files") for path in _matching(pattern, config))


def is_selected(config: pytest.Config) -> bool:
    """Whether the command line has a ``-m`` with the word chaos in it."""
    return re.search(r"\bchaos\b", config.stash.get(_TYPED, "")) is not None


def is_driven(item: pytest.Item) -> bool:
    """Whether a test uses our fixture `chaos`: a repository may have its own fixture of that name."""
    if "chaos" not in getattr(item, "fixturenames", ()):
        return False
    info = getattr(item, "_fixtureinfo", None)  # pytest has no other way to tell fixtures of one name apart
    found = list(info.name2fixturedefs.get("chaos", ())) if info else []
    return bool(found) and getattr(found[-1].func, "__module__", "") == _PLUGIN


def scenarios_files(config: pytest.Config, folder: Path) -> list[Path]:
    """Return the scenarios files for a test in this folder: those of the ini, or the nearest one in the folder or above."""
    if config.getini("chaos_files"):
        named = config.stash[_NAMED]
        return sorted(named)
    folders = [folder, *folder.parents]
    below_root = folders[: folders.index(config.rootpath) + 1] if config.rootpath in folders else [folder]
    return [path for path in (near / FILE for near in below_root) if path.is_file() and is_ours(path, config)][:1]


def is_ours(path: Path, config: pytest.Config) -> bool:
    """Whether a file is ours, by the ini, or else by its name and lines: other tools have a `scenarios.yaml` too."""
    if config.getini("chaos_files"):
        return path.resolve() in config.stash[_NAMED]
    return path.name == FILE and has_our_lines(path)


def has_our_lines(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return False
    return all(line.search(text) for line in _OURS)


def _matching(pattern: str, config: pytest.Config) -> Iterator[Path]:
    try:
        yield from map(Path.resolve, config.rootpath.glob(pattern))
    except (NotImplementedError, ValueError):
        raise pytest.UsageError(
            f"chaos_files: {pattern!r} is not a pattern below {config.rootpath}; write e.g. chaos/*.yaml"
        ) from None
