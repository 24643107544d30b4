"""The list of faults: nothing is left out, and every line says something."""

import pytest

from chaos.faults.registry import FAULTS
from chaos.scenario.describe import listing
from tests.unit.wording import keep


def test_every_fault_is_listed_once():
    """Every fault of the grammar is in the list."""
    kinds = [fault.kind for fault in listing()]

    assert len(kinds) == len(set(kinds)) == len(FAULTS)
    assert len(kinds) >= 45


def test_a_fault_tells_what_must_be_there_and_what_need_not():
    """Defaults carry their unit, as they are declared; a role that the fault cannot have is not listed."""
    listed = {fault.kind: fault for fault in listing()}
    kill = listed["kill_broker"]

    assert kill.family == "broker_processes"
    assert "broker-N" in keep(kill.targets)
    assert kill.keys == ("restart_after (3 s)",)
    assert kill.does == "Brokers are killed with SIGKILL, and started again."
    assert listed["pause_executor"].keys == ("for*",)
    assert listed["unclean_election"].targets == "leader"
    assert listed["crash_executor"].targets.startswith("executor(busiest)")
    assert "request" in keep(listed["lose_request"].targets)


@pytest.mark.parametrize("fault", listing(), ids=lambda fault: fault.kind)
def test_every_fault_says_what_it_does_what_it_is_for_and_how_it_is_proved(fault):
    """A fault without a description is no use to a person who looks for one."""
    assert fault.does.endswith(".")
    assert fault.provokes
    assert fault.proved_by
    assert fault.runs_in


def test_a_fault_tells_where_it_is_possible():
    """Some faults need containers, some do not work on an existing cluster, and some work everywhere."""
    runs_in = {fault.kind: fault.runs_in for fault in listing()}

    assert runs_in["out_of_memory"] == ("containers",)
    assert runs_in["power_loss"] == ("local", "containers")
    assert runs_in["crash_pipeline"] == ("local", "containers", "external")
    assert runs_in["blackhole_link"] == ("local", "containers", "external (a proxy on the link)")
    assert runs_in["kill_broker"] == ("local", "containers", "external (a way to kill brokers)")
