"""Toxiproxy, through its own Python client, with what that client leaves out: a timeout and an error for every answer.

``toxiproxy-python`` keeps host and port in one class for the whole process, waits for ever and takes a 500 for an answer
(0.1.1, ``toxiproxy/api.py``), so every call goes through `Toxiproxy` here.
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
_ALWAYS_THERE = "kafka"
_REFUSED = (requests.RequestException, InvalidToxic, NotFound, ProxyExists)


@dataclass(frozen=True, slots=True)
class ProxySpec:
    """One proxy: a name that is safe in a URL, where it listens, where it leads, and the link that it is a part of."""

    name: str
    listen: Address
    upstream: Address
    link: str = ""


@dataclass(frozen=True, slots=True)
class Toxic:
    """One toxic, in Toxiproxy's own words.

    Attributes:
        type: ``latency``, ``timeout``, ``kafka``, …
        stream: ``upstream`` (client to server) or ``downstream``.
    """

    name: str
    type: str
    stream: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Toxiproxy:
    """One server's API."""

    def __init__(self, address: Address) -> None:
        """Aim the client at a server."""
        self.address = address
        APIConsumer.host, APIConsumer.port = address

    def wait_until_ready(self) -> None:
        """Return when the API answers."""
        clock.wait_until(self.version, within_s=10, reason="Toxiproxy's API to answer", ignore=(InjectionError,))

    def version(self) -> str:
        """The server's version."""
        return str(self._ask("ask for the version", lambda: APIConsumer.get("/version", timeout=_TIMEOUT_S)).text.strip())

    def populate(self, proxies: Iterable[ProxySpec]) -> None:
        """Make all proxies, each with a `kafka` toxic as the first toxic of both directions."""
        specs = list(proxies)
        body = [_proxy_json(spec) for spec in specs]
        self._ask("make the proxies", lambda: APIConsumer.post("/populate", json=body, timeout=_TIMEOUT_S))
        for spec in specs:
            for stream in ("upstream", "downstream"):
                self.add(spec.name, Toxic(f"kafka_{stream}", "kafka", stream, {"link": spec.link, "stream": stream}))

    def add(self, proxy: str, toxic: Toxic) -> None:
        """Add a toxic to a proxy; it works on living connections too."""
        body = {"name": toxic.name, "type": toxic.type, "stream": toxic.stream, "attributes": dict(toxic.attributes)}
        self._ask(
            f"add {toxic.name} to {proxy}", lambda: APIConsumer.post(f"/proxies/{proxy}/toxics", json=body, timeout=_TIMEOUT_S)
        )

    def remove(self, proxy: str, name: str) -> None:
        """Remove a toxic; nothing happens when it is not there."""
        try:
            self._ask(
                f"remove {name} from {proxy}", lambda: APIConsumer.delete(f"/proxies/{proxy}/toxics/{name}", timeout=_TIMEOUT_S)
            )
        except InjectionError as error:
            if not isinstance(error.__cause__, NotFound):
                raise

    def enable(self, proxy: str, *, enabled: bool) -> None:
        """Open a proxy, or close its listener and all its connections."""
        self._ask(
            f"{'enable' if enabled else 'disable'} {proxy}",
            lambda: APIConsumer.post(f"/proxies/{proxy}", json={"enabled": enabled}, timeout=_TIMEOUT_S),
        )

    def read(self, proxy: str, toxic: str) -> Mapping[str, Any]:
        """The attributes of a toxic as they are now; a `kafka` toxic's are its counters."""
        path = f"/proxies/{proxy}/toxics/{toxic}"
        attributes: Mapping[str, Any] = self._ask(
            f"read {toxic} of {proxy}", lambda: APIConsumer.get(path, timeout=_TIMEOUT_S)
        ).json()["attributes"]
        return attributes

    def change(self, proxy: str, toxic: str, attributes: Mapping[str, Any]) -> None:
        """Give a toxic other attributes; connections live on."""
        body = {"attributes": dict(attributes)}
        path = f"/proxies/{proxy}/toxics/{toxic}"
        self._ask(f"change {toxic} of {proxy}", lambda: APIConsumer.post(path, json=body, timeout=_TIMEOUT_S))

    def disturbed(self) -> list[str]:
        """What is not as it should be between scenarios: proxies that are closed, toxics that are not always there."""
        proxies = self._ask("list the proxies", lambda: APIConsumer.get("/proxies", timeout=_TIMEOUT_S)).json()
        closed = [f"{name} is closed" for name, proxy in proxies.items() if not proxy["enabled"]]
        toxics = [
            f"{name} has {toxic['name']}"
            for name, proxy in proxies.items()
            for toxic in proxy["toxics"]
            if toxic["type"] != _ALWAYS_THERE
        ]
        return closed + toxics

    def _ask(self, what: str, call: Callable[[], requests.Response]) -> requests.Response:
        try:
            response = call()
            response.raise_for_status()
        except _REFUSED as error:
            host, port = self.address
            raise InjectionError(f"Toxiproxy at {host}:{port} could not {what}: {error}") from error
        return response


def _proxy_json(spec: ProxySpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "listen": f"{spec.listen[0]}:{spec.listen[1]}",
        "upstream": f"{spec.upstream[0]}:{spec.upstream[1]}",
        "enabled": True,
    }
