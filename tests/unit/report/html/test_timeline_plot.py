"""The drawing of a page's timeline, read from the document for BokehJS."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from chaos.common.events import ProcessReport, ProgressSampled, ReadersBlocked
from chaos.common.history import Event, of_type
from chaos.report.html.timeline_plot import PALETTE, drawn, script
from chaos.report.model import Report
from tests.unit.report.conftest import Fabricated


class Drawn:
    """The models of a picture."""

    def __init__(self, report: Report, events: Sequence[Event]) -> None:
        self.item = drawn(report, events)
        self._models = list(_objects(self.item["doc"]))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The attributes of all models of a kind."""
        return [model["attributes"] for model in self._models if model["name"] == kind]

    def columns(self, *names: str) -> list[dict[str, list[Any]]]:
        """The data of every source that has these columns."""
        found = [dict(one["data"]["entries"]) for one in self.of("ColumnDataSource")]
        return [columns for columns in found if set(names) <= columns.keys()]

    @property
    def lanes(self) -> list[str]:
        """Their names, from top to bottom."""
        return [label["text"] for label in sorted(self.of("Label"), key=lambda label: label["y"])]

    @property
    def marks(self) -> list[tuple[float, str, str]]:
        """When, to the millisecond, head and facts of each marker."""
        found = self.columns("at_s", "lane", "head")
        rows = sorted(row for one in found for row in zip(one["at_s"], one["head"], one["said"], strict=True))
        return [(round(at_s, 3), head, said) for at_s, head, said in rows]


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, Mapping):
        if value.get("type") == "object" and "attributes" in value:
            yield dict(value)
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def test_records_over_time_are_those_of_the_history(run: Fabricated) -> None:
    """Written and committed, until the end of the run."""
    (samples,) = Drawn(run.report(), run.events()).columns("written", "committed")

    assert (samples["at_s"][0], samples["at_s"][-1]) == (pytest.approx(1.0), pytest.approx(22.0))
    assert (samples["written"][-1], samples["committed"][-1]) == (30_000, 30_000)
    assert "written" in samples["said"][0]
    assert samples["said"][0].endswith("steady")


def test_a_fault_is_a_bar_from_injection_to_heal_with_trigger_and_proof(run: Fabricated) -> None:
    """And each says its facts where the pointer is on it."""
    struck = run.fault(moment="while EndTxn 17 was on the wire", lag=17, aftermath={"left": "behind"})
    picture = Drawn(run.report(faults=(struck,), findings=()), run.events())

    (bars,) = picture.columns("begin_s", "alpha")
    assert (bars["begin_s"], bars["end_s"], bars["alpha"]) == ([pytest.approx(5.0)], [pytest.approx(12.0)], [0.9])
    assert all(fact in bars["said"][0] for fact in ("healed after", "EndTxn 17", "17 records to read", "left behind", "4711"))
    assert [(mark[0], mark[1].split(",")[0]) for mark in picture.marks] == [
        (4.8, "kill_broker-1: its trigger came"),
        (5.6, "kill_broker-1: proof"),
    ]
    assert "while EndTxn 17 was on the wire" in picture.marks[0][2]
    assert picture.lanes == ["kill_broker-1 on broker-2 (leader of datasink-0), while EndTxn 17 was on the wire"]


def test_a_fault_without_an_effect_has_no_proof_and_is_hatched(run: Fabricated) -> None:
    """A green dot would say that it was proved."""
    picture = Drawn(run.report(faults=(run.fault(effective=False),), findings=()), run.events())

    (bars,) = picture.columns("begin_s", "alpha")
    assert (bars["alpha"], bars["hatch"]) == ([0.0], ["/"])
    assert [mark[1].split(",")[0] for mark in picture.marks] == ["kill_broker-1: its trigger came"]


def test_a_fault_that_never_came_has_a_lane_that_says_why(run: Fabricated) -> None:
    """That it is missing must be seen; one that was never healed lasts until the end."""
    never = run.fault(injected_ms=None, triggered_ms=None, healed_ms=None, proved_ms=None, problem="its trigger never came")
    picture = Drawn(run.report(faults=(never, run.fault(name="open", healed_ms=None)), findings=()), run.events())

    (bars,) = picture.columns("begin_s", "alpha")
    assert picture.lanes[0] == "kill_broker-1: its trigger never came"
    assert bars["end_s"] == [pytest.approx(22.0)]
    assert "never healed" in bars["said"][0]


