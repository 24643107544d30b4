"""Links: the ordered pairs client -> broker, broker -> broker and client -> service, each through proxies of its own.

    spark ──spark->broker-2──▶ [kafka ▸ toxics] ──▶ broker-2    bytes on the link pass the toxics in this order:
    spark ◀─────────────────── [toxics ◂ kafka] ◀── broker-2    `kafka` is first, so it counts what a later one swallows

A link between brokers has two proxies, INTERNAL (replication, transaction markers) and CONTROLLER (the quorum, heartbeats),
because a fault cuts the cable, not a port. A service is a server beside Kafka that a pipeline uses; its protocol is unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NamedTuple

from chaos.cluster.addresses import CLIENTS, CONTROLLER_PORT, INTERNAL_PORT, Address, Addresses
from chaos.cluster.toxiproxy import ProxySpec, Toxic, Toxiproxy

STREAMS = {"up": ("upstream",), "down": ("downstream",), "both": ("upstream", "downstream")}


class Traffic(NamedTuple):
    """The data that has entered one direction of a link; a chunk is the result of one read of a socket."""

    bytes: int
    chunks: int

    def since(self, before: "Traffic") -> "Traffic":
        return Traffic(self.bytes - before.bytes, self.chunks - before.chunks)


@dataclass(slots=True)
class Pulled:
    """The faults that keep a cable pulled; it is plugged in again when none is left."""

    by: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class Link:
    """One ordered pair.

    Attributes:
        source: the end that opens the connections: ``spark``, ``loader`` or ``broker-1``.
        broker: number of the broker at the other end; 0 if that is a service.
        service: its name, if it is one.
    """

    source: str
    broker: int
    proxies: tuple[ProxySpec, ...]
    toxiproxy: Toxiproxy
    pulled: Pulled = field(default_factory=Pulled, compare=False)
    service: str = ""

    @property
    def name(self) -> str:
        """Its name in scenarios, e.g. ``spark->broker-2``."""
        return f"{self.source}->{self.target}"

    @property
    def target(self) -> str:
        """The end that accepts connections: ``broker-2``, or ``service(files)``."""
        return f"service({self.service})" if self.service else f"broker-{self.broker}"

    @property
    def replication(self) -> "Link":
        """The part of a link between brokers that followers fetch through, without that of the controller quorum."""
        return replace(self, proxies=tuple(proxy for proxy in self.proxies if proxy.listen[1] == INTERNAL_PORT))

    def bytes_seen(self, stream: str = "both") -> int:
        """Bytes that have entered the link so far, whether or not they came out."""
        return self._total("kafka", "bytes", stream)

    def traffic(self, stream: str) -> Traffic:
        """Bytes and chunks that have entered one direction, ``up`` or ``down``; both counters of a proxy are read at once."""
        directions = [(proxy.name, f"kafka_{direction}") for proxy in self.proxies for direction in STREAMS[stream]]
        read = [self.toxiproxy.read(*direction) for direction in directions]
        return Traffic(sum(int(one["bytes"]) for one in read), sum(int(one["chunks"]) for one in read))

    def connections(self) -> int:
        """Number of connections that are open now."""
        return self._total("kafka", "connections_open", "up")

    def swallowed(self, name: str, stream: str) -> int:
        """Bytes that a `blackhole` of this name has swallowed so far."""
        return self._total(name, "swallowed", stream)

    def connections_cut(self, name: str, stream: str) -> int:
        """Connections that a `cut_after` of this name has closed so far."""
        return self._total(name, "cut", stream)

    def add(self, name: str, toxic: str, stream: str, attributes: Mapping[str, int]) -> None:
        """Add a toxic behind the `kafka` toxics, in one or both directions."""
        for proxy in self.proxies:
            for direction in STREAMS[stream]:
                self.toxiproxy.add(proxy.name, Toxic(f"{name}_{direction}", toxic, direction, attributes))

    def remove(self, name: str, stream: str) -> None:
        """Remove a toxic. Idempotent."""
        for proxy in self.proxies:
            for direction in STREAMS[stream]:
                self.toxiproxy.remove(proxy.name, f"{name}_{direction}")

    def cut(self, by: str) -> None:
        """Pull the cable, on behalf of a fault."""
        with self.pulled.lock:
            self.pulled.by.add(by)
            self._enable(enabled=False)

    def mend(self, by: str) -> None:
        """Plug it in, unless another fault keeps it pulled. Idempotent."""
        with self.pulled.lock:
            self.pulled.by.discard(by)
            if not self.pulled.by:
                self._enable(enabled=True)

    def _total(self, name: str, counter: str, stream: str) -> int:
        """The sum of a counter of the toxics of this name, over all proxies and the given streams."""
        return sum(
            int(self.toxiproxy.read(proxy.name, f"{name}_{direction}")[counter])
            for proxy in self.proxies
            for direction in STREAMS[stream]
        )

    def _enable(self, *, enabled: bool) -> None:
        for proxy in self.proxies:
            self.toxiproxy.enable(proxy.name, enabled=enabled)


def every_link(addresses: Addresses, brokers: int, toxiproxy: Toxiproxy) -> tuple[Link, ...]:
    """Make all links of a system: from each client group to each broker, and from each broker to each broker.

    A broker also reaches itself through a link, because its own name must resolve; no fault breaks that one, and only
    faults of requests stop what it sends there.
    """
    numbers = range(1, brokers + 1)
    of_clients = [
        Link(client, number, (_client_proxy(addresses, client, number),), toxiproxy) for client in CLIENTS for number in numbers
    ]
    of_brokers = [
        Link(f"broker-{source}", target, tuple(_peer_proxies(addresses, source, target)), toxiproxy)
        for source in numbers
        for target in numbers
    ]
    return (*of_clients, *of_brokers)


def service_links(addresses: Addresses, services: Mapping[str, Address], toxiproxy: Toxiproxy) -> tuple[Link, ...]:
    """Make the links from each client group to each service."""
    return tuple(
        Link(client, 0, (_service_proxy(addresses, client, number, name, upstream),), toxiproxy, service=name)
        for client in CLIENTS
        for number, (name, upstream) in enumerate(services.items(), start=1)
    )


def _service_proxy(addresses: Addresses, client: str, number: int, name: str, upstream: Address) -> ProxySpec:
    link = f"{client}->service({name})"
    return ProxySpec(f"{client}-to-service-{name}", addresses.to_service(client, number), upstream, link, raw=True)


def _client_proxy(addresses: Addresses, client: str, number: int) -> ProxySpec:
    upstream = addresses.broker(number), addresses.client_port(client)
    return ProxySpec(f"{client}-to-broker-{number}", addresses.client(client, number), upstream, f"{client}->broker-{number}")


def _peer_proxies(addresses: Addresses, source: int, target: int) -> Iterator[ProxySpec]:
    for role, port in (("internal", INTERNAL_PORT), ("controller", CONTROLLER_PORT)):
        listen = addresses.peer(source, target), port
        upstream = addresses.broker(target), port
        yield ProxySpec(f"broker-{source}-to-broker-{target}-{role}", listen, upstream, f"broker-{source}->broker-{target}")
