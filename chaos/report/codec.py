"""``report.json`` and ``findings.json``: reports and findings as JSON values and back, without loss.

A verdict is written as its name, a path as a string; everything else keeps its field's name and shape.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos.common import files
from chaos.judging.findings import finding_from_json, finding_to_json
from chaos.report.model import FaultRecord, PhaseRecord, Report
from verifiers.base import Verdict

Json = dict[str, Any]

FILE = "report.json"


def write(report: Report) -> None:
    """Put it into its run directory."""
    files.write_atomically(report.run_dir / FILE, json.dumps(to_json(report), indent=1))


def to_json(report: Report) -> Json:
    """What `from_json` reads back."""
    return asdict(report) | {
        "verdict": report.verdict.name,
        "judged": _names(report.judged),
        "expect": _names(report.expect),
        "findings": [finding_to_json(finding) for finding in report.findings],
        "run_dir": str(report.run_dir),
    }


def from_json(value: Mapping[str, Any]) -> Report:
    """The report that `to_json` was given.

    Raises:
        KeyError: a field is missing, or a verdict has a name we do not know.
        TypeError: a field is not one of ours.
    """
    fields = dict(value) | {
        "tags": tuple(value["tags"]),
        "verdict": Verdict[value["verdict"]],
        "judged": _verdicts(value["judged"]),
        "expect": _verdicts(value["expect"]),
        "findings": tuple(finding_from_json(finding) for finding in value["findings"]),
        "problems": tuple(value["problems"]),
        "phases": tuple(PhaseRecord(**phase) for phase in value["phases"]),
        "faults": tuple(FaultRecord(**fault) for fault in value["faults"]),
        "run_dir": Path(value["run_dir"]),
    }
    return Report(**fields)


def _names(verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    return {verifier: verdict.name for verifier, verdict in verdicts.items()}


def _verdicts(names: Mapping[str, str]) -> dict[str, Verdict]:
    return {verifier: Verdict[name] for verifier, name in names.items()}
