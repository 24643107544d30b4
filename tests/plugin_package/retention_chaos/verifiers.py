"""Retention: the records of a run are kept until it is judged.

    trimmed   a record that was written is before the first offset that the partition still has

Easily confused with a record that is lost: it was never written, or the leader that had it has forgotten it
(`verifiers.gaps`). One that was trimmed was read by all who came in time.
"""

from dataclasses import dataclass

from verifiers.base import ANY_LOG, NO_VIEW, Evidence, Example, Finding, Verdict


@dataclass(frozen=True, slots=True)
class Retention:
    """Looks at where each partition begins; ``checked`` are the offsets that it has had."""

    name: str = "retention"
    guarantee: str = "every record is kept until the run is judged"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = ("trimmed",)

    def check(self, evidence: Evidence) -> Finding:
        trimmed = {partition: ends.low for partition, ends in evidence.bounds.items() if ends.low > 0}
        count, checked = sum(trimmed.values()), sum(ends.hw for ends in evidence.bounds.values())
        examples = [
            Example("trimmed", partition, low - 1, None, None, f"the log begins at offset {low}")
            for partition, low in sorted(trimmed.items())
        ]
        if count:
            verdict, note = Verdict.INVALID, ""
        else:
            verdict, note = (Verdict.VALID, "") if checked else (Verdict.UNKNOWN, "nothing was written")
        return Finding(self.name, evidence.subject, verdict, count, checked, {"trimmed": count}, tuple(examples), note)
