"""Count what is wrong, show the first of it, and make the findings of the verifiers from both."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import gaps, values
from verifiers.base import NO_PLACE, Example, Finding, Verdict
from verifiers.details import Detail
from verifiers.findings import EXAMPLES
from verifiers.frames import matching, order, sums
from verifiers.frames.matching import CHANGED, NO_KEY, PHANTOM, SURPLUS
from verifiers.frames.order import Order
from verifiers.frames.question import Names, Question, changed_meanwhile
from verifiers.frames.report import Report
from verifiers.frames.sums import Sums

_SUBJECT = "sink"
_NOT_ASKED = "not asked: order=(…, 'offset') names the columns that order the rows"
_KINDS = {CHANGED: "wrong value", PHANTOM: "phantom", NO_KEY: "undecodable"}
_WRONG = {"gaps": "lost", "duplicates": "again", "values": f"part IN ('{CHANGED}', '{PHANTOM}', '{NO_KEY}')"}
"""Verifier -> SQL over matched rows: whether it finds a row wrong."""
_TOO_MANY = {
    SURPLUS: "there {there} times, demanded {demanded}",
    CHANGED: "its key is there more often than demanded",
    PHANTOM: "nothing demands its key, and it is there more than once",
}
_LETTERS, _COLUMNS = 60, 4  # of a value, and of a row, in a detail


def report(question: Question, found: Sums) -> Report:
    """Make the report; rows are matched only where the frames differ.

    Raises:
        AuditError: the frames have other rows now than when their sums were made.
    """
    matched = None if found.equal else matching.matched(question, _differing(question, found))
    counts = defaultdict[str, int](int, {} if matched is None else _counted(found, matched))
    wrong = _first(matched, question.names) if matched is not None and any(counts.values()) else {}
    keyed = found.rows - counts[NO_KEY]
    ordered = order.of(question, found, keyed - counts[PHANTOM]) if question.names.order else None
    of_values = dict.fromkeys(values.KINDS, 0) | {kind: counts[part] for part, kind in _KINDS.items()}
    of_gaps = dict.fromkeys(gaps.KINDS, 0) | {"lost": counts["lost"]}
    findings = (
        _finding("duplicates", {"duplicate": counts["again"]}, keyed, wrong),
        _finding("gaps", of_gaps, found.records, wrong),
        _of_order(ordered, question.names),
        _finding("values", of_values, found.rows, wrong, _compared(question.names)),
    )

    def rows(condition: str, side: str = "theirs") -> DataFrame:
        frame = question.demanded if side == "ours" else question.sink
        return frame.limit(0) if matched is None else matched.where(condition).select(f"{side}.*")

    return Report(
        records=found.records,
        rows=found.rows,
        key=question.names.key,
        compared=question.names.compared,
        findings=findings,
        lost=rows(_WRONG["gaps"], "ours"),
        duplicated=rows(_WRONG["duplicates"]),
        wrong=rows(f"part = '{CHANGED}'"),
        phantom=rows(f"part IN ('{PHANTOM}', '{NO_KEY}')"),
        late=question.sink.limit(0) if ordered is None or not ordered.count else ordered.rows.select("theirs.*"),
        repeated=matching.repeated(question),
    )


def _differing(question: Question, found: Sums) -> DataFrame:
    rows = sums.both(question).where(sums.in_buckets(question, found, that_differ=True))
    return sums.hashed(question, rows)


def _counted(found: Sums, matched: DataFrame) -> Mapping[str, int]:
    """Count the rows of each part, the lost and those there again."""
    conditions = {part: f"part = '{part}'" for part in _KINDS} | {name: name for name in ("lost", "again")}
    counts = [F.expr(f"count_if({condition})").alias(name) for name, condition in conditions.items()]
    totals = [one.alias(f"total{at}") for at, one in enumerate(sums.totals())]
    row = matched.agg(*totals, *counts).collect()[0]
    if tuple(row[: len(totals)]) != found.totals:
        raise changed_meanwhile()
    return {name: row[name] for name in conditions}


# findings --------------------------------------------------------------------------------------------------------------------


def _finding(
    verifier: str, counts: Mapping[str, int], checked: int, wrong: Mapping[str, list[Example]], note: str = ""
) -> Finding:
    count = sum(counts.values())
    found = Verdict.INVALID if count else Verdict.VALID if checked else Verdict.UNKNOWN
    notes = "; ".join(filter(None, ("" if checked else "nothing was compared", note)))
    return Finding(verifier, _SUBJECT, found, count, checked, counts, tuple(wrong.get(verifier, ())), notes)


def _of_order(ordered: Order | None, names: Names) -> Finding:
    if ordered is None:
        return Finding("ordering", _SUBJECT, Verdict.VALID, 0, 0, {"inversion": 0}, note=_NOT_ASKED, asked=False)
    count, notes = ordered.count, []
    if count:
        ends = ((ordered.latest, "late"), (ordered.earliest, "early"))
        notes.append(f"at most {' and '.join(f'{far} too {how}' for far, how in ends if far)}")
    if ordered.undecided:
        why = "their keys repeat, and some copies are missing, extra or wrong, or in several groups"
        notes.append(f"the order of {ordered.undecided} rows was not judged: {why}")
    examples = [
        _example("inversion", k, (g, n), names, Detail("{far} too late" if far > 0 else "{far} too early", {"far": abs(far)}))
        for k, g, n, far in ordered.first
    ]
    return _finding("ordering", {"inversion": count}, ordered.checked, {"ordering": examples}, "; ".join(notes))


def _compared(names: Names) -> str:
    told = f"compared: {', '.join(names.compared) or 'nothing but the key'}"
    return f"{told}; not compared, in one frame only: {', '.join(names.uncompared)}" if names.uncompared else told


# examples --------------------------------------------------------------------------------------------------------------------


def _first(matched: DataFrame, names: Names) -> Mapping[str, list[Example]]:
    """Return the first wrong rows of each verifier."""
    finds = ", ".join(f"IF({condition}, '{verifier}', NULL)" for verifier, condition in _WRONG.items())
    nth = "row_number() OVER (PARTITION BY verifier ORDER BY g, n, k, v) AS place"
    rows = (
        matched.selectExpr("*", f"explode(array_compact(array({finds}))) AS verifier")
        .selectExpr("verifier", "part", "k", "v", "g", "n", "demanded", "there", "answer.v AS wanted", nth)
        .where(f"place <= {EXAMPLES}")
        .collect()
    )
    found = defaultdict[str, list[Example]](list)
    for row in sorted(rows, key=lambda one: one["place"]):
        anomaly = {"gaps": "lost", "duplicates": "duplicate"}.get(row["verifier"]) or _KINDS[row["part"]]
        example = _example(anomaly, row["k"], (row["g"], row["n"]), names, _detail(row, anomaly, names))
        found[row["verifier"]].append(example)
    return found


def _detail(row: Row, anomaly: str, names: Names) -> Detail:
    if anomaly == "wrong value":
        return _differences(row, names)
    templates = {
        "lost": "demanded {demanded} times, there {there}" if row["demanded"] > 1 else "nothing answers it",
        "duplicate": _TOO_MANY.get(row["part"], ""),
        "phantom": "no record has its key",
        "undecodable": "its key is null",
    }
    return Detail(templates[anomaly], {"demanded": row["demanded"], "there": row["there"]})


def _differences(row: Row, names: Names) -> Detail:
    """``amount 71, expected 1, state open, expected paid and 3 more``."""
    pairs = [one for one in zip(names.compared, row["v"], row["wanted"], strict=True) if one[1] != one[2]]
    told = tuple(
        Detail("{name} {value}, expected {wanted}", {"name": name, "value": _shown(value), "wanted": _shown(wanted)})
        for name, value, wanted in pairs[:_COLUMNS]
    )
    more = len(pairs) - len(told)
    return Detail("{differences}" + (" and {more} more" if more else ""), {"differences": told, "more": more})


def _example(anomaly: str, key: Any, place: tuple[Any, int], names: Names, detail: Detail) -> Example:
    group, position = place
    groups = list(group) if len(names.order) > 1 else []
    numbered = len(groups) == 1 and isinstance(groups[0], int)
    shown = (*map(_shown, groups), _position(position, names.position)) if names.order else ()
    where = " ".join(f"{name} {value}" for name, value in zip(names.order, shown, strict=True))
    if anomaly == "lost" and where:
        detail, where = detail + Detail("; its record is at {where}", {"where": where}), ""
    return Example(
        anomaly,
        partition=groups[0] if numbered else NO_PLACE,
        offset=position if names.position == "bigint" and anomaly != "lost" else None,
        id=", ".join(map(_shown, key)),
        timestamp_ms=None,
        detail=detail,
        place=where,
    )


def _position(position: int, kind: str) -> str:
    match kind:
        case "timestamp":
            return str(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=position))
        case "date":
            return str(date(1970, 1, 1) + timedelta(days=position))
        case _:
            return str(position)


def _shown(value: Any) -> str:
    """Return a value as people read it, in one line."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes | bytearray) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
