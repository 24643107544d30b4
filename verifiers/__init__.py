"""Verifiers: each judges one guarantee of a log from landed Parquet, without knowing faults or pipelines.

`audit` judges two DataFrames of any Spark session by the same definitions::

    report = verifiers.audit(source, sink, key="order_id")
    assert report.valid, report
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from verifiers.frames import AuditError, Report, audit

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

_OF_FRAMES = frozenset({"AuditError", "Report", "audit"})

__all__ = ["VERIFIERS", "AuditError", "Report", "audit"]


def __getattr__(name: str) -> Any:
    """Import what `audit` needs at its first use: most users of this package need it never."""
    if name not in _OF_FRAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("verifiers.frames"), name)
