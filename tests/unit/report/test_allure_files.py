import json
import re
from pathlib import Path

import pytest

from chaos.report.allure_files import CATEGORIES, write_categories, write_environment, write_executor

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "owner/project",
    "GITHUB_RUN_ID": "99",
    "GITHUB_RUN_NUMBER": "12",
    "GITHUB_WORKFLOW": "nightly",
}


def test_environment_survives_the_format_of_properties(tmp_path: Path) -> None:
    """A space, a colon or an equals sign would end the key; a line break the value."""
    write_environment(tmp_path / "new", {"Kafka": "4.3.0", "java version": "17\nTemurin", "a=b:c": 3})

    assert (tmp_path / "new" / "environment.properties").read_text(encoding="utf-8").splitlines() == [
        "Kafka = 4.3.0",
        "java\\ version = 17\\nTemurin",
        "a\\=b\\:c = 3",
    ]


@pytest.mark.parametrize(
    ("status", "message", "category"),
    [
        ("failed", "chaos.common.errors.ViolationError: INVALID: duplicates 3\nmore", "Guarantee broken"),
        (
            "broken",
            "chaos.common.errors.InconclusiveError: UNKNOWN: gaps ?\n  drain: chaos.common.errors.DeadlineError: x",
            "Proved nothing",
        ),
        ("broken", "chaos.common.errors.RuntimeUnavailableError: no JDK", "System not available"),
        ("broken", "chaos.common.errors.DeadlineError: waited 60 s", "System not available"),
        ("broken", "KeyboardInterrupt: the run was ended", "Interrupted"),
        ("broken", "KeyError: 'chaos.common.errors.InconclusiveError'", "Defect of the framework"),
        ("broken", "chaos.common.errors.InjectionError: no", "Defect of the framework"),
    ],
)
def test_every_red_has_exactly_one_category(status: str, message: str, category: str) -> None:
    """The message's beginning decides, whatever else it quotes."""
    matching = [
        one["name"]
        for one in CATEGORIES
        if status in one["matchedStatuses"] and re.fullmatch(one.get("messageRegex", r"[\s\S]*"), message)
    ]

    assert matching == [category]


def test_categories_are_written_as_allure_reads_them(tmp_path: Path) -> None:
    """A list, in the file of that name."""
    write_categories(tmp_path)

    assert json.loads((tmp_path / "categories.json").read_text(encoding="utf-8")) == list(CATEGORIES)


def test_a_run_of_github_links_back_to_itself(tmp_path: Path) -> None:
    """From the report to the job in one click."""
    write_executor(tmp_path, GITHUB)

    executor = json.loads((tmp_path / "executor.json").read_text(encoding="utf-8"))
    assert executor["buildUrl"] == "https://github.com/owner/project/actions/runs/99"
    assert (executor["buildName"], executor["buildOrder"]) == ("nightly #12", 12)


def test_anything_else_is_a_local_run(tmp_path: Path) -> None:
    """No CI is guessed from half of its variables."""
    write_executor(tmp_path, {"GITHUB_RUN_ID": "99"})

    assert json.loads((tmp_path / "executor.json").read_text(encoding="utf-8"))["name"] == "local run"


def test_without_a_results_directory_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--alluredir` was not given."""
    monkeypatch.chdir(tmp_path)

    write_environment(None, {"a": 1})
    write_categories(None)
    write_executor(None, {})

    assert list(tmp_path.iterdir()) == []
