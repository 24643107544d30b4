"""The required content of a run's page, whatever its verdict."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.report.failure_text import more_examples
from chaos.report.html.run_page import run_page
from chaos.report.model import Report
from chaos.report.timeline import draw
from tests.unit.report.conftest import Fabricated
from tests.unit.report.html.conftest import leave
from tests.unit.report.html.page import Page
from tests.unit.wording import keep, named
from verifiers import VERIFIERS
from verifiers.base import Verdict
from verifiers.details import Detail, Place, Producer

HOSTILE = "<script>alert(1)</script> & </script><b>bold</b> {{ 7*7 }} ${1} \"'"


def page_of(run: Fabricated, report: Report, **files: str) -> Page:
    """The page of a run that has left this report, and these files beside it."""
    folder = leave(run, report)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return Page(run_page(folder))


def unknown(run: Fabricated, **changes: Any) -> Report:
    """A run that proved nothing, for two reasons."""
    idle = run.fault(effective=False, proof={"refused": []}, problem="it had no effect")
    problems = ("kill_broker-1: it had no effect", "drain: DeadlineError: waited 60 s for the pipeline")
    gaps = run.finding("gaps", Verdict.UNKNOWN, checked=0, note="no record was compared")
    values = {"verdict": Verdict.UNKNOWN, "findings": (gaps,), "faults": (idle,), "problems": problems}
    return run.report(**{**values, **changes})


def texts_in(value: Any) -> Iterator[str]:
    """All texts within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)


def test_the_verdict_is_a_word_with_its_meaning_and_why(run: Fabricated) -> None:
    """Before anything else, and not by its colour alone."""
    told = {
        "valid": run.valid(),
        "control": run.control(),
        "not sent": run.valid(not_sent=True),
        "invalid": run.report(),
        "not caught": run.report(expect={"gaps": Verdict.INVALID}),
        "unknown": unknown(run),
    }
    for name, report in told.items():
        head = page_of(run, report).texts[""]
        keep(f"{name}: {head.partition(' A leader that dies')[0]}")
        assert report.verdict.name in head


def test_an_invalid_run_shows_the_first_broken_records(run: Fabricated) -> None:
    """Which, where, when, by whom, and what was in force."""
    by = Detail(
        "also at {others}; cause: {cause}; both written by {writer}",
        {"others": (Place(1190),), "cause": "producer retry", "writer": Producer(3007, 2)},
    )
    found = run.duplicates(count=12, examples=tuple(run.example(number, detail=by) for number in range(11)))
    struck = run.fault(moment="while EndTxn 17 was on the wire")

    page = page_of(run, run.report(findings=(found,), faults=(struck,)))
    head, first, *rest = page.rows["broken"]

    keep(" | ".join(head))
    keep(" | ".join(first))
    assert len(rest) == 9, "the first ten are enough to see what is wrong"
    more = named(more_examples(found, 10), "2 ", "findings.json", " 11")
    assert more in page.texts["broken"]


def test_what_a_control_predicts_takes_less_room(run: Fabricated) -> None:
    """It is as it must be; and a verifier that found something else comes before it."""
    expected = run.duplicates(verifier="duplicates")
    other = run.finding(
        "gaps", Verdict.INVALID, count=1, counts={"lost": 1}, examples=(run.example(anomaly="lost", offset=None),)
    )
    report = run.report(expect={"duplicates": Verdict.INVALID}, findings=(expected, other))

    page = page_of(run, report)

    assert [row[1] for row in page.rows["broken"] if row[0] != "record"] == ["lost", *["duplicate"] * 3]
    assert page.rows["broken"][1][2] == "partition 2, not in the log"
    assert [row[:3] for row in page.rows["findings"]][1:] == [
        [f"gaps {VERIFIERS['gaps'].guarantee}", "sink", "INVALID"],
        [f"duplicates {VERIFIERS['duplicates'].guarantee}", "sink", "INVALID as expected"],
    ]


def test_a_time_that_is_not_within_the_run_is_no_time_of_the_run(run: Fabricated) -> None:
    """A program may give its rows any time; what was in force then says nothing."""
    found = run.duplicates(examples=(run.example(timestamp_ms=run.at(-3600)), run.example(timestamp_ms=run.at(6.2))))

    page = page_of(run, run.report(findings=(found,)))
    _, outside, within = page.rows["broken"]

    assert outside[3].endswith("not within the run")
    assert (outside[-1], within[3]) == ("", "6.2 s 11:06:46.200Z")
    assert within[-1].startswith("during kill_broker-1")
    assert "1 of the first broken records has a time that is not within the run" in page.texts["timeline"]


def test_findings_say_what_was_compared_and_what_they_demand(run: Fabricated) -> None:
    """An UNKNOWN one says why; one that was not asked is no VALID one."""
    absent = run.finding("ledger", asked=False, checked=0, note="there is no ledger")
    page = page_of(run, unknown(run, findings=(*unknown(run).findings, absent)))

    assert page.rows["findings"] == [
        ["verifier", "log", "verdict", "found", "compared", "note"],
        ["gaps no record is missing", "sink", "UNKNOWN", "0", "0", "no record was compared"],
        [page.rows["findings"][2][0], "sink", "not asked", "0", "0", "there is no ledger"],
    ]
    assert "ledger of the sink: there is no ledger" in page.texts["not-asked"]


