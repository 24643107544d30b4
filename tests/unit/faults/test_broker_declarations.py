import pytest

from chaos.scenario.plan import from_json, plan, to_json
from tests.unit.scenario.declared import errors_in_fault, read
from tests.unit.wording import keep

WHEN = "when: {after: 1s}"
FAULTS = {
    "kind: terminate_broker, target: controller": "controller 3 s",
    "kind: rolling_restart": "terminate",
    "kind: rolling_restart, how: kill, restart_after: 2s": "kill 2 s",
    "kind: chase_leader, target: 'leader(datasink, 0)', times: 4": "leader(datasink, 0) 4 times 1 s",
    "kind: power_loss, target: broker-1": "broker-1 3 s",
    "kind: power_loss, target: all, flushed: [datasource, datasink]": "all datasource datasink 3 s",
    "kind: log_dir_full, target: any": "any 3 s",
    "kind: prefer_leader, target: transaction_coordinator": "transaction_coordinator",
    "kind: reassign_partition, target: 'follower(datasink, 0)', for: 5s": "follower(datasink, 0) 5 s",
}


@pytest.mark.parametrize(("fault", "names"), FAULTS.items())
def test_a_fault_is_read_told_and_written_down(fault: str, names: str) -> None:
    """`chaos plan` says what it does, and a schedule on disk is the same schedule."""
    scenario = read(f"faults: [{{{fault}, {WHEN}}}]").scenarios[0]

    told = keep(scenario.faults[0].describe())
    assert told.startswith(scenario.faults[0].kind)
    assert all(name in told for name in names.split())
    assert from_json(to_json(plan(scenario, 1))) == plan(scenario, 1)


def test_an_unclean_election_is_a_control() -> None:
    """It can be declared where a loss is expected."""
    fault = f"faults: [{{kind: unclean_election, target: 'leader(datasink, 0)', {WHEN}}}]"

    assert read(fault, "expect: {gaps: invalid}").scenarios[0].faults[0].describe() == (
        "unclean_election after leader(datasink, 0) was alone, restarted after 3 s"
    )


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("kind: terminate_broker, target: all", "stop-of-all-brokers"),
        ("kind: chase_leader, target: any", "wrong-role"),
        ("kind: chase_leader, target: controller, times: 1", "too-small"),
        ("kind: chase_leader, target: controller, times: 11", "too-large"),
        ("kind: unclean_election, target: controller", "wrong-role"),
        (
            "kind: prefer_leader, target: 'follower(datasink, 0)'",
            "wrong-role",
        ),
        (
            "kind: reassign_partition, target: broker-1, for: 1s",
            "wrong-role",
        ),
        ("kind: rolling_restart, target: broker-1", "unknown-key"),
        ("kind: rolling_restart, how: pause", "unknown-choice"),
        ("kind: power_loss, target: broker-4", "no-such-broker"),
    ],
)
def test_a_mistake_in_a_broker_fault(fault: str, error: str) -> None:
    """Each is an error at load, in one line."""
    ((_, code),) = errors_in_fault(f"{{{fault}, {WHEN}}}")

    assert code == error
