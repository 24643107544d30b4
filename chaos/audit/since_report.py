"""What a report of `chaos audit topics` keeps for the audit that goes on from it (`chaos.audit.since`), as JSON.

Partitions are named by topic and number, so a topic may get more partitions meanwhile.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.audit.logs import AuditUsageError, Ends, Fixed, Numbers
from chaos.audit.since import KEPT, Carried, Reached

VERSION = 1
_ALL = "audit everything without --since"


def to_json(reached: Reached | str, fixed: Fixed, asked: Mapping[str, object]) -> Mapping[str, Any]:
    """Return what the report keeps.

    Args:
        reached: how far the audit got, or why no other one can go on from there.
        asked: the options that both audits must share, by their names.
    """
    shared = {"version": VERSION, "asked": asked}
    if isinstance(reached, str):
        return {**shared, "why_not": reached}
    places = {
        (side, number): (topic, partition)
        for side in ("source", "sink")
        for topic, own in fixed.numbers[side].items()
        for partition, number in own.items()
    }

    def by_topic(side: str, offsets: Mapping[int, int]) -> Mapping[str, Mapping[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for number, offset in sorted(offsets.items()):
            topic, partition = places[side, number]
            found.setdefault(topic, {})[partition] = offset
        return found

    return {
        **shared,
        "ids": dict(fixed.ids),
        "source": by_topic("source", reached.source),
        "sink": by_topic("sink", reached.sink),
        "read": by_topic("source", reached.read),
        "carried": [
            [*places["source", one.partition], one.offset, one.required, {name: _text(of) for name, of in one.columns.items()}]
            for one in reached.carried
        ],
        "answered": [[*places["source", number], offset] for number, offset in reached.answered],
        "last": [[*places["source", home], *places["sink", there], offset] for (home, there), offset in reached.last.items()],
    }


def _text(value: bytes | None) -> str | None:
    """Return bytes as text from which `_bytes` makes them again, also if they are not UTF-8."""
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Report:
    """An earlier report from which an audit goes on.

    Attributes:
        kept: what it keeps, as `to_json` made it.
    """

    path: str
    kept: Mapping[str, Any]

    def begun(self, fixed: Fixed) -> tuple[Fixed, Reached]:
        """Return where reading begins, and how far the earlier audit got.

        Raises:
            AuditUsageError: a topic is another one now, or has fewer records than then, or the report is damaged.
        """
        try:
            anew = [topic for topic, id_ in fixed.ids.items() if self.kept["ids"][topic] != id_]
            reached = None if anew else _reached(self.kept, fixed.numbers)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise _wrong(self.path, f"it is damaged; name another one, or {_ALL}") from None
        if reached is None:
            why = f"the topic {anew[0]} is another one now: it was made anew, or this is another cluster"
            raise _wrong(self.path, f"{why}; {_ALL}")
        since = {"source": reached.source, "sink": reached.sink}
        source, sink = (
            self._from(fixed.numbers[side], ends, since[side])
            for side, ends in (("source", fixed.source), ("sink", fixed.sink))
        )
        return replace(fixed, source=source, sink=sink, since=since), reached

    def _from(self, numbers: Numbers, ends: Ends, begin: Mapping[int, int]) -> Ends:
        """Return the ends with the offsets at which reading begins."""
        for topic, own in numbers.items():
            for partition, number in own.items():
                now, then = ends[number].lso, begin.get(number, 0)
                if now < then:
                    why = f"partition {partition} of {topic} ends at offset {now} now, and ended at {then} then"
                    raise _wrong(self.path, f"{why}: records are gone; {_ALL}")
        return {number: replace(one, low=max(one.low, begin.get(number, 0))) for number, one in ends.items()}


def _reached(kept: Mapping[str, Any], numbers: Mapping[str, Numbers]) -> Reached:
    source, sink = numbers["source"], numbers["sink"]

    def offsets(name: str, side: Numbers) -> Mapping[int, int]:
        named = ((topic, *one) for topic, own in kept[name].items() for one in own.items())
        return {side[topic][int(partition)]: int(offset) for topic, partition, offset in named}

    carried = tuple(
        Carried(
            source[topic][partition],
            int(offset),
            required is True,
            {name: _bytes(columns[name]) for name in KEPT if name in columns},
        )
        for topic, partition, offset, required, columns in kept["carried"]
    )
    return Reached(
        offsets("source", source),
        offsets("sink", sink),
        offsets("read", source),
        carried,
        tuple((source[topic][partition], int(offset)) for topic, partition, offset in kept["answered"]),
        {(source[home][at], sink[there][to]): int(offset) for home, at, there, to, offset in kept["last"]},
    )


def read(path: str, asked: Mapping[str, object]) -> Report:
    """Read an earlier report.

    Args:
        asked: as in `to_json`.

    Raises:
        AuditUsageError: it is not the report of such an audit, or none can go on from there.
    """
    kept = _kept(path)
    if kept.get("version") != VERSION:
        raise _wrong(path, "another version of chaos wrote it; audit everything once without --since")
    then = kept.get("asked")
    for name, now in asked.items():
        before = then.get(name) if isinstance(then, dict) else None
        if before != now:
            raise _wrong(path, f"{name} was {_shown(before)} then, and is {_shown(now)} now; name the report of such an audit")
    if kept.get("why_not"):
        raise _wrong(path, f"{kept['why_not']}; {_ALL}")
    return Report(path, kept)


def _kept(path: str) -> Mapping[str, Any]:
    """Return what a report keeps; an audit that failed keeps that of the report from which it went on."""
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}; name the report that --json wrote") from None
    except ValueError:
        raise _wrong(path, "is not JSON; name the report that --json wrote") from None
    if not isinstance(report, dict) or "findings" not in report:
        raise _wrong(path, "is not the report of an audit; name the report that --json wrote")
    problem, kept = report.get("problem"), report.get("reached")
    if not isinstance(kept, dict):
        why = f"its audit judged nothing ({problem})" if problem else "its audit was not one of topics by a --model"
        raise _wrong(path, f"{why}; name the report of an audit of these topics that has findings")
    return kept


def _shown(value: object) -> str:
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value or "")) or "not given"


def _wrong(path: str, why: str) -> AuditUsageError:
    return AuditUsageError(f"--since {path}: {why}")
