"""Which links a partition breaks: pure sets of ordered pairs, checked against what each broker still sees."""

from collections import Counter
from itertools import combinations
from random import Random

import pytest

from chaos.cluster.addresses import Addresses
from chaos.cluster.links import every_link
from chaos.cluster.toxiproxy import Toxiproxy
from chaos.common.errors import InjectionError
from chaos.faults import network_partitions
from tests.unit.wording import keep

THREE, FIVE = (1, 2, 3), (1, 2, 3, 4, 5)
CLIENTS = ("app", "loader", "spark")


def pairs(lost):
    """As they are written in scenarios, when all of them are lost both ways."""
    assert set(lost.values()) <= {"both"}
    return {f"{source}->broker-{target}" for source, target in lost}


def seen(lost, broker_ids):
    """Broker -> those it reaches, itself included; two brokers reach each other when neither of their links is lost."""
    apart = {frozenset((int(source.removeprefix("broker-")), target)) for source, target in lost}
    return {one: {other for other in broker_ids if frozenset((one, other)) not in apart or one == other} for one in broker_ids}


def test_a_broker_isolated_from_its_peers_is_seen_by_clients():
    """Both links to either peer, and no other."""
    lost = network_partitions.isolate(2, "peers", THREE, CLIENTS)

    assert pairs(lost) == {"broker-2->broker-1", "broker-1->broker-2", "broker-2->broker-3", "broker-3->broker-2"}


def test_a_broker_isolated_from_clients_is_seen_by_its_peers():
    """Its replication goes on: it stays leader, and no client can reach it."""
    assert pairs(network_partitions.isolate(2, "clients", THREE, CLIENTS)) == {
        "app->broker-2",
        "loader->broker-2",
        "spark->broker-2",
    }


def test_a_broker_isolated_from_all_is_the_sum_of_both():
    """Nothing of it is left but the audit listener, which no fault touches."""
    assert network_partitions.isolate(2, "all", THREE, CLIENTS) == (
        network_partitions.isolate(2, "peers", THREE, CLIENTS) | network_partitions.isolate(2, "clients", THREE, CLIENTS)
    )


def test_groups_do_not_see_each_other_and_see_themselves():
    """Brokers that are in no group make one of their own."""
    lost = network_partitions.split([[1], [2, 3]], FIVE)

    assert seen(lost, FIVE) == {1: {1}, 2: {2, 3}, 3: {2, 3}, 4: {4, 5}, 5: {4, 5}}
    assert seen(network_partitions.split([[3]], THREE), THREE) == {1: {1, 2}, 2: {1, 2}, 3: {3}}


def test_both_links_of_every_pair_between_groups_are_lost():
    """To lose only one way is another shape: one_way."""
    lost = network_partitions.split([[1], [2]], THREE)

    assert {(f"broker-{target}", int(source[-1])) for source, target in lost} == set(lost)


def test_a_broker_cannot_be_in_two_groups():
    """Roles are resolved at the moment of injection: two of them may be one broker then."""
    with pytest.raises(InjectionError, match="broker-2") as caught:
        network_partitions.split([[1, 2], [2]], THREE)
    keep(str(caught.value))


@pytest.mark.parametrize("count", [4, 5])
def test_in_a_ring_each_sees_a_majority_and_no_two_see_the_same(count):
    """Jepsen's majorities-ring."""
    order = Random(7).sample(range(1, count + 1), count)
    sees = seen(network_partitions.ring(order), order)

    assert all(len(view) == count // 2 + 1 for view in sees.values())
    assert all(one != other for one, other in combinations(sees.values(), 2))


def test_a_ring_follows_its_order():
    """Neighbours in the order drawn see each other, whatever their numbers."""
    sees = seen(network_partitions.ring([3, 1, 5, 2, 4]), FIVE)

    assert sees == {3: {4, 3, 1}, 1: {3, 1, 5}, 5: {1, 5, 2}, 2: {5, 2, 4}, 4: {2, 4, 3}}


def test_a_ring_of_three_would_break_nothing():
    """That is why it is an error at load."""
    assert network_partitions.ring(THREE) == {}


def test_a_bridge_sees_both_halves():
    """And the halves do not see each other."""
    lost = network_partitions.split([[1, 2], [4, 5], [3]], FIVE, bridges=[3])

    assert seen(lost, FIVE) == {1: {1, 2, 3}, 2: {1, 2, 3}, 3: {1, 2, 3, 4, 5}, 4: {3, 4, 5}, 5: {3, 4, 5}}


def test_halves_are_drawn_and_hold_every_broker():
    """The second half of an odd number gets one more; another seed draws other halves."""
    drawn = {network_partitions.halves([1, 2, 4], Random(seed))[0][0] for seed in range(20)}

    assert drawn == {1, 2, 4}
    left, right = network_partitions.halves([1, 2, 4, 5], Random(1))
    assert (len(left), len(right), sorted(left + right)) == (2, 2, [1, 2, 4, 5])


def test_one_way_loses_what_is_sent_to_a_broker_on_all_connections():
    """The requests of those that connect to it, and the answers to its own."""
    both_ways = network_partitions.isolate(2, "peers", THREE, CLIENTS)

    assert network_partitions.one_way(both_ways, 2, "incoming") == {
        ("broker-1", 2): "up",
        ("broker-3", 2): "up",
        ("broker-2", 1): "down",
        ("broker-2", 3): "down",
    }
    assert network_partitions.one_way(both_ways, 2, "outgoing") == {
        ("broker-1", 2): "down",
        ("broker-3", 2): "down",
        ("broker-2", 1): "up",
        ("broker-2", 3): "up",
    }


def test_what_is_lost_is_found_among_the_links_of_the_system():
    """Every pair that a shape names is a link, and comes with its stream; a broker's link to itself is never named."""
    links = every_link(Addresses(), 3, Toxiproxy(("127.0.0.1", 1)))
    ways = network_partitions.found(
        network_partitions.one_way(network_partitions.isolate(1, "all", THREE, CLIENTS), 1, "incoming"), links
    )

    assert Counter(stream for _, stream in ways) == {"up": 5, "down": 2}
    assert not [link.name for link, _ in ways if link.source == f"broker-{link.broker}"]


def test_of_a_link_between_brokers_replication_is_one_part():
    """To break replication leaves the controller quorum alone."""
    links = every_link(Addresses(), 3, Toxiproxy(("127.0.0.1", 1)))
    link = next(link for link in links if link.name == "broker-1->broker-2")

    assert [proxy.name for proxy in link.replication.proxies] == ["broker-1-to-broker-2-internal"]
    assert len(link.proxies) == 2
