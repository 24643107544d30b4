"""Several topics that are filled: a loader, a ledger and rows for each, and the end of all of them."""

import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.events import ProcessReport
from chaos.common.history import History, load
from chaos.contract.base import Topic
from chaos.engine import ends, phases, triggers
from chaos.engine import run_plan as plans
from chaos.engine.batches import BatchSight, Job
from chaos.engine.demand import with_demand
from chaos.engine.pipelines import topics_of
from chaos.engine.processes import RunProcesses
from chaos.engine.program_statements import about_source
from chaos.engine.run_plan import RunPlan
from chaos.engine.twin_key import key_of
from chaos.engine.workload_rows import with_rows
from chaos.grammar.triggers import AtBatch
from chaos.judging import progress
from chaos.loader.declaration import LEDGER, FillSource
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed
from verifiers.base import Bounds

MODULE = """
def people(seed):
    yield from [(f"c-{number}", "north") for number in range(4)]
"""


def run_plan(folder: Path, rows: dict[str, Any] | None = None, **pipeline: object) -> RunPlan:
    """The plan of a join of orders (two partitions) and customers (three)."""
    declared = {"kind": "command", "run": ["a"], "group": "g", "reads": ["customers", "orders"], "sink": {"topic": "kept"}}
    also = {"into": "customers", "rate": "5/s", **({"rows": rows} if rows else {"records": 30})}
    one = Scenario.model_validate(
        {
            "name": "a",
            "title": "A",
            "pipeline": declared | pipeline,
            "topics": {"orders": {"partitions": 2}, "customers": {"partitions": 3}, "kept": {}},
            "workload": {"into": "orders", "records": 100, "rate": "50/s", "also": [also]},
        }
    ).below(folder)
    first, second = FillSource(100, 50.0), FillSource(one.workload.also[0].records, 5.0, ledger="ledger-customers.csv")
    topics, subject = topics_of(one, "", "7"), deployed.command(("a",), "g")
    return RunPlan(one, plan(one, 5), folder, topics, (first, second), subject, "app")


@dataclass
class FakeLoader:
    """One that has ended, or works."""

    name: str
    lives: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def process(self) -> Any:
        return SimpleNamespace(alive=lambda: self.lives)

    def listen(self) -> None:
        self.done.append("listen")

    def how_it_ended(self, when: str) -> str:
        return f"the {self.name} ended with 1 {when}"

    def stop(self) -> None:
        self.done.append("stop")


@pytest.fixture
def history(tmp_path: Path) -> Any:
    with History(tmp_path / "history.jsonl") as opened:
        yield opened


def processes_of(history: History, folder: Path, **lives: bool) -> Any:
    """Both loaders."""
    first, second = FakeLoader("loader", lives.get("first", False)), FakeLoader("loader-customers", lives.get("second", False))
    nothing_is_started: Any = SimpleNamespace()
    found: Any = RunProcesses(nothing_is_started, history, folder)
    found.loaders = {one.name: one for one in (first, second)}
    return found


class FakeEnds:
    """Ends of topics by their names."""

    def __init__(self, **ends: list[int]) -> None:
        self.ends = {name.replace("_", "-"): ends for name, ends in ends.items()}

    def offsets(self, topic: str, _partitions: int) -> dict[int, Bounds]:
        return {number: Bounds(0, end, end) for number, end in enumerate(self.ends[topic])}

    settled_offsets = offsets

    def has_records(self, _topic: str, _partition: int, _offset: int) -> bool:
        return True

    def end(self, topic: str, _partitions: int, _level: object) -> int:
        return sum(self.ends[topic])

    def reads(self, _group: str) -> dict[str, tuple[int, dict[int, int]]]:
        return {}


ENDS = FakeEnds(orders_7=[50, 50], customers_7=[10, 10, 10], kept_7=[60, 0, 0])


def test_each_topic_has_a_loader_with_a_ledger_of_its_own(tmp_path: Path) -> None:
    """And evidence, and a log; the first are called as where there is one."""
    loads = run_plan(tmp_path).loads

    assert [(one.name, one.topics.input, one.subject, one.process, one.records) for one in loads] == [
        ("orders", Topic("orders-7", 2), "source", "loader", 100),
        ("customers", Topic("customers-7", 3), "source-customers", "loader-customers", 30),
    ]
    assert [one.loader.ledger for one in loads] == [LEDGER, "ledger-customers.csv"]
    assert (run_plan(tmp_path).records, run_plan(tmp_path).demanded) == (130, 130)