def test_only_what_lies_within_the_run_is_drawn(run: Fabricated) -> None:
    """An hour before it and an hour after it: there would be no room for anything else."""
    times = [run.at(-3600), run.at(6.2), run.at(3600), None]
    found = run.duplicates(examples=tuple(run.example(timestamp_ms=time) for time in times))
    picture = Drawn(run.report(findings=(found,), faults=()), run.events())

    assert [mark[0] for mark in picture.marks] == [6.2]
    assert "also at offset 1190" in picture.marks[0][2]
    assert picture.lanes == ["the first broken records", "no fault was declared"]
    (x_range,) = (one for one in picture.of("Range1d") if "bounds" in one)
    assert x_range["end"] == pytest.approx(22.0)


def test_a_hundred_faults_share_the_lanes_of_their_kinds(run: Fabricated) -> None:
    """A soak has as many, and a page of them would show nothing."""
    faults = [run.fault(name=f"f-{number}", kind="a" if number % 3 else "b") for number in range(100)]

    assert Drawn(run.report(faults=tuple(faults), findings=()), run.events()).lanes == ["b (34)", "a (66)"]


def test_restarts_and_readers_that_wait_have_lanes(run: Fabricated) -> None:
    """Where there were any."""
    said = [(6.0, "ended", {"copy": 0, "code": 1}), (7.0, "restarted", {"copy": 0})]
    told = [Event(0, run.at(at), at, ProcessReport(who="pipeline", event=event, content=what)) for at, event, what in said]
    waited = Event(0, run.at(9), 9.0, ReadersBlocked(partition=2, end=17, seconds=2.5))
    picture = Drawn(run.report(findings=(), faults=()), (*run.events(), *told, waited))

    assert len(picture.lanes) == 3
    assert [(mark[0], mark[1].split(",")[0]) for mark in picture.marks] == [
        (6.0, "pipeline ended"),
        (7.0, "pipeline restarted"),
    ]
    (bars,) = picture.columns("begin_s", "alpha")
    assert (bars["begin_s"], bars["end_s"]) == ([pytest.approx(6.5)], [pytest.approx(9.0)])


def test_a_long_history_is_thinned(run: Fabricated) -> None:
    """A soak has a sample every 30 ms; its last one is kept."""
    many = [
        Event(n, run.at(n / 1000), n / 1000, ProgressSampled(written=n, committed=n, total=9, end=n)) for n in range(20_000)
    ]
    (samples,) = Drawn(run.report(), many).columns("written", "committed")

    assert 1000 < len(samples["at_s"]) < 2000
    assert samples["committed"][-1] == 19_999
    assert samples["at_s"] == sorted(samples["at_s"])


@pytest.mark.parametrize(
    ("records", "ticks"),
    [
        (0, [0, 1]),
        (7, [0, 2, 4, 6, 7]),
        (450, [0, 100, 200, 300, 400, 450]),
        (30_000, [0, 10_000, 20_000, 30_000]),
        (10_200, [0, 5000, 10_000]),
    ],
)
def test_records_have_few_round_ticks(run: Fabricated, records: int, ticks: list[int]) -> None:
    """And one for all of them, unless its label would touch another."""
    report = run.report(records=records, findings=(), faults=())

    assert Drawn(report, ()).of("FixedTicker")[0]["ticks"] == ticks


def test_a_picture_does_not_depend_on_what_was_drawn_before(run: Fabricated) -> None:
    """Ids are those of the page."""
    first = drawn(run.report(), run.events())
    drawn(run.valid(), ())

    assert drawn(run.report(), run.events()) == first


def test_every_colour_has_one_for_a_dark_page(run: Fabricated) -> None:
    """The script of the page paints what has a role: nothing but what the page shows beside it may be without."""
    picture = Drawn(run.report(), run.events())
    roles = {role for one in picture._models for role in _roles(one["attributes"].get("tags", ()))}

    assert roles == {"ink", "pale", "grid", "band", "written", "committed", "fault", "proof", "broken", "paper"}
    assert roles == set(PALETTE)
    assert all(light != dark for light, dark in PALETTE.values())


def _roles(tags: Any) -> Iterator[str]:
    for tag in tags:
        entries = dict(tag.get("entries", ())) if isinstance(tag, Mapping) else {}
        if "roles" in entries:
            yield from dict(entries["roles"]["entries"]).values()


def test_the_script_is_bokehs_core_alone() -> None:
    """And ends no script element of the page."""
    assert 1_000_000 < len(script()) < 1_400_000
    assert "</script" not in script()


def test_events_tell_the_phase_they_fall_into(run: Fabricated) -> None:
    """The last one that had begun."""
    (samples,) = Drawn(run.report(), run.events()).columns("written", "committed")
    at = {round(second, 1): said for second, said in zip(samples["at_s"], samples["said"], strict=True)}

    assert at[2.5].endswith("steady")
    assert at[9.0].endswith("inject")
    assert len(of_type(run.events(), ProgressSampled)) + 1 == len(samples["at_s"])
