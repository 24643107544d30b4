"""What a runtime cannot do is refused when the file is read: with its place, the reason, and what can be done instead."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from tests.unit.scenario.declared import loaded

PATH = Path("scenarios.yaml")
TEXT = """\
version: 2
scenarios:
  - name: frozen
    title: a frozen leader
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
    faults:
      - {kind: kill_broker, target: broker-1, when: {after: 1s}}
      - {kind: FAULT, target: "leader(datasink, 0)", when: {after: 1s}}
"""
FAULTS = {
    "freeze, for: 5s": "pause_broker",
    "disconnect, for: 5s": "partition_network",
    "limit_cpu, cpus: 0.1, for: 5s": "delay_link",
    "out_of_memory": "kill_broker",
    "limit_disk": "log_dir_full",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_needs_containers_is_refused_elsewhere(fault):
    """With the one that comes next to it there."""
    kind = fault.split(",")[0]

    with pytest.raises(ScenarioError, match=rf"^scenarios.yaml:8:16: {kind} is possible in containers only: .*{FAULTS[fault]}"):
        loaded(TEXT.replace("FAULT", fault), PATH, "local")


@pytest.mark.parametrize("runtime", ["containers", ""])
@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_read_where_it_is_possible_and_where_it_is_only_read(fault, runtime):
    """`chaos plan` shows every file."""
    file = loaded(TEXT.replace("FAULT", fault), PATH, runtime)

    assert file.scenarios[0].faults[1].kind == fault.split(",")[0]
    assert fault.split(",")[0] in file.scenarios[0].faults[1].describe()


def test_it_is_refused_among_random_faults_too():
    """Chance must not find out in the middle of a soak."""
    picked = "    random: {every: 10s, pick: [{fault: {kind: freeze, target: any, for: 5s}}]}\n"
    text = TEXT[: TEXT.index("    faults")] + picked

    with pytest.raises(ScenarioError, match=r"scenarios.yaml:6:\d+: freeze is possible in containers only"):
        loaded(text, PATH, "local")


def test_a_file_that_is_wrong_says_both():
    """All mistakes at once, in the order of the file."""
    text = TEXT.replace("FAULT", "freeze, for: 5s").replace("kill_broker", "kil_broker")

    with pytest.raises(ScenarioError) as error:
        loaded(text, PATH, "local")

    assert [line.split(":")[1] for line in str(error.value).splitlines()] == ["7"]
