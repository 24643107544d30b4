"""A run tells how often the program under test ended and was started again, whatever its verdict is."""

import json

import pytest

from chaos.common.events import ProcessReport
from chaos.common.history import Event
from chaos.report import allure
from chaos.report.failure_text import explain
from chaos.report.formatting import phrases
from chaos.report.model import Report, build
from chaos.report.summary import as_text, markdown, summary_table
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.report.conftest import Fabricated
from tests.unit.wording import keep

APP = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["app"], "group": "g"}
SCENARIO = Scenario.model_validate({"name": "one", "title": "One", "pipeline": APP})


def said(*lines, who="pipeline"):
    """A history in which supervisors said this."""
    return [
        Event(number, 1000 * number, float(number), ProcessReport(who=who, event=event, content=content))
        for number, (event, content) in enumerate(lines)
    ]


def ended(code, restarts):
    """A copy that ends and is started again."""
    return ("ended", {"copy": 0, "code": code}), ("restarted", {"copy": 0, "pid": 7, "restarts": restarts})


@pytest.mark.parametrize(
    ("lines", "who", "restarts", "codes"),
    [
        ((), "pipeline", 0, ()),
        ((*ended(1, 1), *ended(1, 2), *ended(-9, 3)), "pipeline", 3, (-9, 1)),
        ((*ended(3, 1),), "pipeline-instance-2", 1, (3,)),
        ((("ended", {"copy": 0, "code": 0}),), "pipeline", 0, ()),
        ((*ended(1, 1),), "loader", 0, ()),
        ((("restarted", {"shard": 4}), ("ended", {"code": "late"})), "pipeline", 0, ()),
    ],
)
def test_restarts_are_counted_from_the_history(tmp_path, lines, who, restarts, codes):
    """Those of the program under test, as its supervisors told them, and no words of its own."""
    report = build(SCENARIO, plan(SCENARIO, 1), said(*lines, who=who), (), tmp_path, "pytest")

    assert (report.restarts, report.exit_codes) == (restarts, codes)
    report.write()
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (written["restarts"], written["exit_codes"]) == (restarts, list(codes))
    assert Report.model_validate(written) == report


def test_a_valid_run_tells_it_everywhere(run: Fabricated):
    """In the table, on a page, in the text of a failure and in Allure; of a run without restarts there is not a word."""
    again, quiet = run.valid(restarts=10, exit_codes=(1,)), run.valid()
    forms = (
        lambda report: as_text(summary_table([report], 320), width=320, colour=False),
        lambda report: markdown([report], []),
        explain,
        allure._description,
    )

    (words,) = {phrase.replace("\u00a0", " ") for phrase in phrases(again)} - {
        phrase.replace("\u00a0", " ") for phrase in phrases(quiet)
    }
    assert "10 times" in keep(words)
    for form in forms:
        assert words in " ".join(form(again).replace("\u00a0", " ").split())
        assert words.partition(" 10 ")[0] not in " ".join(form(quiet).replace("\u00a0", " ").split())


@pytest.mark.parametrize(("restarts", "codes", "ending"), [(1, (), " once"), (2, (-9, 1), " 2 times after exit codes -9, 1")])
def test_words_for_it(run: Fabricated, restarts, codes, ending):
    """One, or more of one or of several kinds."""
    told = [phrase.replace("\u00a0", " ") for phrase in phrases(run.valid(restarts=restarts, exit_codes=codes))]
    (words,) = (phrase for phrase in told if phrase.endswith(ending))
    keep(words)
