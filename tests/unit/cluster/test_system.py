"""The plan of a whole system: its links and its listeners."""

from chaos.cluster.addresses import Addresses
from chaos.cluster.links import every_link, service_links
from chaos.cluster.spark import Spark
from chaos.cluster.system import listeners
from chaos.cluster.toxiproxy import Toxiproxy


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
    """The plan of addresses guarantees it."""
    planned = listeners(Addresses(), 5)

    assert len(planned) == len(set(planned))
    assert all(host.startswith("127.77.") for host, _ in planned)


def test_a_service_has_a_link_from_each_client_group():
    """Nothing in it is taken for a request, and no two listen at the same place."""
    services = {"files": Addresses().service(1), "postgres": ("127.0.0.1", 5432)}
    links = service_links(Addresses(), services, Toxiproxy(("127.0.0.1", 1)))

    assert [link.name for link in links if link.source == "app"] == ["app->service(files)", "app->service(postgres)"]
    proxies = [proxy for link in links for proxy in link.proxies]
    assert all(proxy.raw for proxy in proxies)
    assert {proxy.upstream for proxy in proxies} == set(services.values())
    assert len({proxy.listen for proxy in proxies} - set(listeners(Addresses(), 5))) == len(links) == 6


def test_a_spark_that_is_not_started_has_no_daemons_and_is_not_unhealthy(tmp_path):
    """Faults of plain applications look for executors, too."""
    spark = Spark(None, None, Addresses(), tmp_path, 2)

    assert (spark.started(), spark.workers, spark.executors(), spark.unhealthy()) == (False, {}, [], [])
