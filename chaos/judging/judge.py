"""Judge a run from its directory alone: judging can be repeated later and elsewhere."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from chaos.common.errors import InconclusiveError, one_line
from chaos.common.history import load
from chaos.expectation import ways
from chaos.judging import accounts, findings_file, spark_session
from chaos.judging import progress as liveness
from chaos.matching import row_ids
from chaos.scenario.model import Scenario
from chaos.scenario.verifiers import OF_LOGS, PROGRESS, TRANSACTIONS, role_of
from verifiers import arrow, ordering
from verifiers import evidence as landed
from verifiers.base import Evidence, Finding, Verdict
from verifiers.details import joined

_AT_ONCE = 4
_SINK = "sink"
WITHOUT_EXPECTED = row_ids.AS_THEY_ARE | {"hanging", "commits", "deliveries"}
"""Verifiers that do not need the expected rows."""


def judge(spark: SparkSession, scenario: Scenario, folder: Path) -> tuple[Finding, ...]:
    """Apply the scenario's verifiers to every log that was landed, and write ``findings.json``.

    Raises:
        InconclusiveError: the evidence is missing or incomplete.
    """
    subjects = _landed(scenario, folder / "evidence")
    try:
        evidence = [
            landed.load(spark, folder / "evidence", subject, ended=bool(scenario.ends) and subject == _SINK)
            for subject in subjects
        ]
    except landed.EvidenceError as error:
        raise InconclusiveError(str(error)) from error
    if not evidence:
        raise InconclusiveError("there is no evidence to judge: the run ended before its topics were read")
    spark_session.suit_logs(spark, [one.bounds for one in evidence])
    expectation = ways.of_scenario(scenario)
    names = [name for name in scenario.verify if name in OF_LOGS]
    asked = [(name, one) for one in evidence for name in names if _applies(name, one, evidence)]
    lines = {one.subject: row_ids.lines_of(one.bounds) for one in evidence if one.subject != _SINK}
    lines[_SINK] = row_ids.lines_of(*(each.bounds for each in evidence))

    def ask(pair: tuple[str, Evidence]) -> Finding:
        name, one = pair
        if expectation.not_asked and one.subject == _SINK and name not in WITHOUT_EXPECTED:
            none = dict.fromkeys(OF_LOGS[name].anomalies, 0)
            return Finding(name, _SINK, Verdict.VALID, 0, 0, none, note=expectation.not_asked, asked=False)
        return check(name, one, lines[one.subject])

    with ThreadPoolExecutor(_AT_ONCE, "judge") as pool:  # most of a small query's time is its planning
        findings = _undecided(scenario, _certain(spark, tuple(pool.map(ask, asked))))
    if TRANSACTIONS in scenario.verify:
        findings = (*findings, accounts.of_run(scenario, folder / "evidence" / TRANSACTIONS))
    if PROGRESS in scenario.verify:
        events = tuple(load(folder / "history.jsonl"))
        recognised = expectation.recognised(spark, scenario.pipeline.reads)
        demanded = None if recognised.demands_each else liveness.demanded(events)
        total = scenario.workload.total - liveness.refused(events) if demanded is None else demanded
        flowed = liveness.check(events, scenario.recovery_slo_s, total, subjects[-1], each=demanded is None, ends=scenario.ends)
        findings = (*findings, flowed)
    findings_file.write(folder, findings)
    return findings


def _landed(scenario: Scenario, place: Path) -> list[str]:
    """Return the logs with evidence: filled topics and the sink.

    Raises:
        InconclusiveError: the sink is there, but a filled topic, which is landed earlier, is not.
    """
    there = [name for name in (*scenario.subjects.values(), _SINK) if (place / name).is_dir()]
    absent = next((name for name in scenario.subjects.values() if name not in there), None)
    if _SINK in there and absent is not None:
        raise InconclusiveError(
            f"{place / absent} is missing, though the evidence of the sink is there: run the scenario again"
        )
    return there


def _certain(spark: SparkSession, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings; all UNKNOWN if Spark's JVM has ended, perhaps in the middle of an answer."""
    try:
        arrow.require_alive(spark)
    except spark_session.FAILURES as error:
        return tuple(replace(one, verdict=Verdict.UNKNOWN, note=spark_session.failure(error)) for one in findings)
    return findings


def _undecided(scenario: Scenario, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Make atomicity UNKNOWN if it may have missed a torn transaction, and no other verifier looks for one.

    Rows of a torn transaction are lost, or there twice: `gaps` and `duplicates` see it, and `transactions` in Kafka's own logs.
    """
    if TRANSACTIONS in scenario.verify or not {"gaps", "duplicates"} & scenario.leave_out.keys():
        return findings
    why = "gaps or duplicates, which would show a torn transaction, are left out"
    return tuple(
        replace(one, verdict=Verdict.UNKNOWN, note=joined((one.note, why)))
        if one.verdict is Verdict.VALID and one.counts.get("undecided")
        else one
        for one in findings
    )


def _applies(name: str, one: Evidence, all_: Sequence[Evidence]) -> bool:
    """Whether a verifier judges a log: one of its kind, with all views that it needs.

    A verifier that can judge no log gets the last one of its kind, or the last of all; its finding says what is missing.
    """
    verifier = OF_LOGS[name]
    own = [each for each in all_ if role_of(each.subject) in verifier.subjects]
    seen = [each for each in own if all(getattr(each, view) is not None for view in verifier.views)]
    return any(one is each for each in seen or own[-1:] or all_[-1:])


def check(name: str, evidence: Evidence, lines: int = 0) -> Finding:
    """Apply one verifier to one log. Its broad ``except`` is deliberate: a verifier that fails has proved nothing.

    Args:
        lines: the number of lines of the user's own rows (`row_ids.lines_of`).
    """
    if evidence.unsaid and name not in WITHOUT_EXPECTED:
        note = f"the expected rows are not known: {evidence.unsaid}"
        return Finding(name, evidence.subject, Verdict.UNKNOWN, count=0, checked=0, note=note)
    if evidence.unordered and name == "ordering":
        return ordering.not_asked(evidence)
    try:
        judged = evidence if name in row_ids.AS_THEY_ARE else row_ids.numbered(evidence, lines)
        found = row_ids.of_certain_order(_usable(name, evidence.subject, OF_LOGS[name].check(judged)), judged)
        return row_ids.named(found, evidence)
    except Exception as error:  # noqa: BLE001 - see above
        note = f"the verifier itself failed: {type(error).__name__}: {error}"
        return Finding(name, evidence.subject, Verdict.UNKNOWN, count=0, checked=0, note=note)


def _usable(name: str, subject: str, finding: Any) -> Finding:
    """Check the finding of a verifier, perhaps of another package, against the contract (`verifiers.base`).

    Raises:
        TypeError: it is not a finding of this verifier about this log.
    """
    if not isinstance(finding, Finding) or (finding.verifier, finding.subject) != (name, subject):
        raise TypeError(f"check() returned {one_line(repr(finding), 100)}, not a finding of {name} about the {subject}")
    if finding.asked and finding.verdict is Verdict.VALID and not finding.checked:
        return replace(finding, verdict=Verdict.UNKNOWN, note=finding.note or "nothing was compared")
    return finding
