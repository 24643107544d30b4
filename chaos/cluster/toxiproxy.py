"""Toxiproxy, through its own Python client, with additions: a timeout, and an error for every bad answer.

``toxiproxy-python`` (0.1.1, ``toxiproxy/api.py``) keeps host and port in one class for the whole process, waits for ever, and
accepts a status of 500, so every call goes through `Toxiproxy` here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from chaos.cluster.addresses import Address
from chaos.common import clock
from chaos.common.errors import InjectionError

_TIMEOUT_S = 5.0
_PERMANENT = "kafka"
_REFUSED = (requests.RequestException, InvalidToxic, NotFound, ProxyExists)


@dataclass(frozen=True, slots=True)
class ProxySpec:
    """One proxy; its name is safe in a URL.

    Attributes:
        link: the name of the link that it is a part of.
        raw: whether the protocol is not Kafka's, so that nothing in it is taken for a request.
    """

    name: str
    listen: Address
    upstream: Address
    link: str = ""
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Toxic:
    """One toxic, in Toxiproxy's own terms.

    Attributes:
        type: ``latency``, ``timeout``, ``kafka``, …
        stream: ``upstream`` (client to server) or ``downstream``.
    """

    name: str
    type: str
    stream: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Toxiproxy:
    """The API of one server. Every call raises InjectionError when the server does not answer, or refuses."""

    def __init__(self, address: Address) -> None:
        self.address = address
        APIConsumer.host, APIConsumer.port = address

    def wait_until_ready(self) -> None:
        clock.wait_until(self.version, within_s=10, reason="Toxiproxy's API to answer", ignore=(InjectionError,))

    def version(self) -> str:
        return str(self._ask("ask for the version", lambda: APIConsumer.get("/version", timeout=_TIMEOUT_S)).text.strip())

    def populate(self, proxies: Iterable[ProxySpec]) -> None:
        """Create all proxies, each with a `kafka` toxic as the first toxic of both directions."""
        specs = list(proxies)
        body = [_proxy_json(spec) for spec in specs]
        self._ask("create the proxies", lambda: APIConsumer.post("/populate", json=body, timeout=_TIMEOUT_S))
        for spec in specs:
            for stream in ("upstream", "downstream"):
                self.add(spec.name, Toxic(f"kafka_{stream}", "kafka", stream, _identity(spec, stream)))

    def add(self, proxy: str, toxic: Toxic) -> None:
        """Add a toxic to a proxy; it also affects connections that are open already."""
        body = {"name": toxic.name, "type": toxic.type, "stream": toxic.stream, "attributes": dict(toxic.attributes)}
        self._ask(
            f"add {toxic.name} to {proxy}", lambda: APIConsumer.post(f"/proxies/{proxy}/toxics", json=body, timeout=_TIMEOUT_S)
        )

    def remove(self, proxy: str, name: str) -> None:
        """Remove a toxic, if it is there."""
        try:
            self._ask(
                f"remove {name} from {proxy}", lambda: APIConsumer.delete(f"/proxies/{proxy}/toxics/{name}", timeout=_TIMEOUT_S)
            )
        except InjectionError as error:
            if not isinstance(error.__cause__, NotFound):
                raise

    def enable(self, proxy: str, *, enabled: bool) -> None:
        """Open a proxy, or close its listener and all of its connections."""
        self._ask(
            f"{'enable' if enabled else 'disable'} {proxy}",
            lambda: APIConsumer.post(f"/proxies/{proxy}", json={"enabled": enabled}, timeout=_TIMEOUT_S),
        )

    def read(self, proxy: str, toxic: str) -> Mapping[str, Any]:
        """Current attributes of a toxic; those of a `kafka` toxic are its counters."""
        path = f"/proxies/{proxy}/toxics/{toxic}"
        attributes: Mapping[str, Any] = self._ask(
            f"read {toxic} of {proxy}", lambda: APIConsumer.get(path, timeout=_TIMEOUT_S)
        ).json()["attributes"]
        return attributes

    def change(self, proxy: str, toxic: str, attributes: Mapping[str, Any]) -> None:
        """Give a toxic other attributes; connections stay open."""
        body = {"attributes": dict(attributes)}
        path = f"/proxies/{proxy}/toxics/{toxic}"
        self._ask(f"change {toxic} of {proxy}", lambda: APIConsumer.post(path, json=body, timeout=_TIMEOUT_S))

    def disturbed(self) -> list[str]:
        """Problems between scenarios: closed proxies, and toxics other than `kafka`."""
        proxies = self._ask("list the proxies", lambda: APIConsumer.get("/proxies", timeout=_TIMEOUT_S)).json()
        closed = [f"{name} is closed" for name, proxy in proxies.items() if not proxy["enabled"]]
        toxics = [
            f"{name} has {toxic['name']}"
            for name, proxy in proxies.items()
            for toxic in proxy["toxics"]
            if toxic["type"] != _PERMANENT
        ]
        return closed + toxics

    def _ask(self, action: str, call: Callable[[], requests.Response]) -> requests.Response:
        try:
            response = call()
            response.raise_for_status()
        except _REFUSED as error:
            host, port = self.address
            raise InjectionError(f"Toxiproxy at {host}:{port} could not {action}: {error}") from error
        return response


def _identity(spec: ProxySpec, stream: str) -> dict[str, Any]:
    """Return the fixed attributes of a `kafka` toxic."""
    return {"link": spec.link, "stream": stream, **({"raw": True} if spec.raw else {})}


def _proxy_json(spec: ProxySpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "listen": f"{spec.listen[0]}:{spec.listen[1]}",
        "upstream": f"{spec.upstream[0]}:{spec.upstream[1]}",
        "enabled": True,
    }