def test_the_process_of_each_writes_to_its_own(tmp_path: Path) -> None:
    """Topic, partitions and ledger."""
    clients: Any = SimpleNamespace(kafka="k", options={}, java={}, spark_options={})
    files = [one.loader.command(clients, one.topics, tmp_path).argv[-1] for one in run_plan(tmp_path).loads]

    told = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    assert [[one[key] for key in ("topic", "partitions", "records", "ledger")] for one in told] == [
        ["orders-7", 2, 100, str(tmp_path / "ledger.csv")],
        ["customers-7", 3, 30, str(tmp_path / "ledger-customers.csv")],
    ]


def test_positions_are_numbered_through(tmp_path: Path) -> None:
    """Those of customers follow on the two of orders; of one topic they are its own."""
    planned = run_plan(tmp_path)
    asked = {"orders-7": {0: 50, 1: 49}, "customers-7": {0: 10, 2: 7}}
    ask = {"positions": lambda _clients, topics, _folder: asked[topics.source], "consumer_group": lambda _topics: "g"}
    subject: Any = SimpleNamespace(**ask)
    system: Any = SimpleNamespace(
        kafka=SimpleNamespace(bootstrap="b", cluster=SimpleNamespace(options={}, java={})),
        spark=SimpleNamespace(master="", driver_host="", java_options="", class_path="", options={}),
        bootstrap=lambda _client: "b",
        service_addresses=lambda _client: {},
    )
    planned = replace(planned, pipeline=subject)

    everywhere = ends.positions_of(planned, system)
    of_customers = ends.positions_of(planned, system, planned.topics.filled[1:])

    assert everywhere is not None
    assert of_customers is not None
    assert (everywhere(), of_customers()) == ({0: 50, 1: 49, 2: 10, 4: 7}, {0: 10, 2: 7})


@pytest.mark.parametrize(
    ("positions", "left"),
    [
        ({0: 50, 1: 50, 2: 10, 3: 10, 4: 10}, {}),
        ({0: 50, 1: 50, 2: 10, 3: 10, 4: 7}, {"behind in customers-7-2": 3}),
        ({0: 50, 1: 50}, {f"behind in customers-7-{number}": 10 for number in range(3)}),
        ({0: 50, 1: 49, 2: 10, 3: 10, 4: 10}, {"behind in orders-7-1": 1}),
    ],
)
def test_a_pipeline_is_through_when_it_is_past_all_topics(
    history: History, tmp_path: Path, positions: dict[int, int], left: dict[str, int]
) -> None:
    """However far it is in the first one; and what is left is told by its name."""
    planned, logs, done = run_plan(tmp_path), ENDS, processes_of(history, tmp_path)

    assert ends.lag(logs, planned.topics.filled, planned.output, lambda: positions) == left
    assert ends.is_through(planned, logs, done, lambda: positions) is not bool(left)  # type: ignore[arg-type]
    assert not ends.is_through(planned, logs, processes_of(history, tmp_path, second=True), lambda: positions)  # type: ignore[arg-type]


