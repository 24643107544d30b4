"""The faults that may overlap while a scenario is expected to stay valid."""

import pytest

from tests.unit.scenario.declared import errors_in, errors_in_fault, read


def test_all_brokers_may_die_when_they_come_back_in_time() -> None:
    """Clients wait: everything at once is a fault like any other, when it ends."""
    assert read("faults: [{kind: kill_broker, target: all, restart_after: 45s, when: {after: 1s}}]")
    assert read("faults: [{kind: pause_broker, target: all, for: 45s, when: {after: 1s}}]")


@pytest.mark.parametrize(
    ("fault", "column"),
    [
        ("{kind: kill_broker, target: all, restart_after: 46s, when: {after: 1s}}", 62),
        ("{kind: pause_broker, target: all, for: 46s, when: {after: 1s}}", 53),
        ("{kind: log_dir_full, target: all, restart_after: 46s, when: {after: 1s}}", 63),
        ("{kind: disconnect, target: all, for: 46s, when: {after: 1s}}", 51),
        ("{kind: freeze, target: all, for: 46s, when: {after: 1s}}", 47),
        ("{kind: out_of_memory, target: all, restart_after: 46s, when: {after: 1s}}", 64),
        ("{kind: limit_disk, target: all, restart_after: 46s, when: {after: 1s}}", 61),
    ],
)
def test_all_brokers_may_not_stay_away_for_longer_than_clients_wait(fault: str, column: int) -> None:
    """No pipeline would live through it, so a run could not be valid."""
    assert errors_in_fault(fault) == [(f"6:{column}", "all-down-too-long")]


def test_what_is_to_be_caught_may_break_anything() -> None:
    """A control is not expected to go on."""
    fault = "faults: [{kind: kill_broker, target: all, restart_after: 50s, when: {after: 1s}}]"

    assert read(fault, "expect: {gaps: invalid}")


def test_power_loss_everywhere_is_a_control() -> None:
    """Records in the memory of three replicas are gone; after one broker's loss the other two have them."""
    fault = "{{kind: power_loss, target: {}, when: {{after: 1s}}}}"

    assert read(f"faults: [{fault.format('controller')}]")
    assert read(f"faults: [{fault.format('all')}]", "expect: {gaps: invalid}")
    assert errors_in_fault(fault.format("all")) == [("6:41", "power-loss-yet-valid")]
    assert read(f"faults: [{fault.format('all, flushed: [datasource, datasink, __consumer_offsets]')}]")
    assert errors_in_fault(fault.format("all, flushed: [datasource]")) == [("6:41", "power-loss-yet-valid")]
    assert errors_in_fault(fault.format("all, flushed: [datasource, datasink, datasnik]")) == [("6:55", "not-a-topic")]


def test_an_unclean_election_is_a_control() -> None:
    """It exists to lose what was acknowledged."""
    fault = "{kind: unclean_election, target: 'leader(datasink, 0)', when: {after: 1s}}"

    assert errors_in_fault(fault) == [("6:21", "unclean-yet-valid")]


FIRST = "{name: one, kind: kill_broker, target: broker-1, restart_after: 58s, when: {after: 1s}}"


def test_two_named_brokers_that_are_down_together_for_too_long() -> None:
    """Brokers and times are declared, so this can be known."""
    second = "{kind: pause_broker, target: broker-2, for: 58s, when: {after: 5s}}"

    assert errors_in(f"faults: [{FIRST}, {second}]") == [("6:132", "two-down-too-long")]


@pytest.mark.parametrize(
    "second",
    [
        "{kind: pause_broker, target: broker-2, for: 58s, when: {after: 20s}}",
        "{kind: pause_broker, target: broker-1, for: 58s, when: {after: 5s}}",
        "{kind: pause_broker, target: broker-2, for: 40s, when: {request: Produce, nth: 5}}",
    ],
)
def test_what_may_meet_and_may_not_is_let_pass(second: str) -> None:
    """They overlap for less, hit the same broker, or are not long enough to overlap for that time, whenever they come."""
    assert read(f"faults: [{FIRST}, {second}]")


AT_REQUEST = FIRST.replace("{after: 1s}", "{request: Produce, nth: 5}")


def test_what_follows_a_request_is_counted_from_it() -> None:
    """When the request comes is not known, and need not be."""
    assert read(f"faults: [{AT_REQUEST}, {{kind: pause_broker, target: broker-2, for: 58s, when: {{fault: one, after: 20s}}}}]")
    (error,) = errors_in(
        f"faults: [{AT_REQUEST}, {{kind: pause_broker, target: broker-2, for: 58s, when: {{fault: one, after: 5s}}}}]"
    )

    assert error[1] == "two-perhaps-down"


@pytest.mark.parametrize(
    ("second", "place"),
    [
        ("{kind: pause_broker, target: 'leader(datasink, 0)', for: 58s, when: {after: 5s}}", "6:132"),
        ("{kind: pause_broker, target: broker-2, for: 58s, when: {progress: 40%}}", "6:132"),
        ("{kind: pause_broker, target: broker-2, for: 58s, when: {fault: one, after: 5s}}", "6:132"),
        ("{kind: pause_broker, target: broker-2, for: 58s, when: {request: Produce, nth: 5}}", "6:132"),
    ],
)
def test_two_brokers_that_may_be_down_together_for_too_long(second: str, place: str) -> None:
    """A role may name another broker, and a progress or a request may come in that time; who wants just that says so."""
    assert errors_in(f"faults: [{FIRST}, {second}]") == [(place, "two-perhaps-down")]
    assert read(f"faults: [{FIRST}, {second}]", "unsafe: true")
