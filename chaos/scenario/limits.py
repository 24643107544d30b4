"""The safety limit: what a scenario may break at once while it is expected to stay valid, as far as a file can tell.

Three replicas with min ISR 2 bear one broker that is down; so do three voters of the controller quorum. More at once is no
mistake by itself: everything is healed, and clients wait. It is one when ``expect: valid`` could not be kept:

* more brokers than one are down for longer than clients wait (`_PATIENCE_S`);
* power is lost on all brokers: what was acknowledged and not flushed is gone;
* an unclean election throws away what was acknowledged;
* two faults hit brokers that are named (``broker-1``, ``broker-2``), at moments that are named (``after: 5s``), and both stay
  down for longer than clients wait.

Two faults of roles, or of other moments, may meet in time and may not: who leads then is not written in the file. They are
let pass here; the run is UNKNOWN when the cluster does not recover.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

from chaos.faults.declared import Fault, broker_targets
from chaos.faults.declared.broker import KillBroker, LogDirFull, PauseBroker, PowerLoss, TerminateBroker, UncleanElection
from chaos.faults.declared.containers import Disconnect, Freeze, LimitDisk, OutOfMemory
from chaos.faults.declared.partition import PartitionNetwork
from chaos.grammar.triggers import After
from chaos.grammar.units import spoken_seconds
from chaos.scenario.model import Scenario

Wrong = tuple[tuple[str | int, ...], str]
_PATIENCE_S = 45.0  # the shortest limit of a phase is 60 s (chaos.engine.phases), and recovery itself takes its share of it
_FEWEST_IN_A_RING = 4
_WAIT = f"clients wait for about {spoken_seconds(_PATIENCE_S)}"
_RING = (
    "in a ring of {brokers} brokers each sees both neighbours, so nothing would be cut: "
    "write system: {{kafka: {{brokers: 5}}}}, or shape: split"
)
_UNCLEAN = (
    "an unclean election throws away what was acknowledged: this cannot be valid; "
    "say what must be found, e.g. expect: {gaps: invalid}"
)
_NO_POWER = (
    "when all brokers lose power, what was acknowledged and not flushed is lost: this cannot be valid; "
    "say what must be found, e.g. expect: {ledger: invalid}"
)
_ALL_DOWN = f"all brokers are down for {{down}}, and {_WAIT}: this cannot be valid; let them be down for a shorter time"
_TWO_DOWN = (
    f"{{name}} keeps {{other}} down at the same time, both for {{both}}, and {_WAIT}: min ISR 2 of 3 bears one broker less"
)
_Downing = KillBroker | TerminateBroker | PowerLoss | LogDirFull | PauseBroker | Disconnect | Freeze | OutOfMemory | LimitDisk


def beyond(scenario: Scenario, brokers: int) -> Iterator[Wrong]:
    """Every fault, or pair of faults, that breaks more than can be borne, with its place in the scenario."""
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, PartitionNetwork) and fault.shape == "ring" and brokers < _FEWEST_IN_A_RING:
            yield ("faults", number, "shape"), _RING.format(brokers=brokers)
        for key, message in _alone(fault) if _must_be_valid(scenario) else ():
            yield ("faults", number, key), message
    if _must_be_valid(scenario):
        yield from _together(scenario)


def _must_be_valid(scenario: Scenario) -> bool:
    return not isinstance(scenario.expect, Mapping) and scenario.expect == "valid"


def _alone(fault: Fault) -> Iterator[tuple[str, str]]:
    if isinstance(fault, UncleanElection):
        yield "kind", _UNCLEAN
    if isinstance(fault, PowerLoss) and fault.target.role == "all":
        yield "target", _NO_POWER
    elif isinstance(fault, _Downing) and fault.target.role == "all" and _down_s(fault) > _PATIENCE_S:
        yield _key(fault), _ALL_DOWN.format(down=spoken_seconds(_down_s(fault)))


def _together(scenario: Scenario) -> Iterator[Wrong]:
    named = [(number, fault) for number, fault in enumerate(scenario.faults) if _is_named(fault)]
    for (_, first), (number, second) in combinations(named, 2):
        overlap_s = _overlap_s(first, second)
        if broker_targets(first) != broker_targets(second) and overlap_s > _PATIENCE_S:
            other = broker_targets(first)[0]
            message = _TWO_DOWN.format(name=first.name, other=other, both=spoken_seconds(overlap_s))
            yield ("faults", number, "target"), message


def _is_named(fault: Fault) -> bool:
    return isinstance(fault, _Downing) and fault.target.role == "broker" and isinstance(fault.when, After)


def _overlap_s(first: Fault, second: Fault) -> float:
    ends_s = [_after_s(fault) + _down_s(fault) for fault in (first, second)]
    return min(ends_s) - max(_after_s(first), _after_s(second))


def _after_s(fault: Fault) -> float:
    return fault.when.after_s if isinstance(fault.when, After) else 0.0


def _down_s(fault: Fault) -> float:
    return float(getattr(fault, "restart_after_s", getattr(fault, "for_s", 0.0)))


def _key(fault: Fault) -> str:
    return "for" if isinstance(fault, PauseBroker | Disconnect | Freeze) else "restart_after"
