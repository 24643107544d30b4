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

    (line,) = errors_of(HEAD + ring)
    assert line.startswith(
        "scenarios.yaml:6:47: in a ring of 3 brokers every broker sees all others, so nothing would be cut; "
    )
    assert loaded(five + HEAD + ring)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "kind: throttle_link, link: '*->*', rate: 64",
            "not a speed; write whole kilobytes per second, from 1KB/s to 1000KB/s",
        ),
        ("kind: slice_link, link: '*->*', size: 0B", "not a size; write a number with a unit, e.g. 100B or 4KB"),
        ("kind: slice_link, link: '*->*', size: 9B, every: 1s", "is too large; the most is 0.1"),
        ("kind: slice_link, link: '*->*', size: 2KB", "is too large; the most is 1000"),
        ("kind: cut_after_bytes, link: '*->*', bytes: 4000", "not a size; write a number with a unit, e.g. 100B or 4KB"),
        ("kind: flapping_link, link: '*->*', period: 4s", "a link that goes down once is cut_link; write at least for: 8s"),
        ("kind: partition_network, shape: isolate", "shape isolate needs a `target`: which broker?"),
        ("kind: partition_network, shape: isolate, target: all", "shape isolate is about one broker, not about all"),
        ("kind: partition_network, shape: isolate, target: any, groups: [[1]]", "shape isolate has no `groups`"),
        ("kind: partition_network, shape: split", "shape split needs `groups`, e.g. [[1], [2, 3]]"),
        ("kind: partition_network, shape: split, target: any, groups: [[1]]", "shape split has no `target`"),
        ("kind: partition_network, shape: split, groups: [[1], [2, 1]]", "broker-1 is in two places"),
        ("kind: partition_network, shape: split, groups: [[any]]", "a group names its brokers, and any names none"),
        ("kind: partition_network, shape: split, groups: [[4]]", "there is no broker-4; the brokers are broker-1 to broker-3"),
        ("kind: partition_network, shape: split, groups: [[]]", "this must not be empty; write at least one"),
        ("kind: partition_network, shape: bridge, target: any, from: all", "shape bridge has no `from`"),
        ("kind: partition_network, shape: one_way, target: any, how: cut", "one_way needs how: blackhole"),
        ("kind: partition_network, shape: star", "'star' is not known here"),
    ],
)
def test_a_mistake_in_a_network_fault(fault: str, error: str) -> None:
    """Each is an error at load, in one line."""
    (line,) = errors_in_fault(f"{{{fault}, {WHEN}}}")

    assert error in line


def test_the_brokers_of_a_partition_are_known_to_the_checks() -> None:
    """A group's members are targets like any other."""
    declared = {"kind": "partition_network", "shape": "split", "groups": [[1], ["controller"]], "for": "1s"}
    fault = PartitionNetwork.model_validate(declared | {"when": {"after": "1s"}})

    assert fault.broker_targets == [BrokerTarget("broker", number=1), BrokerTarget("controller")]
