"""A fault that a runtime lacks is refused when the file is read, with its place, the reason and an alternative."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.scenario.model import Scenario
from tests.unit.scenario.declared import loaded
from tests.unit.wording import mistakes_in

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

    with pytest.raises(ScenarioError, match=rf"{kind} .*{FAULTS[fault]}") as raised:
        loaded(TEXT.replace("FAULT", fault), PATH, "local")
    assert mistakes_in(raised.value) == [("8:16", "containers-only")]


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

    with pytest.raises(ScenarioError) as raised:
        loaded(text, PATH, "local")
    ((place, code),) = mistakes_in(raised.value)
    assert (place.split(":")[0], code) == ("6", "containers-only")


def test_a_file_that_is_wrong_says_both():
    """All mistakes at once, in the order of the file."""
    text = TEXT.replace("FAULT", "freeze, for: 5s").replace("kill_broker", "kil_broker")

    with pytest.raises(ScenarioError) as error:
        loaded(text, PATH, "local")

    assert [place.split(":")[0] for place, _ in mistakes_in(error.value)] == ["7"]


IMAGE = """\
version: 2
topics: {orders: {}, copies: {}}
pipelines:
  copy:
    kind: container
    image: shop/copy:1
    command: ["{bootstrap}", "{orders}", "{copies}"]
    group: "copy-{suffix}"
    reads: [orders]
    sink: {topic: copies}
scenarios:
  - {name: copy, title: An image copies a topic, pipeline: copy}
"""


def test_an_image_needs_a_system_in_containers():
    """Nowhere else is there a network of the run that it could join."""
    with pytest.raises(ScenarioError) as error:
        loaded(IMAGE, PATH, "local")

    ((_, code),) = mistakes_in(error.value)
    assert code == "container-outside"


@pytest.mark.parametrize("runtime", ["containers", ""])
def test_an_image_is_read_where_it_is_possible(runtime):
    """All faults of a group and of a process are possible with it."""
    (scenario,) = loaded(IMAGE, PATH, runtime).scenarios

    assert scenario.pipeline.image == "shop/copy:1"
    assert Scenario.of_run(scenario.to_run()).pipeline == scenario.pipeline


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"{bootstrap}"', '"{python}"', "unknown-placeholder"),
        ('    group: "copy-{suffix}"\n', "", "positions-nowhere"),
        ("image: shop/copy:1", "run: [copy]", "unknown-key"),
    ],
)
def test_an_image_that_is_declared_wrongly(right, wrong, said):
    """Files of this machine are not in the image."""
    assert right in IMAGE
    with pytest.raises(ScenarioError) as error:
        loaded(IMAGE.replace(right, wrong), PATH)

    assert said in dict(mistakes_in(error.value)).values()
