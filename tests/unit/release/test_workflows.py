"""The workflows name files and targets that there are: one that runs at a release alone would fail at the release."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
OURS = re.compile(r"(?<![\w./-])(?:\.ci|containers|docs|examples|requirements|tests)/[\w./-]*\w")
MADE = re.compile(r"\bmake ([a-z-]+)")


def scripts(workflow):
    """What the steps of a workflow run."""
    jobs = YAML(typ="safe").load(workflow)["jobs"]
    return "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_files_and_targets_that_a_workflow_names_are_there(workflow):
    text = scripts(workflow)
    files, targets = set(OURS.findall(text)), set(MADE.findall(text))

    assert files | targets
    assert {name for name in files if not (ROOT / name).exists()} == set()
    assert targets <= TARGETS


def test_nothing_is_published_before_it_has_run():
    """The packages run a scenario in the job that builds them, and the image before it is pushed."""
    jobs = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    image = [step.get("run", "") for step in jobs["image"]["steps"]]

    assert "make supported" in "".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert next(n for n, run in enumerate(image) if "pytest" in run) < next(n for n, run in enumerate(image) if "push" in run)
    assert [jobs[name]["needs"] for name in ("image", "pypi", "page")] == ["build", ["build", "image"], "pypi"]


def test_only_the_job_that_publishes_may_write():
    """A step that was tampered with in another job has nothing to write with."""
    workflow = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "release.yml")
    may = {
        name: {key for key, right in job.get("permissions", {}).items() if right == "write"}
        for name, job in workflow["jobs"].items()
    }

    assert workflow["permissions"] == {"contents": "read"}
    assert may == {"build": set(), "image": {"packages"}, "pypi": {"id-token"}, "page": {"contents"}}
    assert workflow["jobs"]["pypi"]["environment"] == "pypi"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_what_repeats_it(form):
    """Files of the run, the machine, and the line with the seed."""
    text = form.read_text(encoding="utf-8")

    assert all(
        word in text for word in ("findings.json", "report.json", "chaos doctor", "chaos --version", "seed", "Replay")
    ), form.name
