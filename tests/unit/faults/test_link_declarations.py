import pytest

from chaos.faults.network_partitions import PartitionNetwork
from chaos.grammar.targets import BrokerTarget
from chaos.scenario.plan import from_json, plan, to_json
from tests.unit.scenario.declared import HEAD, errors_in_fault, errors_of, loaded, read

WHEN = "when: {after: 1s}, for: 6s"
WORDS = {
    "kind: reset_link, link: 'spark->broker-1'": "reset_link spark->broker-1 for 6 s",
    "kind: throttle_link, link: 'spark->*', rate: 64KB/s, stream: up": "throttle_link spark->* to 64KB/s, upstream, for 6 s",
    "kind: slice_link, link: 'spark->*', size: 100B": (
        "slice_link spark->* into pieces of 100B, one every 1 ms, both ways, for 6 s"
    ),
    "kind: cut_after_bytes, link: 'spark->*', bytes: 20KB, stream: down": (
        "cut_after_bytes spark->*, after 20KB, downstream, for 6 s"
    ),
    "kind: flapping_link, link: 'spark->*', period: 600ms": "flapping_link spark->*, down and up within 600 ms, for 6 s",
    "kind: partition_network, shape: isolate, target: 'leader(datasink, 0)', from: clients": (
        "partition_network: leader(datasink, 0) isolated from clients, blackholed, for 6 s"
    ),
    "kind: partition_network, shape: split, groups: [[1], [broker-2]], how: cut": (
        "partition_network: broker-1 | broker-2 | the rest, cut, for 6 s"
    ),
    "kind: partition_network, shape: bridge, target: controller": (
        "partition_network: two halves, controller between them, blackholed, for 6 s"
    ),
    "kind: partition_network, shape: one_way, target: broker-1, loses: outgoing, from: all": (
        "partition_network: broker-1 loses outgoing traffic with all, blackholed, for 6 s"
    ),
}


@pytest.mark.parametrize(("fault", "words"), WORDS.items())
def test_a_fault_is_read_told_and_written_down(fault: str, words: str) -> None:
    """`chaos plan` says what it does, and a schedule on disk is the same schedule."""
    scenario = read(f"faults: [{{{fault}, {WHEN}}}]").scenarios[0]

    assert scenario.faults[0].describe() == words
    assert from_json(to_json(plan(scenario, 1))) == plan(scenario, 1)


def test_a_ring_is_read_where_there_are_brokers_for_it() -> None:
    """Five brokers: each reaches two neighbours, with itself a majority of three."""
    five = "system: {kafka: {brokers: 5}}\n"
    ring = f"    faults: [{{kind: partition_network, shape: ring, {WHEN}}}]\n"

    assert errors_of(HEAD + ring) == [("6:47", "ring-too-small")]
    assert loaded(five + HEAD + ring)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "kind: throttle_link, link: '*->*', rate: 64",
            "not-a-speed",
        ),
        ("kind: slice_link, link: '*->*', size: 0B", "not-a-size"),
        ("kind: slice_link, link: '*->*', size: 9B, every: 1s", "too-large"),
        ("kind: slice_link, link: '*->*', size: 2KB", "too-large"),
        ("kind: cut_after_bytes, link: '*->*', bytes: 4000", "not-a-size"),
        ("kind: flapping_link, link: '*->*', period: 4s", "flaps-once"),
        ("kind: partition_network, shape: isolate", "shape-without-target"),
        ("kind: partition_network, shape: isolate, target: all", "partition-of-all"),
        ("kind: partition_network, shape: isolate, target: any, groups: [[1]]", "key-of-other-shape"),
        ("kind: partition_network, shape: split", "split-without-groups"),
        ("kind: partition_network, shape: split, target: any, groups: [[1]]", "key-of-other-shape"),
        ("kind: partition_network, shape: split, groups: [[1], [2, 1]]", "broker-in-two-groups"),
        ("kind: partition_network, shape: split, groups: [[any]]", "group-without-broker"),
        ("kind: partition_network, shape: split, groups: [[4]]", "no-such-broker"),
        ("kind: partition_network, shape: split, groups: [[]]", "empty-list"),
        ("kind: partition_network, shape: bridge, target: any, from: all", "key-of-other-shape"),
        ("kind: partition_network, shape: one_way, target: any, how: cut", "cut-one-way"),
        ("kind: partition_network, shape: star", "unknown-choice"),
    ],
)
def test_a_mistake_in_a_network_fault(fault: str, error: str) -> None:
    """Each is an error at load, in one line."""
    ((_, code),) = errors_in_fault(f"{{{fault}, {WHEN}}}")

    assert code == error


def test_the_brokers_of_a_partition_are_known_to_the_checks() -> None:
    """A group's members are targets like any other."""
    declared = {"kind": "partition_network", "shape": "split", "groups": [[1], ["controller"]], "for": "1s"}
    fault = PartitionNetwork.model_validate(declared | {"when": {"after": "1s"}})

    assert fault.broker_targets == [BrokerTarget("broker", number=1), BrokerTarget("controller")]
