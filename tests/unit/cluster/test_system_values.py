"""What the system's own arithmetic says, against values that are known."""

import pytest

from chaos.cluster import addresses
from chaos.cluster.addresses import Addresses
from chaos.cluster.kafka import java_hash
from chaos.cluster.links import every_link
from chaos.cluster.system import listeners
from chaos.cluster.toxiproxy import Toxiproxy
from chaos.common.errors import RuntimeUnavailableError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("app-0", 93027204), ("polygenelubricants", 0), ("chaos-warm-up", 1403884950)],
)
def test_a_transactional_id_is_hashed_as_java_hashes_it(text, expected):
    """Known values of String.hashCode, its sign bit cleared; the fourth is Integer.MIN_VALUE."""
    assert java_hash(text) == expected


def test_every_ordered_pair_has_a_link_of_its_own():
    """Three client groups to three brokers, and three brokers among each other, each direction alone."""
    links = every_link(Addresses(), 3, Toxiproxy(("127.0.0.1", 1)))

    assert len(links) == 3 * 3 + 3 * 3
    assert {link.name for link in links} >= {
        "spark->broker-1",
        "app->broker-2",
        "loader->broker-3",
        "broker-1->broker-2",
        "broker-2->broker-1",
    }


def test_no_two_listeners_share_an_address():
    """The plan of addresses is the reason why nothing is ever taken twice."""
    planned = listeners(Addresses(), 5)

    assert len(planned) == len(set(planned))
    assert all(host.startswith("127.77.") for host, _ in planned)


@pytest.mark.parametrize("net", ["10.0", "127.300", "127.77.0.1", ""])
def test_only_loopback_addresses_are_ever_used(net, monkeypatch):
    """CHAOS_NET cannot put a listener where others can reach it."""
    monkeypatch.setenv("CHAOS_NET", net)

    with pytest.raises(RuntimeUnavailableError, match=r"CHAOS_NET=.*set it to 127\.N"):
        addresses.from_environment()
