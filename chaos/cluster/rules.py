"""Request rules of the `kafka` toxic (toxiproxy/kafka/): the frames to stop, the action on them, and its outcome.

Every link carries the toxic in both directions from the start, and all toxics of a server share their rules: one call to any of
them arms a rule. ``nth`` counts the matching frames, over all links of the rule, since the arming.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from chaos.cluster.toxiproxy import Toxiproxy

TOXIC = "kafka_upstream"
ANSWERABLE = (
    "Produce",
    "Fetch",
    "Metadata",
    "FindCoordinator",
    "Heartbeat",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
)
"""The requests that the toxic can answer. A rule neither counts nor stops requests in which a client would not see an error:
a Produce with acks=0, and a Metadata that names no topics or comes before a broker has answered one on the same link."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The frames to stop, and the action on them.

    Attributes:
        api: Kafka's name of the request.
        at: ``request`` or ``response``.
        links: names of links, e.g. ``spark->broker-1``.
        action: ``hold`` (the frame dies with its connection), ``late`` (it is delivered although its client has gone) or
            ``answer`` (the toxic answers a request in the broker's place, which never sees it).
        nth: the first frame that is stopped, counted from 1; times: number of frames from there on, 0 for all.
        client_id, transactional_id: globs; empty for any.
        max_hold_ms: time after which a held frame is delivered.
        error_code: the answer's error, in Kafka's numbers; for ``answer`` only, which is for requests of `ANSWERABLE` only.
    """

    api: str
    at: str
    links: Sequence[str]
    action: str = "hold"
    nth: int = 1
    times: int = 1
    client_id: str = ""
    transactional_id: str = ""
    max_hold_ms: int = 120_000
    error_code: int | None = None


@dataclass(frozen=True, slots=True)
class Interception:
    """One frame that a rule has stopped.

    Attributes:
        api, version, correlation_id, client_id, transactional_id: as on the wire.
        intercepted_ns: time of the stop, nanoseconds since the epoch.
        released_ns, client_gone_ns, answered_ns: nanoseconds since the epoch; 0 for an event that has not happened.
        outcome: held, delivered, dropped, closed, client gone, max_hold, answered (by the toxic) or unanswerable (delivered, as
            the toxic could not read the request).
        error_code: that of the answer, the broker's if it was read, or the toxic's.
    """

    link: str
    api: str
    version: int
    correlation_id: int
    client_id: str
    transactional_id: str
    intercepted_ns: int
    released_ns: int
    client_gone_ns: int
    answered_ns: int
    outcome: str
    error_code: int | None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts in the form of the history."""
        ids = {"client_id": self.client_id, "transactional_id": self.transactional_id}
        known = {name: value for name, value in ids.items() if value}
        frame = {"link": self.link, "api": self.api, "version": self.version, "correlation_id": self.correlation_id}
        return {**frame, **known}


class RequestRules:
    """The rules of one Toxiproxy server."""

    def __init__(self, toxiproxy: Toxiproxy, proxies: Mapping[str, Sequence[str]]) -> None:
        """Use the rules of a server.

        Args:
            proxies: link -> names of its proxies.
        """
        self._toxiproxy = toxiproxy
        self._proxies = proxies
        self._serial = count(1)
        self._before: Mapping[str, Mapping[str, Any]] = {}
        self._any = next(name for names in proxies.values() for name in names)

    def arm(self, name: str, rule: Rule) -> str:
        """Put a rule in force.

        Returns:
            The name for releasing, disarming and reading the rule. It is unique, because the server keeps the interceptions of
            removed rules, also those of another run with a fault of this name.
        """
        own = f"{name}#{next(self._serial)}"
        self._change({own: {field: getattr(rule, field) for field in Rule.__slots__} | {"links": list(rule.links)}})
        return own

    def release(self, name: str, how: str) -> None:
        """End a rule's hold of frames: ``deliver``, ``drop`` or ``close``; later frames pass."""
        self._change({name: {"release": how}})

    def disarm(self, *names: str) -> None:
        """Remove rules, and deliver the frames that they hold. Idempotent."""
        if names:
            self._change(dict.fromkeys(names))

    def armed(self) -> list[str]:
        return list(self._read()["rules"])

    def clear(self) -> None:
        self.disarm(*self.armed())

    def interceptions(self, name: str) -> list[Interception]:
        """Interceptions of a rule so far, also after its removal."""
        found = [shown for shown in self._read()["interceptions"] if shown["rule"] == name]
        return [Interception(**{field: shown[field] for field in Interception.__slots__}) for shown in found]

    def begin(self) -> None:
        """Restart the counts of `sent` and `unparsed`: a run begins."""
        names = [name for names in self._proxies.values() for name in names]
        self._before = {name: self._toxiproxy.read(name, TOXIC) for name in names}

    def sent(self, api: str, links: Sequence[str]) -> int:
        """Number of requests of a kind that these links have carried since `begin`."""
        return self._since(links, lambda read: int(read["counts"].get(api, {}).get("requests", 0)))

    def transactional_id(self, links: Sequence[str]) -> str:
        """The latest transactional id in requests on these links since `begin`; "" if there was none."""
        names = [name for link in links for name in self._proxies[link]]
        before = {(name, *seen) for name, read in self._before.items() for seen in _ids(read)}
        seen = [
            (at_ns, id_)
            for name in names
            for id_, at_ns in _ids(self._toxiproxy.read(name, TOXIC))
            if (name, id_, at_ns) not in before
        ]
        return max(seen)[1] if seen else ""

    def unparsed(self, links: Sequence[str]) -> int:
        """Number of connections on these links, since `begin`, that do not speak Kafka's protocol: rules cannot read them."""
        return self._since(links, lambda read: int(read["unparsed"]["connections"]))

    def starts(self) -> list[Mapping[str, Any]]:
        """Committed positions that readers received, on all links, in the toxic's form (toxiproxy/kafka/starts.go)."""
        return self._all("starts")

    def unfenced(self) -> list[Mapping[str, Any]]:
        """Positions of transactions that were sent without a generation of their group."""
        return self._all("unfenced_commits")

    def produced(self) -> list[tuple[str, int]]:
        """Sendings of rows in transactions: transactional id, and time in milliseconds."""
        names = [name for names in self._proxies.values() for name in names]
        seen = [self._toxiproxy.read(name, TOXIC)["produced_ms"] for name in names]
        return [(id_, at_ms) for of_link in seen for id_, times in of_link.items() for at_ms in times]

    def forgotten(self) -> Mapping[str, int]:
        """Name of a list (`starts`, `unfenced`, `produced`) that lacks its oldest entries -> up to when, in nanoseconds."""
        names = [name for names in self._proxies.values() for name in names]
        seen = [(self._toxiproxy.read(name, TOXIC)["forgotten_until_ns"] or {}).items() for name in names]
        return dict(sorted(one for of_link in seen for one in of_link))

    def _all(self, what: str) -> list[Mapping[str, Any]]:
        names = [name for names in self._proxies.values() for name in names]
        return [one for name in names for one in self._toxiproxy.read(name, TOXIC)[what]]

    def _since(self, links: Sequence[str], number: Callable[[Mapping[str, Any]], int]) -> int:
        names = [name for link in links for name in self._proxies[link]]
        now = sum(number(self._toxiproxy.read(name, TOXIC)) for name in names)
        return now - sum(number(self._before[name]) for name in names if name in self._before)

    def _read(self) -> Mapping[str, Any]:
        return self._toxiproxy.read(self._any, TOXIC)

    def _change(self, rules: Mapping[str, Any]) -> None:
        self._toxiproxy.change(self._any, TOXIC, {"rules": rules})


def _ids(read: Mapping[str, Any]) -> list[tuple[str, int]]:
    """List the transactional ids that a link has carried, and the last time of each, in nanoseconds."""
    return [(one["id"], int(one["seen_ns"])) for one in read["transactional_ids"]]
