"""The history is the only record of a run: complete, ordered, on disk at once."""

import json
import re
from threading import Thread

import pytest

from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.common.events import FaultInjected, FaultProved, PhaseBegan, PhaseEnded, ProcessReport, ProgressSampled
from chaos.common.history import History, load, of_type
from tests.unit.wording import keep


def progress(committed):
    return ProgressSampled(written=9, committed=committed, total=9, end=committed)


def test_what_was_recorded_is_on_disk_before_the_run_ends(tmp_path):
    """A SIGKILL must not lose what happened before it."""
    with History(tmp_path / "history.jsonl") as history:
        history.record(FaultInjected(fault="kill_broker-1", target="broker-2"))

        (event,) = load(tmp_path / "history.jsonl")
    assert event.value == FaultInjected(fault="kill_broker-1", target="broker-2")


def test_a_line_has_the_shape_that_it_always_had(tmp_path):
    """People read it, and so do versions that come later."""
    with History(tmp_path / "history.jsonl") as history:
        history.record(FaultInjected(fault="kill_broker-1", target="broker-2", hold_s=3.0))
        history.record(ProcessReport(who="loader", event="loaded", content={"records": 5}))

    first, second = (json.loads(line) for line in history.path.read_text(encoding="utf-8").splitlines())
    assert list(first) == ["index", "time_ms", "elapsed_s", "process", "type", "f", "value"]
    assert [first[key] for key in ("process", "type", "f")] == ["nemesis", "ok", "inject"]
    assert first["value"] == {"fault": "kill_broker-1", "target": "broker-2", "hold_s": 3.0}
    assert [second[key] for key in ("process", "type", "f", "value")] == ["loader", "info", "loaded", {"records": 5}]


def test_threads_share_it_without_losing_or_mixing_lines(tmp_path):
    """Sampler, nemesis and runner write at once; indexes are dense and times never go back."""
    with History(tmp_path / "history.jsonl") as history:
        threads = [Thread(target=_record_many, args=(history, name)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    events = list(load(history.path))
    assert [event.index for event in events] == list(range(300))
    assert [event.elapsed_s for event in events] == sorted(event.elapsed_s for event in events)


def test_a_line_cut_short_is_left_out(tmp_path):
    """The process may have died while it wrote the last line."""
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.record(PhaseBegan(phase="set_up"))
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"index": 1})[:-3])

    assert [event.index for event in load(path)] == [0]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"index": 1, "what": 2}',
        '{"index": 1, "time_ms": 1, "elapsed_s": 1, "process": "nemesis", "type": "ok", "f": "prove", "value": {}}',
        '{"index": 1, "time_ms": 1, "elapsed_s": 1, "process": "loader", "type": "info", "f": "loaded", "value": []}',
    ],
)
def test_a_damaged_line_is_not_left_out(tmp_path, damage):
    """It may have said that a heal failed; what comes after it shows that no crash cut it."""
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.record(PhaseBegan(phase="set_up"))
        history.record(PhaseEnded(phase="set_up"))
    first, second = path.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{first}\n{damage}\n{second}\n", encoding="utf-8")

    with pytest.raises(InconclusiveError, match=r"history\.jsonl:2 .*\(.+\)") as caught:
        list(load(path))
    keep(re.sub(r"\(.*\)", "(<why>)", str(caught.value)))


def test_the_latest_event_of_a_type_is_known(tmp_path):
    """Triggers ask for it hundreds of times a second."""
    with History(tmp_path / "history.jsonl") as history:
        history.record(progress(1))
        history.record(progress(2))
        history.record(ProcessReport(who="pipeline", event="started", content={"n": 1}))
        history.record(ProcessReport(who="pipeline", event="batch", content={}))

        assert history.latest(ProgressSampled).committed == 2
        assert history.latest(FaultProved) is None
        assert history.last_report("pipeline", "started").content == {"n": 1}
        assert history.last_report("loader", "started") is None
        assert [sample.committed for _, sample in of_type(history.events(), ProgressSampled)] == [1, 2]


def test_no_event_lies_in_the_future(tmp_path, monkeypatch):
    """Its time is rounded to a tenth of a millisecond, perhaps up; asked for at once, its age must not be below 0."""
    now_s = iter([0.0, 10.00006, 10.00007, 12.5001])
    monkeypatch.setattr(clock, "monotonic_s", lambda: next(now_s))
    with History(tmp_path / "history.jsonl") as history:
        event = history.record(progress(1))

        assert event.elapsed_s == 10.0001
        assert history.age_s(ProgressSampled) == 0
        assert history.age_s(ProgressSampled) == 2.5
        assert history.age_s(FaultProved) == float("inf")


def test_a_listener_is_told_of_every_event_after_it_was_written(tmp_path):
    """The live display shows exactly the lines of the file."""
    path = tmp_path / "history.jsonl"
    told = []

    with History(path, lambda event: told.append((event.value.f, len(list(load(path)))))) as history:
        history.record(PhaseBegan(phase="set_up"))

    assert told == [("phase", 1)]


def _record_many(history, name):
    for number in range(100):
        history.record(ProcessReport(who=name, event="tick", content={"number": number}))
