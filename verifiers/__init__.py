"""What must hold: verifiers that judge a log from landed Parquet, and know neither faults nor pipelines."""

from collections.abc import Mapping

from verifiers.base import Verifier
from verifiers.duplicates import Duplicates
from verifiers.gaps import Gaps
from verifiers.ordering import Ordering
from verifiers.values import Values

VERIFIERS: Mapping[str, Verifier] = {verifier.name: verifier for verifier in (Duplicates(), Gaps(), Ordering(), Values())}

__all__ = ["VERIFIERS"]
