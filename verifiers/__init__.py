"""Verifiers: each judges one guarantee of a log from landed Parquet, without knowing faults or pipelines."""

from collections.abc import Mapping

from verifiers.atomicity import Atomicity
from verifiers.base import Verifier
from verifiers.commits import Commits
from verifiers.deliveries import Deliveries
from verifiers.duplicates import Duplicates
from verifiers.gaps import Gaps
from verifiers.hanging import Hanging
from verifiers.ledger import Ledger
from verifiers.offsets import Offsets
from verifiers.ordering import Ordering
from verifiers.outcomes import Outcomes
from verifiers.precedence import Precedence
from verifiers.stability import Stability
from verifiers.values import Values

_ALL: tuple[Verifier, ...] = (
    Duplicates(),
    Gaps(),
    Ordering(),
    Values(),
    Atomicity(),
    Offsets(),
    Ledger(),
    Stability(),
    Hanging(),
    Outcomes(),
    Deliveries(),
    Commits(),
    Precedence(),
)
VERIFIERS: Mapping[str, Verifier] = {verifier.name: verifier for verifier in _ALL}

__all__ = ["VERIFIERS"]
