"""Findings as JSON values and back, without loss; a verdict is written as its name."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from verifiers.base import Example, Finding, Verdict

Json = dict[str, Any]


def finding_to_json(finding: Finding) -> Json:
    """What `finding_from_json` reads back."""
    return asdict(finding) | {"verdict": finding.verdict.name}


def finding_from_json(value: Mapping[str, Any]) -> Finding:
    """The finding that `finding_to_json` was given; errors as in `codec.from_json`."""
    examples = tuple(Example(**example) for example in value["examples"])
    return Finding(**dict(value) | {"verdict": Verdict[value["verdict"]], "examples": examples})
