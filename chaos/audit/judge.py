"""Judge whether the sink is what the source demands: the findings of an audit, with keys, and with what it could not see.

The model gives the value of each row from that of its source record, and a row stays in the partition of its record, unless it
may be in any (`Evidence.anywhere`). The verifiers are those of scenarios (`verifiers.single_scan`). Without a consumer group
all of the source counts as processed, so every missing row is lost.

If the source's ids are not places, each log is a multiset (`chaos.audit.prepared`).

An audit cannot always distinguish an anomaly from what it could not see:

    open transaction   in the source it hides records that may demand more: `gaps`, `values` and `offsets` are UNKNOWN at best
    retention          rows that may answer expired records, and records whose rows may have expired, are left out of the
                       evidence, and counted in a note (`chaos.audit.expired`). If they are not left out, rows of records from
                       before the source's begin are `phantom`, and rows from before the sink's are `lost` and `behind`
    compaction         of the source: rows that may answer what it removed are left out of the evidence, and counted in a note;
                       of the sink: rows that it may have removed are `absent`, others that are missing are `lost`;
                       of both: a record and all its rows may be gone, so logs that agree are UNKNOWN
    a live pipeline    its positions moved while the ends were read: rows that it wrote meanwhile are `ahead`

Possible compaction makes a finding UNKNOWN at best. The verifiers cannot distinguish the effects of retention and of a live
pipeline from anomalies: a finding that counts only these is UNKNOWN, and one that counts anything else stays INVALID. Folders
have neither a begin nor an open transaction, so they leave no such doubt.

Easily confused with these: an open transaction in the sink. The verifiers know of it themselves (`verifiers.findings`).
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, Row

from chaos.audit import expired, order
from chaos.audit.dense_keys import dealt_in_turn
from chaos.audit.expired import Compared
from chaos.audit.logs import OWN, Fixed, Logs
from chaos.audit.prepared import Prepared, require_identified
from verifiers import ordering
from verifiers.base import Evidence, Example, Finding, Verdict
from verifiers.details import Detail, Partition, joined, replaced
from verifiers.duplicates import Duplicates
from verifiers.findings import by_partition, first, kinds, open_transaction, rule
from verifiers.gaps import Gaps
from verifiers.offsets import Offsets
from verifiers.ordering import Ordering
from verifiers.single_scan import islands
from verifiers.single_scan.groups import UNDECODABLE, Groups, Limits
from verifiers.values import Values

_DEMANDING = frozenset({"gaps", "offsets", "values"})
_DEFAULT = Limits()
_MOVED = "the pipeline is running: its positions moved while the ends were read, so rows written meanwhile count as ahead"


def judge(logs: Logs, asked: Prepared, limits: Limits = _DEFAULT) -> tuple[Finding, ...]:
    """Return all findings of an audit.

    Raises:
        InconclusiveError: the source's keys do not identify its records.
    """
    return judged(logs, asked, limits)[1]


def judged(logs: Logs, asked: Prepared, limits: Limits = _DEFAULT) -> tuple[Prepared, tuple[Finding, ...]]:
    """Return with the findings the evidence that was used: `Prepared.otherwise` may have prepared it anew."""
    asked, found = (asked, _of_model(logs, asked)) if asked.by_model else _verified(logs, asked, limits)
    evidence = asked.evidence
    found = tuple(_with_hint(order.of_certain_order(one, asked), logs.fixed) for one in found)
    if logs.fixed.positions is not None:
        once = evidence if asked.unique else replace(evidence, expected=islands.demanded(evidence.expected))
        found = (*found, Offsets().check(once, asked.proved))
    if logs.uncommitted is not None:
        found = (*found, _in_uncommitted_view(evidence, logs.sink, logs.uncommitted))
    found = tuple(_with_topics(one, logs.fixed, anywhere=evidence.anywhere) for one in found)
    found = tuple(limited(one, logs, asked.undecided, asked.compared) for one in found)
    found = tuple(_with_doubles(one, asked.doubles) for one in found)
    return asked, asked.with_keys([_name_keys(one, found, logs, asked) for one in found])


def _verified(logs: Logs, asked: Prepared, limits: Limits) -> tuple[Prepared, tuple[Finding, ...]]:
    """Return the evidence that was used, by any keys if the ids turned out not to be places, and its findings."""
    if asked.copied:
        return asked, islands.sound(asked.evidence, asked.copied)
    if asked.beyond is not None:
        return asked, islands.narrowly(asked.evidence, asked.proved, partial(order.of_parts, asked, asked.beyond, logs))
    expected, observed = islands.summarize(asked.evidence, limits, few=logs.records <= limits.held_rows, placed=True)
    if asked.keys is not None or expected is None or UNDECODABLE in expected["line"]:
        require_identified(asked)
    found = islands.judge(asked.evidence, expected, observed, limits, unique=asked.unique)
    begun = expired.begins(logs.fixed) and any(one.count for one in found)
    if asked.otherwise is not None and (begun or not _ids_are_places(logs, asked, (expected, observed), found, limits)):
        return _verified(logs, asked.otherwise(), limits)
    return asked, found


def _of_model(logs: Logs, asked: Prepared) -> tuple[Finding, ...]:
    """Judge the rows that a query demands; their order only if it is known."""
    evidence, proved = asked.evidence, asked.proved
    if asked.copied:
        duplicates, gaps, ordered, values = islands.sound(evidence, asked.copied)
        return duplicates, gaps, ordering.not_asked(evidence) if evidence.unordered else ordered, values
    if evidence.unordered:
        ordered = ordering.not_asked(evidence)
    else:
        ordered = Ordering().check(evidence) if asked.beyond is None else order.of_parts(asked, asked.beyond, logs)
    return Duplicates().check(evidence, proved), Gaps().check(evidence, proved), ordered, Values().check(evidence, proved)


def _with_doubles(finding: Finding, doubles: int | None) -> Finding:
    """Tell that the source itself has records more than once: so many rows of the sink are equal, and right."""
    if finding.verifier != "duplicates" or not doubles:
        return finding
    why = f"{doubles} records of the source demand the same row as an earlier one, so as many equal rows of the sink are right"
    return replace(finding, counts={**finding.counts, "doubles in the source": doubles}, note=joined((finding.note, why)))


def _ids_are_places(
    logs: Logs, asked: Prepared, sides: tuple[Groups | None, Groups | None], found: Sequence[Finding], limits: Limits
) -> bool:
    """Whether the ids are places: they go to the partitions in turn, and none recurs, or recurred before compaction."""
    may_have_recurred = bool(logs.fixed.compacted) and not _cannot_recur(found, *sides)
    return not may_have_recurred and dealt_in_turn(logs.source, sides[0], asked.evidence, limits)


def _cannot_recur(found: Sequence[Finding], expected: Groups | None, observed: Groups | None) -> bool:
    """Whether no id can recur in the source: every row is there once, and both sides have as many records."""
    if expected is None or observed is None or any(one.verdict is not Verdict.VALID for one in found):
        return False
    return int(expected["records"].sum()) == int(observed["records"].sum())


def _with_hint(finding: Finding, fixed: Fixed) -> Finding:
    """Suggest --routing any if the pipeline seems to choose partitions itself."""
    misrouted = finding.counts.get("misrouted", 0)
    source, sink = len(fixed.source), len(fixed.sink)
    if not misrouted or (source == sink and 2 * misrouted <= finding.checked):
        return finding
    hint = (
        f"{misrouted} of {finding.checked} rows are in another partition than their source records (the source has {source} "
        f"partitions, the sink {sink}): if the pipeline chooses partitions itself, audit with --routing any"
    )
    return replace(finding, note=joined((finding.note, hint)))


# the uncommitted view ------------------------------------------------------------------------------------------------------


def _in_uncommitted_view(evidence: Evidence, sink: DataFrame, uncommitted: DataFrame) -> Finding:
    """Check that every committed row is in the uncommitted view too; rows in that view alone are aborted or open.

    Args:
        sink: the committed view as it was landed: the evidence may have an id in place of the key.
    """
    place, row = ["partition", "offset"], "struct(key, value)"
    both = sink.selectExpr(*place, "timestamp_ms", f"{row} AS read").join(
        uncommitted.selectExpr(*place, f"{row} AS there"), place, "full"
    )
    rows = both.selectExpr(
        "*", "CASE WHEN read IS NULL THEN 'aborted' WHEN read <=> there THEN 'same' ELSE 'split view' END AS kind"
    )
    found = kinds(rows)
    split, hidden = found.get("split view", 0), found.get("aborted", 0)
    checked = sum(found.values())
    verdict, note = rule(evidence, split, checked)
    examples = tuple(_of_split_view(one) for one in first(rows.where("kind = 'split view'"), split))
    return Finding("atomicity", "sink", verdict, split, checked, {"split view": split, "aborted": hidden}, examples, note)


def _of_split_view(row: Row) -> Example:
    """Describe the row without an id, because the views may disagree about the key."""
    read, there = row["read"], row["there"]
    shown = f"key {there['key']!r}, value {there['value']!r}" if there is not None else "nothing"
    detail = f"key {read['key']!r}, value {read['value']!r}; the uncommitted view shows {shown} here"
    return Example("split view", row["partition"], row["offset"], None, row["timestamp_ms"], detail)


# limits of the evidence ----------------------------------------------------------------------------------------------------


def limited(finding: Finding, logs: Logs, undecided: int = 0, compared: Compared | None = None) -> Finding:
    """Add to the finding's note the limits that concern it; only here can INVALID become UNKNOWN.

    Args:
        undecided: number of sink rows left out because of compaction.
        compared: rows and records left out because of retention; None if there are none.
    """
    hidden = open_transaction(logs.fixed.source) if finding.verifier in _DEMANDING else ""
    hidden = replaced(hidden, Partition, partial(_of_topic, logs.fixed, "source"))
    sides = frozenset[str]() if compared is None else compared.sides
    excuses = {kind: why for kind, why in _excuses(finding.verifier, logs, sides).items() if why and finding.counts.get(kind)}
    certain = finding.count - sum(finding.counts[kind] for kind in excuses)
    verdict = finding.verdict if certain else min(finding.verdict, Verdict.UNKNOWN)
    removed = _removed(finding, logs.fixed, undecided)
    expired_ = _not_compared(finding.verifier, logs.fixed, compared)
    both = _removed_from_both(finding.verifier, logs.fixed)
    if hidden or excuses or removed or expired_ or both:
        verdict = max(verdict, Verdict.UNKNOWN)
    in_source = Detail("in the source, {hidden}", {"hidden": hidden}) if hidden else ""
    notes = (finding.note, in_source, *excuses.values(), removed, expired_, both)
    return replace(finding, verdict=verdict, note=joined(notes))


def _excuses(verifier: str, logs: Logs, sides: AbstractSet[str]) -> Mapping[str, str]:
    """Map each anomaly to the reason why its rows may be right; an empty text if there is none.

    Args:
        sides: the logs whose expired part is not in the evidence.
    """
    if verifier == "values" and "source" not in sides:
        return {"phantom": _expired("source", logs.fixed, "rows that answer earlier records count as phantom")}
    if verifier == "gaps" and "sink" not in sides:
        return {"lost": _expired("sink", logs.fixed, "rows written before that count as lost")}
    if verifier == "offsets":
        behind = "" if "sink" in sides else _expired("sink", logs.fixed, "rows written before that count as behind")
        why = logs.fixed.compacted.get("source")
        removed = f"the source {why}: rows that answer removed records may count as ahead" if why else ""
        return {"behind": behind, "ahead": _MOVED if logs.fixed.moved else removed}
    return {}


def _not_compared(verifier: str, fixed: Fixed, compared: Compared | None) -> str:
    """Say what was not compared because of retention; empty if nothing was left out."""
    if compared is None:
        return ""
    if verifier in {"duplicates", "values"} and compared.rows:
        return _expired("source", fixed, f"{compared.rows} rows of the sink may answer expired records, and were not compared")
    if verifier == "gaps" and compared.records:
        return _expired("sink", fixed, f"the rows of {compared.records} records may have expired, and were not compared")
    return ""


def _removed(finding: Finding, fixed: Fixed, undecided: int) -> str:
    """Say what was not judged because of compaction; empty if nothing was left out."""
    if finding.verifier in {"duplicates", "values"} and undecided:
        why = fixed.compacted["source"]
        return f"the source {why}: {undecided} rows of the sink answer no remaining record, and were not judged"
    absent = finding.counts.get("absent") if finding.verifier == "gaps" else 0
    if not absent or "sink" not in fixed.compacted:
        return ""
    grown = ", and grew while it was read" if fixed.grown else ""
    return f"the sink {fixed.compacted['sink']}{grown}: {absent} missing rows may have been removed"


def _removed_from_both(verifier: str, fixed: Fixed) -> str:
    """Say that records removed from both logs were not compared; empty unless both are compacted."""
    if verifier not in {"duplicates", "gaps", "values"} or not {"source", "sink"} <= fixed.compacted.keys():
        return ""
    source, sink = fixed.compacted["source"], fixed.compacted["sink"]
    return f"the source {source}, the sink {sink}, and both have holes: records removed from both were not compared"


def _expired(log: str, fixed: Fixed, what: str) -> str:
    """Say where a log begins above 0, and what follows from it; empty if it does not."""
    ends = fixed.source if log == "source" else fixed.sink
    begins = [(number, ends[number].low) for number in fixed.expired(log)]
    if not begins:
        return ""
    (number, low), *others = begins
    more = f" (and above 0 in {len(others)} more)" if others else ""
    partition = _of_topic(fixed, log, Partition(number))
    return f"the {log} begins at offset {low} of {partition}{more}: {what}"


def _name_keys(finding: Finding, found: Sequence[Finding], logs: Logs, asked: Prepared) -> Finding:
    """Make `values` UNKNOWN if only keys are wrong, and something else identifies records.

    A model gives the value of a row, not its key: a pipeline may change keys.
    """
    is_right = all(one.verdict is Verdict.VALID for one in found)
    if finding.verifier != "values" or not is_right or OWN not in logs.sink.columns:
        return finding
    whole = asked.compared or Compared()
    ours = whole.of_source(logs.source).where(f"offset < {by_partition(logs.fixed.processed)}").select("key", OWN)
    theirs = whole.of_sink(logs.sink).select("key", OWN)
    sums = "coalesce(sum(CAST(xxhash64(key, own IS NULL, own) AS DECIMAL(38, 0))), 0)"
    if ours.selectExpr(sums).collect() == theirs.selectExpr(sums).collect():
        return finding
    others = theirs.exceptAll(ours).count()
    if not others:  # records that were lost before have no row (`chaos.audit.since`)
        return finding
    why = f"{others} rows have another key than the records that they answer, and the model does not cover keys"
    note = joined((finding.note, f"{why}: use --expected-sql to judge them"))
    return replace(finding, verdict=Verdict.UNKNOWN, note=note)


# topics --------------------------------------------------------------------------------------------------------------------


def _with_topics(finding: Finding, fixed: Fixed, *, anywhere: bool) -> Finding:
    """Name topics and their partitions in place of the partition numbers of a log of several topics."""
    examples = tuple(
        _with_topic(one, fixed, "source" if anywhere and one.offset is None else "sink") for one in finding.examples
    )
    return replace(finding, examples=examples, note=replaced(finding.note, Partition, partial(_of_topic, fixed, "sink")))


def _with_topic(one: Example, fixed: Fixed, side: str) -> Example:
    """Name topic and partition of the sink; those of the source if the sink has no such partition."""
    place = fixed.place(side, one.partition) or fixed.place("source", one.partition)
    if place is None:
        return one
    topic, partition = place
    return replace(
        one, partition=partition, detail=replaced(one.detail, Partition, partial(_of_topic, fixed, "sink")), topic=topic
    )


def _of_topic(fixed: Fixed, side: str, found: Partition) -> Partition:
    """Return the topic's partition for a partition number of a log; `side` is used if the number names none."""
    place = fixed.place(found.side or side, found.number) or fixed.place("source", found.number)
    return Partition(place[1], topic=place[0]) if place else found