def test_problems_faults_restarts_and_what_was_not_asked(run: Fabricated) -> None:
    """Each has a section of its own where there is something to say, and none where there is not."""
    report = unknown(run, left_out={"commits": "they go back"}, restarts=3, exit_codes=(1,))
    page, well = page_of(run, report), page_of(run, run.valid())

    assert all(problem in page.texts["problems"] for problem in report.problems)
    assert page.texts["not-asked"].endswith("commits: they go back")
    assert "was started again 3 times after exit code 1" in page.texts["restarts"]
    assert not {"problems", "not-asked", "restarts", "broken", "end"} & well.texts.keys()
    keep("\n".join(" | ".join(row) for row in (*page.rows["faults"], *well.rows["faults"])))


def test_a_fault_that_never_came_and_one_that_was_never_healed(run: Fabricated) -> None:
    """They are rows too."""
    never = run.fault(name="never", injected_ms=None, proved_ms=None, healed_ms=None, effective=False, problem="it never came")
    open_ = run.fault(name="open", healed_ms=None, lag=17, aftermath={"left": "behind"})

    _, first, second = page_of(run, run.report(faults=(never, open_))).rows["faults"]

    assert first[2:5] == ["", "", ""]
    assert first[5].startswith("it never came")
    assert second[2:] == ["5.0 s", "never healed", "17", "pids broker-2 4711; refused broker-2", "left behind"]


def test_the_replay_line_versions_and_scenario_can_be_copied(run: Fabricated) -> None:
    """The line in one piece, and the scenario as a file would have it."""
    page = page_of(run, run.valid())

    assert f"{run.valid().replay} copy" in page.texts["replay"]
    assert page.texts["versions"] == "Versions kafka 4.3.0 spark 4.2.0"
    assert "name: leader-killed-mid-batch" in page.texts["scenario"]
    assert "progress: 20%" in page.texts["scenario"]
    assert "null" not in page.texts["scenario"]


def test_only_files_that_are_there_have_links(run: Fabricated, tmp_path: Path) -> None:
    """Seen from the page, wherever it is."""
    folder = leave(run, run.valid())
    (folder / "logs").mkdir()

    def links(page: str) -> set[str]:
        return {value for tag, name, value in Page(page).attributes if (tag, name) == ("a", "href") and value[:1] != "#"}

    there = {"history.jsonl", "report.json", "scenario.json", "schedule.json", "versions.json", "logs"}
    assert links(run_page(folder)) == there
    assert links(run_page(folder, tmp_path / "a b")) == {f"../{name}" for name in there}


def test_what_users_have_written_is_text(run: Fabricated) -> None:
    """In titles, tags, keys, details, notes, targets, proofs, problems, names of files, and in the timeline."""
    example = run.example(id=HOSTILE, detail=HOSTILE, place=HOSTILE, anomaly=HOSTILE)
    found = run.duplicates(note=HOSTILE, examples=(example,), subject=HOSTILE)
    fault = run.fault(name=HOSTILE, target=HOSTILE, proof={HOSTILE: HOSTILE}, moment=HOSTILE, kind=HOSTILE, problem=HOSTILE)
    words: Any = {"title": HOSTILE, "tags": (HOSTILE,), "problems": (HOSTILE,), "replay": HOSTILE, "twin": HOSTILE}
    report = run.report(findings=(found,), faults=(fault,), left_out={"gaps": HOSTILE}, matrix={HOSTILE: HOSTILE}, **words)
    plain = page_of(run, run.report())

    page = page_of(run, report, **{"versions.json": json.dumps({HOSTILE: HOSTILE})})

    assert (page.tags.count("script"), page.tags.count("b")) == (plain.tags.count("script"), 0)
    assert any(HOSTILE in text for text in texts_in(json.loads(page.scripts[0]))), "the timeline tells of it, too"
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    shown = " ".join(HOSTILE.split())
    for section in ("", "broken", "findings", "not-asked", "problems", "faults", "replay", "versions"):
        assert shown in page.texts[section], section


def test_a_page_needs_nothing_beside_it(run: Fabricated) -> None:
    """It can be mailed: no script, style, font or picture of another file or address; a browser is told to fetch none."""
    folder = leave(run, run.report())
    draw(run.report(), run.events(), folder)

    text = run_page(folder)
    page = Page(text)

    fetched = [
        value for tag, name, value in page.attributes if name in {"src", "srcset", "data"} or (tag, name) == ("link", "href")
    ]
    assert [value[:26] for value in fetched] == ["data:image/svg+xml;base64,"]
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL)))
    assert any(value.startswith("default-src 'none'; img-src data:") for _, name, value in page.attributes if name == "content")


def test_a_page_is_not_larger_than_its_script(run: Fabricated) -> None:
    """BokehJS is 1.27 MB; its tables, widgets and formulas would be twice as much again."""
    folder = leave(run, run.report())
    draw(run.report(), run.events(), folder)

    assert 1_270_000 < len(run_page(folder).encode()) < 1_600_000


def test_the_same_run_gives_the_same_page(run: Fabricated) -> None:
    """Bokeh numbers what it makes across all pages of a process."""
    folder = leave(run, run.report())

    assert run_page(folder) == run_page(folder)


def test_a_run_without_times_has_a_page(run: Fabricated) -> None:
    """One that died before its first phase."""
    page = page_of(run, run.valid(verdict=Verdict.UNKNOWN, phases=(), faults=(), findings=(), problems=("set_up: no Java",)))

    assert "UNKNOWN proved nothing nothing was judged set_up: no Java" in page.texts[""]
    assert page.texts["faults"] == "Faults no fault was declared"
