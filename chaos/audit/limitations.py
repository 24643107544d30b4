"""Doubts: where an audit cannot tell what is wrong from what it could not see.

    open transaction   in the source it hides records that may demand more: `gaps`, `values` and `offsets` are UNKNOWN at best
    retention          what was answered before the source's begin is `phantom`; what was written before the sink's begin is
                       `lost`, and `behind`
    a live pipeline    its positions moved while the ends were asked for: what it wrote meanwhile is `ahead`

The verifiers cannot tell rows of the last two from wrong ones. A finding that counts nothing else is UNKNOWN; anything else it
counts is wrong for certain, and it stays INVALID. Folders know neither a begin nor an open transaction: they have no doubts.

Easily confused with a doubt: an open transaction in the sink. The verifiers know of it themselves (`verifiers.findings`).
"""

from collections.abc import Mapping
from dataclasses import replace

from chaos.audit.logs import Ends, Logs
from verifiers.base import Finding, Verdict
from verifiers.findings import open_transaction

_DEMANDING = frozenset({"gaps", "offsets", "values"})
_MOVED = "the pipeline is at work: its positions moved while the ends were asked for, what it wrote meanwhile is called ahead"


def doubted(finding: Finding, logs: Logs) -> Finding:
    """The finding with the doubts that concern it in its note; the one place where INVALID can become UNKNOWN."""
    hidden = open_transaction(logs.source_ends) if finding.verifier in _DEMANDING else ""
    excuses = {kind: why for kind, why in _excuses(finding.verifier, logs).items() if why and finding.counts.get(kind)}
    certain = finding.count - sum(finding.counts[kind] for kind in excuses)
    verdict = finding.verdict if certain else min(finding.verdict, Verdict.UNKNOWN)
    if hidden or excuses:
        verdict = max(verdict, Verdict.UNKNOWN)
    notes = (finding.note, f"in the source, {hidden}" if hidden else "", *excuses.values())
    return replace(finding, verdict=verdict, note="; ".join(filter(None, notes)))


def _excuses(verifier: str, logs: Logs) -> Mapping[str, str]:
    """Which anomalies of a verifier may be none, and why; empty words where there is no reason to think so."""
    if verifier == "values":
        return {"phantom": _expired("source", logs.source_ends, "what was answered before that is called phantom")}
    if verifier == "gaps":
        return {"lost": _expired("sink", logs.sink_ends, "what was written before that is called lost")}
    if verifier == "offsets":
        behind = _expired("sink", logs.sink_ends, "what was written before that is called behind")
        return {"behind": behind, "ahead": _MOVED if logs.moved else ""}
    return {}


def _expired(log: str, ends: Ends, what: str) -> str:
    """Where a log begins above 0: the first partition, and how many more."""
    begins = [(number, one.low) for number, one in sorted(ends.items()) if one.low > 0]
    if not begins:
        return ""
    (number, low), *others = begins
    more = f" (and above 0 in {len(others)} more)" if others else ""
    return f"the {log} begins at offset {low} of partition {number}{more}: {what}"
