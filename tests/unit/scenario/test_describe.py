"""The list of faults: nothing is left out, and every line says something."""

from chaos.faults.catalogue import CATALOGUE
from chaos.scenario.describe import listing


def test_every_fault_of_the_catalogue_is_listed_once():
    """What can be declared can be looked up."""
    kinds = [fault.kind for fault in listing()]

    assert len(kinds) == len(set(kinds)) == len(CATALOGUE)


def test_a_line_tells_what_must_be_there_and_what_need_not():
    """Defaults carry their unit, as they are declared."""
    (kill,) = (fault for fault in listing() if fault.kind == "kill_broker")

    assert kill.family == "broker"
    assert kill.keys == ("target*", "restart_after (3 s)")
    assert kill.does == "Brokers die by SIGKILL, and are started again."


def test_every_line_says_what_the_fault_does():
    """A fault without a description is no use to whoever looks for one."""
    assert [fault.kind for fault in listing() if not fault.does.endswith(".")] == []


def test_a_line_tells_where_the_fault_can_be_done():
    """What only containers can, what nobody can do to a cluster of others, and what can be done everywhere."""
    runs_in = {fault.kind: fault.runs_in for fault in listing()}

    assert runs_in["out_of_memory"] == ("containers",)
    assert runs_in["power_loss"] == ("local", "containers")
    assert runs_in["crash_pipeline"] == runs_in["blackhole_link"] == ("local", "containers", "external")
