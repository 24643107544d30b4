from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.cli import museum
from chaos.common.errors import RuntimeUnavailableError, ScenarioError
from chaos.install import artifacts, kafka_versions, packages
from tests.unit.wording import raised

SCENARIOS = """\
version: 2
topics: {orders: {}, copies: {}}
scenarios:
  - name: shown
    title: Shown
    tags: [museum]
    pipeline:
      kind: command
      reads: [orders]
      sink: {topic: copies}
      run: ["{python}"]
      group: copy
      packages: {pypi: [a==1], python: PYTHON}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A museum of two holes, one of which needs a Python that no machine has."""
    for name, python in (("one", "python3"), ("two", "python0.9")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scenarios.yaml").write_text(SCENARIOS.replace("PYTHON", python), encoding="utf-8")
        (tmp_path / name / "README.md").write_text(f"# Hole {name}\n\nText.\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """What pytest would be called with."""
    calls: list[list[str]] = []
    monkeypatch.setattr(museum, "run_pytest", lambda words: calls.append(words) or 0)
    return calls


def test_the_list_says_what_a_machine_lacks(folder, ran):
    said: list[str] = []

    assert museum.main(folder, [], only_listed=True, say=said.append) == 0

    assert [line.split()[:3] for line in said] == [["one", "Hole", "one"], ["two", "Hole", "two"]]
    assert ["python0.9" in line for line in said] == [False, True]
    assert ran == []


def test_a_hole_without_a_page_is_told(folder):
    (folder / "two" / "README.md").unlink()

    with raised(ScenarioError, "README.md: there is no such page", hidden={str(folder): "<folder>"}):
        museum.main(folder, [], only_listed=True, say=lambda _: None)


def test_what_cannot_be_shown_is_not_run(folder, ran):
    """It is told; if it is named, it is an error."""
    said: list[str] = []

    assert museum.main(folder, [], only_listed=False, say=said.append) == 0

    assert ran == [["-m", "chaos and museum", str(folder / "one" / "scenarios.yaml")]]
    assert [line.startswith("not run: two: python0.9") for line in said] == [True]
    with raised(RuntimeUnavailableError, "two", "python0.9"):
        museum.main(folder, ["two"], only_listed=False, say=said.append)


def test_only_the_holes_that_are_named_are_read(folder, ran):
    """What another one needs is not asked for, and its file may even be wrong."""
    (folder / "two" / "scenarios.yaml").write_text("version: 0", encoding="utf-8")

    assert museum.main(folder, ["one"], only_listed=False, say=print) == 0

    assert len(ran) == 1


def test_the_doctor_fetches_what_each_hole_needs(folder, monkeypatch):
    """A version that cannot be had, and a runtime that is not there, are named with the hole."""
    fetched: list[tuple[str, ...]] = []

    def ensure(registry, _ivy, _echo):
        registry.recipe()
        fetched.append(registry.packages)
        return packages.NO_PACKAGES

    monkeypatch.setattr(artifacts, "ensure", lambda _echo: SimpleNamespace(java="java"))
    monkeypatch.setattr(artifacts, "of_spark", lambda _version, parts, _echo: parts)
    monkeypatch.setattr(kafka_versions, "ensure", lambda *_: None)
    monkeypatch.setattr(packages, "ensure", ensure)

    checks = museum.checks(folder, print)

    assert checks["one"]() == "a==1"
    with pytest.raises(RuntimeUnavailableError, match=r"python0\.9"):
        checks["two"]()
    assert fetched == [("a==1",)]


def test_a_hole_or_a_museum_that_is_not_there(folder, tmp_path):
    with raised(ScenarioError, "there is no hole tow (did you mean two?)"):
        museum.main(folder, ["tow"], only_listed=True, say=print)
    with raised(ScenarioError, "has no holes", hidden={str(tmp_path): "<folder>"}):
        museum.main(folder / "one", [], only_listed=True, say=print)
