"""The order of rows, as far as it is known: of copies that repeat and differ, nothing shows which came first."""

from dataclasses import replace

from chaos.audit.logs import Logs
from chaos.audit.prepared import Prepared
from verifiers import arrow
from verifiers.base import Evidence, Finding
from verifiers.details import joined
from verifiers.ordering import Ordering
from verifiers.single_scan import islands, runs
from verifiers.single_scan.groups import decoded, longs
from verifiers.single_scan.runs import Runs


def of_parts(asked: Prepared, beyond: Runs, logs: Logs) -> Finding:
    """Judge the order of the evidence and of the rows outside it; if rows are late, only of those whose order is known."""
    evidence, lines = asked.evidence, len(asked.evidence.bounds)
    with_place = decoded(evidence.observed).where(f"id % {lines} < {lines - 1}")  # the last line is that of other keys
    found, places = beyond.merge(islands.cut(with_place, lines)), 0
    wrong = runs.disorder_of(found)
    if asked.unordered is not None and len(wrong):
        uncertain = arrow.table(asked.unordered)
        found, places = found.without(*longs(uncertain, "partition", "offset")), len(uncertain)
        wrong = runs.disorder_of(found)
    ordered = Ordering().found(evidence, found.records, wrong, (evidence, replace(evidence, observed=logs.sink)))
    return _without(places, ordered, evidence) if places else ordered


def of_certain_order(finding: Finding, asked: Prepared) -> Finding:
    """Judge order again without the rows whose order is unknown; without late rows nothing is uncertain."""
    if asked.unordered is None or asked.beyond is not None or finding.verifier != "ordering" or not finding.count:
        return finding
    evidence, places = asked.evidence, asked.unordered.persist()
    if not places.take(1):
        return finding
    kept = evidence.observed.join(places, ["partition", "offset"], "left_anti").select(*evidence.observed.columns)
    return _without(places.count(), Ordering().check(replace(evidence, observed=kept)), evidence)


def _without(places: int, ordered: Finding, evidence: Evidence) -> Finding:
    """Add to the finding about order how many rows it leaves out."""
    where = ", or in several partitions" if evidence.anywhere else ""
    why = f"the order of {places} rows was not judged: their keys repeat, and some copies are missing, extra or wrong{where}"
    return replace(ordered, counts={**ordered.counts, "unordered": places}, note=joined((ordered.note, why)))
