"""A wire without brokers: links, and request rules that intercept what the test sends."""

from dataclasses import dataclass, field, replace
from threading import Lock
from types import SimpleNamespace

from chaos.cluster.links import Pulled, Traffic
from chaos.cluster.rules import Interception, Rule
from chaos.cluster.toxiproxy import ProxySpec
from chaos.faults.base import FaultContext

SETTLED = {"deliver": "delivered", "drop": "dropped", "close": "closed"}


@dataclass(frozen=True)
class FakeLink:
    """One ordered pair."""

    source: str
    broker: int
    service: str = ""

    @property
    def name(self):
        return f"{self.source}->{self.target}"

    @property
    def target(self):
        return f"service({self.service})" if self.service else f"broker-{self.broker}"


LISTEN, UPSTREAM = ("127.0.0.1", 1), ("127.0.0.1", 2)


@dataclass
class UsedLink:
    """A link with one proxy, and clients whose traffic the test decides.

    Attributes:
        passes: what its clients send within a look at it: stream -> (bytes, chunks).
        cuts: how many of their connections a toxic has cut so far.
        done: what was done to the link, in order.
    """

    name: str = "app->broker-1"
    passes: dict = field(default_factory=lambda: {"up": (100, 1), "down": (100, 1)})
    cuts: int = 0
    done: list = field(default_factory=list)
    pulled: Pulled = field(default_factory=Pulled)
    proxies: tuple = (ProxySpec("app-to-broker-1", LISTEN, UPSTREAM),)
    source: str = "app"
    broker: int = 1
    service: str = ""
    total: dict = field(default_factory=lambda: {"up": (0, 0), "down": (0, 0)})

    @property
    def target(self):
        """As `chaos.cluster.links.Link.target`."""
        return self.name.partition("->")[2]

    def traffic(self, stream):
        """As `chaos.cluster.links.Link.traffic`."""
        self.total[stream] = tuple(so_far + more for so_far, more in zip(self.total[stream], self.passes[stream], strict=True))
        return Traffic(*self.total[stream])

    def bytes_seen(self, stream="both"):
        return sum(self.traffic(one).bytes for one in (("up", "down") if stream == "both" else (stream,)))

    def connections_cut(self, _name, _stream):
        return self.cuts

    def connections(self):
        return 1

    def swallowed(self, _name, _stream):
        return 100

    def add(self, name, toxic, stream, attributes):
        self.done.append(("add", name, toxic, stream, attributes))

    def remove(self, name, stream):
        self.done.append(("remove", name, stream))

    def cut(self, by):
        self.done.append(("cut", by))

    def mend(self, by):
        self.done.append(("mend", by))


def links(brokers=2):
    """The links of two clients to each broker, and of each broker to each."""
    ids = range(1, brokers + 1)
    sources = ("app", "loader", *(f"broker-{broker}" for broker in ids))
    return tuple(FakeLink(source, broker) for source in sources for broker in ids)


def interception(link="app->broker-1", api="EndTxn", **changes):
    """A request that is held now."""
    held = Interception(link, api, 3, 17, "a", "app-0", 5_000_000, 0, 0, 0, "held", None)
    return replace(held, **changes)


@dataclass
class FakeRules:
    """As `chaos.cluster.rules.RequestRules`.

    Attributes:
        sends: the request that comes as soon as a rule is armed; None when none comes.
        done: what was done to the rules, in order.
        refuses: a method -> what it raises.
        seen_ids: link -> the transactional id that it has carried last.
    """

    sends: Interception | None = field(default_factory=interception)
    unreadable: int = 0
    passed: int = 0
    seen_ids: dict = field(default_factory=dict)
    done: list = field(default_factory=list)
    refuses: dict = field(default_factory=dict)
    armed: dict[str, Rule] = field(default_factory=dict)
    intercepted: dict[str, list[Interception]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def arm(self, name, rule):
        own = f"{name}#{len(self.done)}"
        self._did("arm", name)
        self.armed[own] = rule
        if self.sends:
            self.intercepted[own] = [self.sends]
        return own

    def release(self, name, how):
        self._did(how, name)
        self._settle(name, SETTLED[how])

    def disarm(self, *names):
        for name in names:
            self._did("disarm", name)
            self.armed.pop(name, None)
            self._settle(name, "delivered")

    def interceptions(self, name):
        return list(self.intercepted.get(name, []))

    def sent(self, _api, _links):
        return self.passed

    def transactional_id(self, links):
        return next((self.seen_ids[link] for link in links if link in self.seen_ids), "")

    def unparsed(self, _links):
        return self.unreadable

    def _settle(self, name, outcome):
        with self.lock:
            self.intercepted[name] = [
                replace(one, outcome=outcome) if one.outcome == "held" else one for one in self.intercepted.get(name, [])
            ]

    def _did(self, what, name):
        self.done.append((what, name.split("#")[0]))
        if what in self.refuses:
            raise self.refuses[what]


@dataclass
class FakeHeldRequest:
    """A request that a trigger holds; `answers` is what is known of it once it was let go."""

    known: Interception | None
    answers: dict = field(default_factory=dict)
    name: str = "request#1"
    done: list = field(default_factory=list)

    def interception(self):
        return self.known

    def let_go(self, how):
        self.done.append(how)
        if self.known:
            self.known = replace(self.known, **{"outcome": SETTLED[how]} | self.answers)

    def remove(self):
        self.done.append("remove")


@dataclass
class Processes:
    """The processes of foreign brokers, of which none is known."""

    processes: dict = field(default_factory=dict)
    ended: list = field(default_factory=list)

    def down(self):
        return self.ended


def context(rules, **changes):
    """Two brokers, all links, and these request rules; `app` is under test."""
    system = SimpleNamespace(rules=rules, links=links(), kafka=SimpleNamespace(broker_ids=(1, 2), brokers=Processes()))
    return FaultContext(system, {}, client="app", **changes)
