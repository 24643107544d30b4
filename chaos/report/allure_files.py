"""The three files beside Allure's results for which allure-pytest has no function (allure-python #96, #276)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The message of a result begins with the exception's full name. Java and JavaScript both read these patterns.
_UNAVAILABLE = r"^chaos\.common\.errors\.(RuntimeUnavailable|Deadline)Error[\s\S]*"
_INCONCLUSIVE = r"^chaos\.common\.errors\.InconclusiveError[\s\S]*"
_INTERRUPTED = r"^KeyboardInterrupt[\s\S]*"
_OTHER = r"^(?!chaos\.common\.errors\.(Inconclusive|RuntimeUnavailable|Deadline)Error|KeyboardInterrupt)[\s\S]*"

CATEGORIES = (
    {"name": "Guarantee broken", "matchedStatuses": ["failed"]},
    {"name": "Proved nothing", "matchedStatuses": ["broken"], "messageRegex": _INCONCLUSIVE},
    {"name": "System not available", "matchedStatuses": ["broken"], "messageRegex": _UNAVAILABLE},
    {"name": "Interrupted", "matchedStatuses": ["broken"], "messageRegex": _INTERRUPTED},
    {"name": "Defect of the framework", "matchedStatuses": ["broken"], "messageRegex": _OTHER},
)


def write_environment(results_dir: Path | None, mapping: Mapping[str, object]) -> None:
    """Write ``environment.properties``; nothing is done without a results directory, here and below."""
    lines = [f"{_key(name)} = {_value(str(value))}" for name, value in mapping.items()]
    _write(results_dir, "environment.properties", "\n".join(lines))


def write_categories(results_dir: Path | None) -> None:
    """Write ``categories.json``: what kind of red it is."""
    _write(results_dir, "categories.json", json.dumps(CATEGORIES, indent=1))


def write_executor(results_dir: Path | None, env: Mapping[str, str]) -> None:
    """Write ``executor.json``: which CI run this was, or that it was none.

    Args:
        results_dir: of ``--alluredir``.
        env: environment variables; GitHub's are known.
    """
    executor = _github(env) if env.get("GITHUB_ACTIONS") == "true" else {"name": "local run", "type": "local"}
    _write(results_dir, "executor.json", json.dumps(executor, indent=1))


def _github(env: Mapping[str, str]) -> Mapping[str, Any]:
    """Source: docs.github.com, "Default environment variables"."""
    repository = f"{env.get('GITHUB_SERVER_URL', 'https://github.com')}/{env.get('GITHUB_REPOSITORY', '')}"
    number = env.get("GITHUB_RUN_NUMBER", "0")
    return {
        "name": "GitHub Actions",
        "type": "github",
        "url": repository,
        "buildOrder": int(number),
        "buildName": f"{env.get('GITHUB_WORKFLOW', 'workflow')} #{number}",
        "buildUrl": f"{repository}/actions/runs/{env.get('GITHUB_RUN_ID', '')}",
    }


def _key(name: str) -> str:
    return name.replace("\\", "\\\\").replace(" ", "\\ ").replace("=", "\\=").replace(":", "\\:")


def _value(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _write(results_dir: Path | None, name: str, text: str) -> None:
    if results_dir is not None:
        results_dir.mkdir(parents=True, exist_ok=True)
        (results_dir / name).write_text(f"{text}\n", encoding="utf-8")
