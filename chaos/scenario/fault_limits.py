"""Checks for faults that no pipeline survives.

Only a certain mistake is an error when the file is read; everything else is left to the run.
"""

from collections.abc import Iterator
from itertools import combinations

from chaos.faults.base import FaultBase
from chaos.faults.broker_disks import PowerLoss
from chaos.faults.leadership import UncleanElection
from chaos.faults.network_partitions import PartitionNetwork
from chaos.grammar.base import Message, Problem, within
from chaos.grammar.triggers import After, AfterFault, Progress
from chaos.grammar.units import spoken_seconds
from chaos.scenario.model import Scenario
from chaos.scenario.system import SystemSpec

_PATIENCE_S = 45.0  # well below the limits of phases (chaos.engine.run_plan), because recovery takes time, too
_FEWEST_IN_A_RING = 4
_WAIT = f"clients wait for about {spoken_seconds(_PATIENCE_S)}"
_RING = (
    "in a ring of {brokers} brokers every broker sees all others, so nothing would be cut; "
    "write system: {{kafka: {{brokers: 5}}}}, or shape: split"
)
_UNCLEAN = (
    "an unclean election discards acknowledged records, so this scenario cannot be valid; "
    "declare the anomaly, e.g. expect: {gaps: invalid}"
)
_NO_POWER = (
    "when all brokers lose power, acknowledged records that were not flushed are lost, so this scenario cannot be valid; "
    "declare the anomaly, e.g. expect: {ledger: {not written: some}}"
)
_ALL_DOWN = (
    f"all brokers are down for {{down}}, and {_WAIT}, so this scenario cannot be valid; let them be down for a shorter time"
)
_TWO_DOWN = (
    f"{{name}} keeps {{other}} down at the same time: both are down for {{both}}, {_WAIT}, and min ISR 2 of 3 tolerates "
    "the loss of one broker only; let the two faults overlap for a shorter time"
)
_TWO_MAY_BE_DOWN = (
    f"{{name}} ({{other}}) may keep another broker down at the same time: then two are down for {{both}}, {_WAIT}, and min ISR "
    "2 of 3 tolerates the loss of one broker only; "
    "let the two faults overlap for a shorter time, or write unsafe: true in the scenario"
)


def check(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    """Find every fault, and every two, that no pipeline survives, with its location in the scenario."""
    brokers = system.kafka.brokers
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, PartitionNetwork) and fault.shape == "ring" and brokers < _FEWEST_IN_A_RING:
            yield ("faults", number, "shape"), Message("ring-too-small", _RING.format(brokers=brokers))
    if scenario.expect == "valid":
        for number, fault in enumerate(scenario.faults):
            yield from within(("faults", number), _too_much(scenario, fault))
        yield from _too_much_together(scenario)


def _too_much(scenario: Scenario, fault: FaultBase) -> Iterator[Problem]:
    if isinstance(fault, UncleanElection):
        yield ("kind",), Message("unclean-yet-valid", _UNCLEAN)
    logs = {name for name in scenario.used if name in scenario.topics}
    if isinstance(fault, PowerLoss) and fault.target.role == "all" and not logs <= {*fault.flushed}:
        yield ("target",), Message("power-loss-yet-valid", _NO_POWER)
    elif fault.down_s > _PATIENCE_S and any(target.role == "all" for target in fault.broker_targets):
        text = _ALL_DOWN.format(down=spoken_seconds(fault.down_s))
        yield ("for" if hasattr(fault, "for_s") else "restart_after",), Message("all-down-too-long", text)


def _too_much_together(scenario: Scenario) -> Iterator[Problem]:
    """Refuse two brokers that are down at the same time: certainly, if both and their times are named, else possibly."""
    downs = [
        (number, fault, *_begins(scenario, fault))
        for number, fault in enumerate(scenario.faults)
        if fault.down_s > 0 and fault.broker_targets
    ]
    for (_, first, since, begin_s), (number, second, other_since, other_begin_s) in combinations(downs, 2):
        overlap_s = min(first.down_s, second.down_s)  # at most, because their beginnings are not known
        if since == other_since:
            overlap_s = min(begin_s + first.down_s, other_begin_s + second.down_s) - max(begin_s, other_begin_s)
        named = all(target.role == "broker" for target in (*first.broker_targets, *second.broker_targets))
        certain = named and isinstance(first.when, After) and isinstance(second.when, After)
        same = named and first.broker_targets == second.broker_targets
        if overlap_s > _PATIENCE_S and not same and (certain or not scenario.unsafe):
            known = {"name": first.name, "other": first.broker_targets[0], "both": spoken_seconds(round(overlap_s, 1))}
            if certain:
                yield ("faults", number, "target"), Message("two-down-too-long", _TWO_DOWN.format(**known))
            else:
                yield ("faults", number, "target"), Message("two-perhaps-down", _TWO_MAY_BE_DOWN.format(**known))


def _begins(scenario: Scenario, fault: FaultBase) -> tuple[str, float]:
    """Estimate the time of a fault: "" and seconds after the first output, or the fault that decides and seconds after it."""
    seen, later_s, first = {fault.name}, 0.0, fault
    while isinstance(when := first.when, AfterFault):
        followed = next((other for other in scenario.faults if other.name == when.fault and other.name not in seen), None)
        if followed is None:
            return first.name, later_s
        seen.add(followed.name)
        later_s, first = later_s + when.after_s, followed
    if isinstance(when, After):
        return "", later_s + when.after_s
    if isinstance(when, Progress):
        return "", later_s + when.percent / 100 * scenario.workload.loading_s
    return first.name, later_s
