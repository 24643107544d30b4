"""All verifiers: our own, those of other packages (docs/plugins.md), and two that judge no log.

`progress` judges the history, and `transactions` the internal topics of the cluster.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import verifiers.precedence
from chaos.common.plugins import UnfitError, installed
from verifiers.base import Verifier
from verifiers.evidence import VIEWS
from verifiers.transactions.verifier import Transactions

PROGRESS = "progress"
GUARANTEE_OF_PROGRESS = "the pipeline goes on after a fault"
ANOMALIES_OF_PROGRESS: Mapping[str, str] = {
    "slow recovery": "the time from a fault's injection to the end of the longest standstill after it was longer than "
    "``recovery_slo``",
    "no recovery": "after a fault the output stood still for longer than ``recovery_slo`` and until the end of the run, "
    "before the whole workload had passed",
    "blocked": "the last stable offset of a partition stood still for longer than ``recovery_slo``, with records above it: a "
    "transaction was open (KAFKA-10167), and read_committed readers waited for its end",
}
"""Anomaly -> definition; other verifiers define their own."""


def _made(name: str, thing: Any) -> Verifier:
    """Create the verifier of a class without arguments.

    Raises:
        UnfitError: the class is not that of a verifier.
    """
    if not isinstance(thing, type):
        raise UnfitError("it is not a class; name the class of the verifier")
    verifier: Verifier = thing()
    lacking = [what for what, is_there in _WANTED.items() if not is_there(verifier)]
    if lacking:
        raise UnfitError(f"{thing.__name__} is not a verifier: it needs {', '.join(lacking)}; see verifiers/base.py")
    if verifier.name != name:
        raise UnfitError(f"{thing.__name__} has the name {verifier.name!r}; give it the name of the entry point")
    return verifier


def _subset(of: Mapping[str, object], attribute: str) -> Callable[[object], bool]:
    def is_there(one: object) -> bool:
        found = getattr(one, attribute, None)
        return isinstance(found, set | frozenset) and found <= of.keys()

    return is_there


_SUBJECTS = dict.fromkeys(("source", "sink"))
_WANTED: Mapping[str, Callable[[Any], bool]] = {
    "`name`": lambda one: hasattr(one, "name"),
    "`guarantee`, a text": lambda one: isinstance(getattr(one, "guarantee", None), str),
    "`subjects`, a set of source and sink": lambda one: _subset(_SUBJECTS, "subjects")(one) and bool(one.subjects),
    f"`views`, a set of {', '.join(VIEWS)}": _subset(VIEWS, "views"),
    "`anomalies`, at least one": lambda one: bool(getattr(one, "anomalies", ())),
    "`check(evidence)`": lambda one: callable(getattr(one, "check", None)),
}
"""A part of `verifiers.base.Verifier` -> whether an object has it."""

TRANSACTIONS = "transactions"
PRECEDENCE = verifiers.precedence.Precedence().name
BY_TRANSACTIONS = Transactions()
"""The verifier that needs no model (`expected: transactions`)."""

PLUGINS = installed("chaos.verifiers", (*verifiers.VERIFIERS, TRANSACTIONS, PROGRESS), _made)
OF_LOGS: Mapping[str, Verifier] = {**verifiers.VERIFIERS, **PLUGINS.things}
"""Name -> verifier that judges a log."""
NAMES = (*OF_LOGS, TRANSACTIONS, PROGRESS)
"""All names, in the order of reports."""
if TYPE_CHECKING:
    VerifierName = str
else:
    VerifierName = Literal[NAMES]


def role_of(subject: str) -> str:
    """Return the role of a log for verifiers: a topic that is filled beside the source is judged as a source."""
    return "sink" if subject == "sink" else "source"


def anomalies_of(name: str) -> tuple[str, ...]:
    """Return the names of the anomalies of a verifier."""
    if name == PROGRESS:
        return tuple(ANOMALIES_OF_PROGRESS)
    return BY_TRANSACTIONS.anomalies if name == TRANSACTIONS else OF_LOGS[name].anomalies
