"""``findings.json``: the findings of a run, in its folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from chaos.common import files
from chaos.common.events import FORMAT
from verifiers.base import Finding, Verdict

FILE = "findings.json"


def _verdict(name: object) -> Verdict:
    """Parse a verdict by name; the meaning of a number would change with each new verdict."""
    if isinstance(name, Verdict):
        return name
    if name not in Verdict.__members__:
        raise ValueError(f"{name!r} is not a verdict")
    return Verdict[str(name)]


def _finding(value: Any) -> Any:
    if isinstance(value, Finding):
        return value
    examples = [_with_facts(one) for one in value["examples"]]
    return {**value, "verdict": _verdict(value["verdict"]), "examples": examples}


def _with_facts(written: Mapping[str, Any]) -> dict[str, Any]:
    """Replace an example's words by the facts of its detail, if they were written."""
    fields = dict(written)
    detail = fields.pop("said", fields["detail"])
    return fields | {"detail": detail}


NamedVerdict = Annotated[Verdict, BeforeValidator(_verdict), PlainSerializer(lambda verdict: verdict.name, return_type=str)]
NamedFinding = Annotated[Finding, BeforeValidator(_finding), PlainSerializer(Finding.to_json)]


class FindingsFile(BaseModel):
    """The content of ``findings.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: Literal[4] = FORMAT
    findings: tuple[NamedFinding, ...]


def write(folder: Path, findings: Sequence[Finding]) -> None:
    """Write the findings of a run into its folder."""
    content = FindingsFile(findings=tuple(findings))
    files.write_atomically(folder / FILE, content.model_dump_json(indent=1))


def load_findings(folder: Path) -> tuple[Finding, ...]:
    """Read the findings of a run; empty if it was not judged.

    Raises:
        ValueError: the file is damaged, or a newer version of chaos wrote it.
    """
    path = folder / FILE
    if not path.exists():
        return ()
    value = json.loads(path.read_text(encoding="utf-8"))
    return FindingsFile.model_validate(value).findings
