"""Faults by chance: all of them drawn before anything happens, by the seed and nothing else."""

import pytest

from chaos.scenario.model import Scenario
from chaos.scenario.plan import from_json, plan, to_json
from tests.unit.scenario.declared import OF_TOPICS, errors_of

KILL = {"kind": "kill_broker", "target": "any"}
CUT = {"kind": "cut_link", "link": "pipeline->any", "for": "2s"}
RANDOM = {"every": "5s", "pick": [{"weight": 3, "fault": KILL}, {"fault": CUT}]}


def scenario(records=60_000, **random):
    """Sixty seconds of workload."""
    return Scenario.model_validate(
        {
            "name": "soak",
            "title": "Soak",
            "pipeline": {
                "kind": "command",
                "reads": ["datasource"],
                "sink": {"topic": "datasink"},
                "run": ["app"],
                "group": "g",
            },
            "workload": {"records": records, "rate": "1000/s"},
            "random": RANDOM | random,
        }
    )


def test_the_same_seed_draws_the_same_faults():
    """A night that failed can be repeated; another night is another one."""
    assert plan(scenario(), 7) == plan(scenario(), 7)
    assert plan(scenario(), 7).steps != plan(scenario(), 8).steps


def test_rounds_come_one_after_the_other_and_leave_time_to_recover():
    """Every five seconds of sixty, the last one not at the very end; one fault at a time."""
    schedule = plan(scenario(quiet="1%"), 7)

    times_s = [step.fault.when.after_s for step in schedule.steps]
    assert times_s == sorted(times_s)
    assert {time_s % 5 for time_s in times_s} == {0}
    assert 5 <= times_s[0] <= times_s[-1] <= 55
    assert schedule.at_once == 1


def test_names_tell_round_and_kind_and_are_unique():
    """The report has a line for each."""
    names = [step.name for step in plan(scenario(quiet="1%"), 7).steps]

    assert len(set(names)) == len(names) >= 9
    assert all(name.startswith("round-") and name.endswith(("kill_broker", "cut_link")) for name in names)


def test_weights_and_quiet_rounds_are_kept():
    """Three kills for a cut, and a quarter of the rounds is quiet, over many rounds."""
    steps = plan(scenario().lasting(401 * 5 / 60), 7).steps
    kills = sum(step.fault.kind == "kill_broker" for step in steps)

    assert 0.65 < len(steps) / 400 < 0.85
    assert 0.65 < kills / len(steps) < 0.85


def test_a_drawn_schedule_survives_the_way_through_a_file():
    """Drawn faults are written resolved, with their limit."""
    schedule = plan(scenario(), 7)

    assert from_json(to_json(schedule)) == schedule


def test_what_a_soak_wrote_down_can_be_read_again():
    """`chaos judge` begins with it, however long the workload was made."""
    lasted = scenario().lasting(30)

    assert Scenario.of_run(lasted.to_run()) == lasted


def test_a_soak_lasts_as_long_as_asked():
    """Rate times minutes, also beyond the limit of a declared workload."""
    assert scenario().lasting(30).workload.records == 1_800_000


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("{kind: kill_broker, target: any, when: {after: 5s}}", "when-of-random-fault"),
        ("{name: a, kind: kill_broker, target: any}", "name-of-random-fault"),
        ("{kind: kill_broker, target: broker-7}", "no-such-broker"),
        ("{kind: kill_brokr, target: any}", "unknown-kind"),
    ],
)
def test_a_mistake_in_a_pick_is_shown_where_it_is(fault, code):
    """Like that of any other fault."""
    head = "version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: {kind: command, run: [app], group: g, OF}\n"
    text = f"{head.replace('OF', OF_TOPICS)}    random: {{every: 5s, pick: [{{fault: {fault}}}]}}\n"

    (error,) = errors_of(text)

    assert error[0].startswith("6:")
    assert error[1] == code
