"""`--chaos-html`: what is refused before anything runs, and what is written when. No system is started here."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.pytest_plugin import pages, scenario_item
from chaos.report.html import templates
from tests.unit.report.conftest import Fabricated
from tests.unit.report.html.conftest import leave
from tests.unit.report.html.page import Page
from tests.unit.wording import raised


@pytest.fixture
def run(tmp_path):
    """A run that has left all but its report and its page."""
    fabricated = Fabricated(tmp_path / "runs" / "1-broken")
    leave(fabricated, fabricated.report())
    (fabricated.folder / "report.json").unlink()
    return fabricated


def config_with(page):
    """A configuration with the options that the plugin reads."""
    options = {"--chaos-html": page, "--alluredir": None}
    return SimpleNamespace(getoption=lambda name, default=None: options.get(name, default))


def session_of(*reports):
    """A session with the attributes that the plugin reads."""
    return SimpleNamespace(reports=list(reports), logs=lambda _folder: [])


def reported(run, page):
    """Report the run as the plugin does; the page of the session."""
    report = run.report(run_dir=run.folder)
    outcome = SimpleNamespace(report=report)
    scenario_item.report(outcome, session_of(report), config_with(page), is_last=True)
    return page


def test_a_run_that_is_over_has_its_page_and_is_on_that_of_the_session(run, tmp_path):
    """At once, so that a session that is killed has what was finished; and the page says that it may not be all."""
    page = Page(reported(run, tmp_path / "new" / "all.html").read_text(encoding="utf-8"))

    assert [value for tag, name, value in page.attributes if (tag, name) == ("a", "href")] == ["../runs/1-broken/report.html"]
    assert "The session is still running, or was killed" in page.texts[""]
    own = Page((run.folder / "report.html").read_text(encoding="utf-8"))
    assert own.texts[""].startswith("INVALID leader-killed-mid-batch INVALID guarantee broken")
    assert any(tag == "img" for tag in own.tags), "it has the picture, which is drawn before it"


def test_without_the_option_no_page_is_made(run, tmp_path, monkeypatch):
    """Nor is anything imported that makes one."""
    monkeypatch.setattr(templates, "rendered", lambda *_: pytest.fail("a page is made"))
    scenario_item.report(SimpleNamespace(report=run.report(run_dir=run.folder)), session_of(), config_with(None), is_last=False)

    assert list(tmp_path.rglob("*.html")) == []
    assert pages.write_session(session_of(), config_with(None)) is None


@pytest.mark.parametrize(
    ("status", "said"), [(pytest.ExitCode.INTERRUPTED, "was interrupted"), (pytest.ExitCode.TESTS_FAILED, ""), (0, "")]
)
def test_the_page_says_whether_the_session_came_to_its_end(run, tmp_path, status, said):
    """One that was interrupted lacks runs; one with failures does not."""
    page = pages.write_session(session_of(run.report()), config_with(tmp_path / "all.html"), pages.note_of(status))
    text = Page(page.read_text(encoding="utf-8")).texts[""]

    assert ("The session" in text, said in text) == (bool(said), True)


@pytest.mark.parametrize(
    ("page", "said"),
    [("report.txt", "a file that ends in .html is needed"), ("scenarios.yaml/x.html", "its folder cannot be written to")],
)
def test_a_page_that_cannot_be_written_is_refused_at_once(tmp_path, page, said):
    """And not after an hour of runs."""
    (tmp_path / "scenarios.yaml").touch()
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--chaos-html", page)
    answer = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=280, check=False)

    assert answer.returncode == pytest.ExitCode.USAGE_ERROR
    assert answer.stderr.strip() == f"ERROR: --chaos-html {page}: {said}" + (": Not a directory" if "yaml" in page else "")


def test_what_is_not_installed_is_named(monkeypatch):
    """In a line, with what to do."""
    monkeypatch.setattr(templates, "find_spec", lambda name: None if name == "bokeh" else name)

    with raised(templates.RuntimeUnavailableError, "pip install bokeh"):
        templates.require_packages()


def test_nothing_that_draws_is_imported_without_a_page():
    """Bokeh takes a second, Jinja2 a part of one."""
    code = (
        "import sys, chaos.pytest_plugin.scenario_file, chaos.report.html.command, chaos.report.allure;"
        "print({'bokeh', 'jinja2'} & sys.modules.keys())"
    )
    command = (sys.executable, "-c", code)
    answer = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=280, check=True)

    assert answer.stdout.strip() == "set()"
