"""An audit by keys with its accelerators, and without them: the findings must be the same."""

from collections.abc import Sequence

import pytest

from chaos.audit import identity as audit_identity
from chaos.audit import prepared
from chaos.audit.judge import judge
from chaos.audit.logs import Logs
from chaos.audit.prepared import Prepared
from chaos.matching.fast import PLAIN
from verifiers.base import Finding
from verifiers.single_scan.groups import Limits


def asked_and_found(logs: Logs, limits: Limits) -> tuple[Prepared, Sequence[Finding]]:
    """The queries by key, and the findings."""
    asked = prepared.by_key(logs, audit_identity.model("identity"), limits=limits)
    return asked, judge(logs, asked)


def require_findings_of_joins(logs: Logs, limits: Limits, rows: int) -> None:
    """Require the findings of joins, to the letter, and that each of the sink's rows is judged or known to be right."""
    asked, found = asked_and_found(logs, limits)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(PLAIN, "1")
        joined, expected = asked_and_found(logs, limits)

    assert joined.beyond is None
    assert found == expected
    assert asked.beyond is None or asked.evidence.observed.count() + asked.beyond.records == rows
