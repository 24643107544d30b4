"""Judging, from what a run directory holds and nothing else: it can be done again, later, elsewhere."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from chaos.common import files
from chaos.common.errors import InconclusiveError
from chaos.common.history import load
from chaos.judging import progress as liveness
from chaos.judging.findings import finding_from_json, finding_to_json
from chaos.scenario.model import Scenario
from verifiers import VERIFIERS
from verifiers import evidence as landed
from verifiers.base import Evidence, Finding, Verdict

_AT_ONCE = 4


def judge(spark: SparkSession, scenario: Scenario, folder: Path) -> tuple[Finding, ...]:
    """Apply the scenario's verifiers to every log that was landed, and write ``findings.json``.

    Raises:
        InconclusiveError: the evidence is missing or incomplete.
    """
    subjects = [name for name in ("source", "sink") if (folder / "evidence" / name).is_dir()]
    if subjects == ["sink"]:  # the source is landed first
        raise InconclusiveError(f"{folder / 'evidence' / 'source'} was there and was lost: run the scenario again")
    try:
        evidence = [landed.load(spark, folder / "evidence", subject) for subject in subjects]
    except landed.EvidenceError as error:
        raise InconclusiveError(str(error)) from error
    if not evidence:
        raise InconclusiveError("there is no evidence: the run did not come that far")
    of_logs = [name for name in scenario.verify if name in VERIFIERS]
    asked = [(name, one) for one in evidence for name in of_logs if _applies(name, one.subject, subjects)]
    with ThreadPoolExecutor(_AT_ONCE, "judge") as pool:  # most of a small query's time is its planning
        findings = tuple(pool.map(lambda pair: check(*pair), asked))
    if liveness.NAME in scenario.verify:
        events = tuple(load(folder / "history.jsonl"))
        progress = liveness.check(events, scenario.recovery_slo_s, scenario.workload.records, subjects[-1])
        findings = (*findings, progress)
    text = json.dumps([finding_to_json(finding) for finding in findings], indent=1)
    files.write_atomically(folder / "findings.json", text)
    return findings


def _applies(name: str, subject: str, subjects: Sequence[str]) -> bool:
    """Whether a verifier has something to say of a log. One that has not of any log is asked of the last, and tells why."""
    own = VERIFIERS[name].subjects
    return subject in own if own.intersection(subjects) else subject == subjects[-1]


def check(name: str, evidence: Evidence) -> Finding:
    """One verifier on one log. The other place with a broad ``except``: a verifier that fails has proved nothing."""
    try:
        return VERIFIERS[name].check(evidence)
    except Exception as error:  # noqa: BLE001 - see above
        note = f"the verifier itself failed: {type(error).__name__}: {error}"
        return Finding(name, evidence.subject, Verdict.UNKNOWN, count=0, checked=0, note=note)


def load_findings(folder: Path) -> tuple[Finding, ...]:
    """What was found; empty when the run did not come that far."""
    path = folder / "findings.json"
    return tuple(map(finding_from_json, json.loads(path.read_text(encoding="utf-8")))) if path.exists() else ()
