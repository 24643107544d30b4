"""The report of an audit: what a person reads in a failed assertion, what a notebook shows, and what a program takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from pyspark.sql import DataFrame

from verifiers.base import Example, Finding, Verdict

_SHOWN = 3  # examples of each finding in text; HTML and JSON have all
_COLOURS = {Verdict.VALID: "#1a7f37", Verdict.UNKNOWN: "#9a6700", Verdict.INVALID: "#cf222e"}
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The result of `verifiers.audit`.

    Frames have all columns of the frames that they come from, and are lazy: each use reads source and sink again.

    Attributes:
        records: demanded rows, those of the source if nothing else was expected.
        rows: rows of the sink.
        key, compared: the columns that identify a record, and those that must be equal.
        findings: of duplicates, gaps, ordering and values, each with up to 32 examples.
        lost: demanded rows that no row of the sink answers.
        duplicated: rows of the sink that are there more often than demanded; not the first ones.
        wrong: rows of the sink whose record has other values.
        phantom: rows of the sink whose key no record has, or that have no key.
        late: rows of the sink that are out of place, too late or too early; empty if order is not asked.
        repeated: demanded rows that equal an earlier one in key and compared columns. As many equal rows of the sink are right:
            the doubles are in the source.
    """

    records: int
    rows: int
    key: tuple[str, ...]
    compared: tuple[str, ...]
    findings: tuple[Finding, ...]
    lost: DataFrame
    duplicated: DataFrame
    wrong: DataFrame
    phantom: DataFrame
    late: DataFrame
    repeated: DataFrame

    @property
    def verdict(self) -> Verdict:
        """INVALID if anything is wrong; UNKNOWN if nothing was compared; else VALID."""
        return max(finding.verdict for finding in self.findings)

    @property
    def valid(self) -> bool:
        """Whether the sink holds what is demanded, once, as far as was asked."""
        return self.verdict is Verdict.VALID

    def to_json(self) -> dict[str, Any]:
        """Return the report without its frames, in types of JSON."""
        return {
            "verdict": self.verdict.name,
            "records": self.records,
            "rows": self.rows,
            "key": list(self.key),
            "compared": list(self.compared),
            "findings": [_jsonable(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        """Return one short line: pytest cuts the message of an assertion that is no string."""
        wrong = [f"{count} {kind}" for one in self.findings if one.count for kind, count in one.counts.items() if count]
        return f"<{'; '.join((f'{self.verdict.name}: {self._subject}', *wrong))}>"

    def _lines(self) -> Iterator[str]:
        yield f"{self.verdict.name}: {self._subject}"
        for one in self.findings:
            yield f"  {one.verifier:<11}{_verdict(one):<9}{_count(one)}"
            yield from (f"    {_told(example)}" for example in one.examples[:_SHOWN])
            if one.count > _SHOWN:
                yield f"    and {one.count - _SHOWN} more"
            if one.note:
                yield f"    note: {one.note}"

    @property
    def _subject(self) -> str:
        return f"{self.rows} rows of the sink for {self.records} records, by {', '.join(self.key)}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="{_CELL}">{escape(one.verifier)}</td><td style="{_CELL}">{_badge(one)}</td>'
            f'<td style="{_CELL}">{escape(_count(one))}</td><td style="{_CELL}">{_details(one)}</td></tr>'
            for one in self.findings
        )
        heads = "".join(f'<th style="{_CELL}">{name}</th>' for name in ("verifier", "verdict", "wrong", ""))
        head = f"<p>{_coloured(self.verdict)} {escape(self._subject)}</p>"
        table = f'<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        return f"<div>{head}{table}</div>"


def _verdict(one: Finding) -> str:
    return one.verdict.name if one.asked else "not asked"


def _count(one: Finding) -> str:
    if not one.asked:
        return ""
    kinds = ", ".join(f"{count} {kind}" for kind, count in one.counts.items() if count)
    return f"{one.count} of {one.checked}" + (f": {kinds}" if kinds else "")


def _told(one: Example) -> str:
    place = f" at {one.place}" if one.place else ""
    return f"{one.anomaly}: {one.id}{place}: {one.detail}"


def _badge(one: Finding) -> str:
    return _coloured(one.verdict) if one.asked else _verdict(one)


def _coloured(verdict: Verdict) -> str:
    return f'<b style="color:{_COLOURS[verdict]}">{verdict.name}</b>'


def _details(one: Finding) -> str:
    note = escape(str(one.note))
    if not one.examples:
        return note
    lines = "".join(f"<li>{escape(_told(example))}</li>" for example in one.examples)
    shown = f"first {len(one.examples)} of {one.count}" if one.count > len(one.examples) else f"{len(one.examples)}"
    listed = f'<details><summary>{shown}</summary><ul style="margin:0;padding-left:16px">{lines}</ul></details>'
    return listed + note


def _jsonable(one: Finding) -> dict[str, Any]:
    return one.to_json() | {"counts": dict(one.counts)}