def test_the_drain_waits_for_every_loader(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has ended, and the second works."""
    monkeypatch.setattr(plans, "_DRAINS_WITHIN_S", -20.0)
    past_all = dict.fromkeys(range(5), 50)

    with pytest.raises(DeadlineError, match="the loader to end"):
        phases.drain(run_plan(tmp_path), ENDS, history, processes_of(history, tmp_path, second=True), lambda: past_all)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"loader": 100, "loader-customers": 30}, ""),
        ({"loader": 100, "loader-customers": 29}, "the loader-customers ended with 1 after 29 of 30 records"),
        ({"loader": 100}, "the loader-customers ended with 1 after some of 30 records"),
        ({"loader": 99, "loader-customers": 30}, "the loader ended with 1 after 99 of 100 records"),
    ],
)
def test_each_loader_must_have_sent_all(history: History, tmp_path: Path, said: dict[str, int], error: str) -> None:
    """A pipeline that had fewer customers had an easier life than the scenario declares."""
    for who, records in said.items():
        history.record(ProcessReport(who=who, event="loaded", content={"records": records}))
    past_all = dict.fromkeys(range(5), 50)

    def drain() -> None:
        phases.drain(run_plan(tmp_path), ENDS, history, processes_of(history, tmp_path), lambda: past_all)  # type: ignore[arg-type]

    if not error:
        drain()
        return
    with pytest.raises(InconclusiveError, match=f"^{error}$"):
        drain()


def test_a_loader_of_another_topic_that_dies_ends_the_run(history: History, tmp_path: Path) -> None:
    """It said nothing, or that it has failed; the first one goes on."""
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))

    with pytest.raises(InconclusiveError, match="the loader-customers ended with 1 in the middle of the run"):
        processes_of(history, tmp_path, first=True).check_loaders()
    history.record(ProcessReport(who="loader-customers", event="loaded", content={"records": 30}))
    processes_of(history, tmp_path, first=True).check_loaders()
    history.record(ProcessReport(who="loader-customers", event="loaded", content={"records": 30, "failed": True}))
    with pytest.raises(InconclusiveError, match="the loader-customers ended with 1 in the middle of the run"):
        processes_of(history, tmp_path, first=True).check_loaders()


def test_all_loaders_are_ended_and_killed(history: History, tmp_path: Path) -> None:
    """As every process that a run has started."""
    found: Any = processes_of(history, tmp_path)

    found.stop()

    assert [one.done for one in found.loaders.values()] == [["stop"], ["stop"]]


def test_what_was_refused_is_that_of_all_loaders(history: History, tmp_path: Path) -> None:
    """By the last word of each; what others say does not count."""
    for who, refused in (("loader", 9), ("loader", 2), ("loader-customers", 3), ("pipeline", 100)):
        history.record(ProcessReport(who=who, event="loaded", content={"records": 10, "refused": refused}))

    assert triggers.refused(history) == 5
    assert progress.refused(tuple(load(tmp_path / "history.jsonl"))) == 5


def test_what_a_group_committed_is_asked_of_each_topic(tmp_path: Path) -> None:
    """By its own name."""
    planned = run_plan(tmp_path)
    kafka: Any = SimpleNamespace(committed=lambda group, topic: [(group, topic)])

    found = [about_source(planned, kafka, one.topics.source)["commits"]() for one in planned.loads]

    assert found == [[("g", "orders-7")], [("g", "customers-7")]]


def test_rows_of_each_topic_are_in_a_file_of_their_own(tmp_path: Path) -> None:
    """For as many partitions as that topic has; how many there are, is known from then on."""
    (tmp_path / "shop.py").write_text(MODULE, encoding="utf-8")

    made = with_rows(run_plan(tmp_path, {"python": "shop:people"}), lambda: pytest.fail("Spark was asked for"))

    assert [one.records for one in made.loads] == [100, 4]
    orders, customers = made.loaders
    assert isinstance(customers, FillSource)
    assert customers.rows == tmp_path / "rows-customers.parquet"
    assert (customers.records, made.records) == (4, 104)
    assert isinstance(orders, FillSource)
    assert orders.rows is None


def test_what_is_wrong_with_rows_names_their_topic(tmp_path: Path) -> None:
    """And no other."""
    (tmp_path / "shop.py").write_text("def people(seed):\n    raise OSError('nobody')\n", encoding="utf-8")

    with pytest.raises(InconclusiveError, match=r"^workload, also, customers, rows, python: .*nobody"):
        with_rows(run_plan(tmp_path, {"python": "shop:people"}), lambda: pytest.fail("Spark was asked for"))


def test_a_copy_of_several_topics_has_a_row_for_each_record(tmp_path: Path) -> None:
    """Spark need not be asked for that."""
    planned = run_plan(tmp_path)

    assert with_demand(planned, lambda: pytest.fail("Spark was asked for")) is planned


def test_another_version_of_further_rows_is_another_twin(tmp_path: Path) -> None:
    """As another number of them is."""
    system: Any = SimpleNamespace(versions=lambda: {"kafka": "4.3.0"})
    planned = run_plan(tmp_path, expected={"same_as": "fault_free"})
    (tmp_path / "rows-customers.parquet").write_bytes(b"a")
    with_rows_ = replace(planned, loaders=(planned.loaders[0], FillSource(30, 5.0, rows=tmp_path / "rows-customers.parquet")))
    keys = {key_of(planned, system), key_of(with_rows_, system)}
    (tmp_path / "rows-customers.parquet").write_bytes(b"b")

    assert len({*keys, key_of(with_rows_, system)}) == 3


@pytest.mark.parametrize(("customers", "comes"), [(30, True), (29, False)])
def test_the_last_batch_is_that_in_which_all_topics_are_planned(tmp_path: Path, customers: int, comes: bool) -> None:  # noqa: FBT001
    """All orders are planned in batch 0 already."""
    (tmp_path / "offsets").mkdir()
    for batch, planned in enumerate((10, customers)):
        lines = f'v1\n{{}}\n{{"orders-7":{{"0":50}}}}\n{{"customers-7":{{"0":{planned}}}}}'
        (tmp_path / "offsets" / str(batch)).write_text(lines, encoding="utf-8")
    ends = {"orders-7": {0: Bounds(0, 50, 50)}, "customers-7": {0: Bounds(0, 30, 30)}}
    job = Job(tmp_path, "orders-7", {name: partial(dict, one) for name, one in ends.items()}, dict, lambda: True)

    sight = BatchSight(AtBatch(batch="last", seen="planned"), job)

    assert sight.came() is comes
    assert not comes or sight.facts["batch"] == 1
