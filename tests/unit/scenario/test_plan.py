import json
from random import Random

from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule, describe, from_json, plan, scenario_seed, to_json
from tests.unit.scenario.declared import read
from tests.unit.wording import keep

KILL = '{kind: kill_broker, target: "leader(datasink, 0)", when: {progress: 40%}}'
DELAY = '{kind: delay_link, link: "spark->*", latency: 400ms, jitter: 50ms, stream: down, when: {after: 1s}, for: 8s}'
CUT = '{kind: cut_link, link: "broker-*<->controller", when: {after: 1500ms}, for: 6s}'
BLACKHOLE = '{kind: blackhole_link, link: "loader->any", stream: up, when: {after: 2s}, for: 500ms}'
PAUSE = "{kind: pause_broker, target: transaction_coordinator(1), when: {after: 0s}, for: 1m}"
CRASH = "{kind: crash_executor, target: executor(all), when: {progress: 2.5%}}"


def declared(*faults: str) -> Scenario:
    """A scenario with these faults."""
    return read(f"faults: [{', '.join(faults)}]").scenarios[0]


def draws(schedule: Schedule) -> dict[str, int]:
    """Fault -> its number."""
    return {step.name: step.draw for step in schedule.steps}


def test_the_same_seed_gives_the_same_schedule() -> None:
    """The numbers are fixed for good: a seed from last year's report repeats last year's choices."""
    schedule = plan(declared(KILL, CRASH), 7)

    assert schedule == plan(declared(KILL, CRASH), 7)
    assert (schedule.scenario, schedule.seed) == ("a", 7)
    assert draws(schedule) == {"kill_broker-1": 1542315248, "crash_executor-1": 1207515000}


def test_another_seed_or_another_name_gives_other_draws() -> None:
    """Two scenarios of one run do not make the same choices."""
    scenario = declared(KILL)
    renamed = scenario.model_copy(update={"name": "b"})

    assert (
        len(
            {
                draws(plan(scenario, 7))["kill_broker-1"],
                draws(plan(scenario, 8))["kill_broker-1"],
                draws(plan(renamed, 7))["kill_broker-1"],
            }
        )
        == 3
    )
    assert scenario_seed(7, "a") not in (scenario_seed(7, "b"), scenario_seed(8, "a"))


def test_a_fault_keeps_its_draw_whatever_stands_around_it() -> None:
    """Adding or moving a fault does not change what the others do."""
    alone, among = draws(plan(declared(KILL), 7)), draws(plan(declared(CRASH, CUT, KILL), 7))

    assert among["kill_broker-1"] == alone["kill_broker-1"]
    assert len(set(among.values())) == 3


def test_draws_spread_over_the_candidates() -> None:
    """A hundred seeds reach every one of three brokers about equally often."""
    chosen = [Random(draws(plan(declared(KILL), seed))["kill_broker-1"]).choice([1, 2, 3]) for seed in range(100)]

    assert all(20 <= chosen.count(broker) <= 47 for broker in (1, 2, 3))


def test_a_schedule_is_described_in_words() -> None:
    """When, what, at whom, for how long: one line each, in the order of the file."""
    lines = describe(plan(declared(KILL, DELAY, CUT, BLACKHOLE, PAUSE, CRASH), 7))

    keep("\n".join(lines))
    wanted = [
        ("40 %", "kill_broker leader(datasink, 0)", "3 s"),
        ("1 s", "delay_link spark->*", "400 ms ± 50 ms", "downstream", "8 s"),
        ("1.5 s", "cut_link broker-*<->controller", "6 s"),
        ("2 s", "blackhole_link loader->any", "upstream", "500 ms"),
        ("0 s", "pause_broker transaction_coordinator(1)", "60 s"),
        ("2.5 %", "85 %", "crash_executor executor(all)"),
    ]
    for line, names in zip(lines, wanted, strict=True):
        assert [name for name in names if name not in line] == []


def test_a_schedule_survives_the_way_through_a_file() -> None:
    """A replay uses what was written, every fault of every kind."""
    schedule = plan(declared(KILL, DELAY, CUT, BLACKHOLE, PAUSE, CRASH), 7)

    assert from_json(json.loads(json.dumps(to_json(schedule)))) == schedule


def test_a_schedule_is_written_as_it_is_declared() -> None:
    """The file has the units of scenarios.yaml."""
    assert to_json(plan(declared(KILL), 7))["steps"][0]["fault"] == {
        "kind": "kill_broker",
        "name": "kill_broker-1",
        "target": "leader(datasink, 0)",
        "when": {"progress": "40%", "at": None},
        "restart_after": "3s",
    }
