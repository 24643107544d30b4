"""State file of a follower (``--state``): a later start goes on where the last one stopped.

The file is an uncompressed ``.npz``, replaced in one step: ``told``, which is JSON (positions, counts, examples), and arrays of
outstanding records, of odd rows, and of the window. All of it belongs to one moment, so a later start reads exactly the rows
that followed that moment, and counts nothing twice.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from chaos.audit.follow.matching import Follow
from chaos.audit.follow.options import Plan
from chaos.audit.follow.rows import SIDES, Comparison, Counts, Demand, Odd, Seen
from chaos.audit.logs import AuditUsageError
from chaos.common import files
from chaos.common.errors import InconclusiveError

_BROKEN = (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, AttributeError, zipfile.BadZipFile)

Arrays = dict[str, np.ndarray[Any, Any]]


class SavedState:
    """State file of a follower; does nothing if none was named."""

    def __init__(self, plan: Plan, cluster: str, ids: Mapping[str, str] | None = None) -> None:
        """`ids` are the ids of the topics now: a topic that is deleted and created again gets another one."""
        topics = plan.topics
        self._ids = dict(ids or {})
        self._path = Path(plan.options.state) if plan.options.state else None
        self._asked = plan.asked
        self._of = {
            "cluster": cluster,
            "source": list(topics.sources),
            "sink": list(topics.sinks),
            "identity": plan.identity,
            "model": plan.model,
            "routing": plan.routing,
        }

    def load(self) -> Follow | None:
        """Return the saved state; None if there is none yet.

        Raises:
            AuditUsageError: the file belongs to another pipeline, is from an older version, or cannot be read.
            InconclusiveError: a topic was deleted and created again since.
        """
        if self._path is None or not self._path.exists():
            return None
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                arrays = dict(found)
            told = json.loads(arrays.pop("told").tobytes())
            others = [name for name, value in self._of.items() if told["of"].get(name) != value]
            ids = told.get("ids")
            follow = None if others or ids is None else restored(self._asked, told, arrays)
        except _BROKEN as error:
            why = f"cannot be read ({type(error).__name__}: {error})"
            raise AuditUsageError(f"--state {self._path}: {why}; name another file, or remove this one") from error
        if others:
            raise AuditUsageError(f"--state {self._path}: was saved with another {', '.join(others)}; name another file")
        if follow is None:
            why = "was saved by an older version, which did not store the ids of topics"
            raise AuditUsageError(f"--state {self._path}: {why}; name another file, or remove this one")
        anew = [topic for topic, id_ in self._ids.items() if ids.get(topic) != id_]
        if anew:
            raise InconclusiveError(
                f"--state {self._path}: {', '.join(anew)} was deleted and created again since this file was saved, so records "
                "that were not read are gone, and nothing was compared; name another file, or remove this one, to start anew"
            )
        return follow

    def save(self, follow: Follow) -> None:
        """Replace the file.

        Raises:
            AuditUsageError: it cannot be written.
        """
        if self._path is None:
            return
        told, arrays = state(follow)
        content, text = BytesIO(), json.dumps({**told, "of": self._of, "ids": self._ids}).encode()
        every: Any = {"told": np.frombuffer(text, np.uint8), **arrays}
        np.savez(content, **every)
        try:
            files.write_bytes_atomically(self._path, content.getvalue())
        except OSError as error:
            raise AuditUsageError(f"--state {self._path}: cannot be written: {error.strerror}") from error


def state(follow: Follow) -> tuple[dict[str, Any], Arrays]:
    """Return the whole state as JSON and arrays."""
    gaps, doubts = follow.gaps, follow.doubts
    told = {
        "counts": asdict(follow.counts),
        "at": {side: list(follow.at[side].items()) for side in SIDES},
        "judged": list(follow.judged.items()),
        "answered_to": list(follow.answered_to.items()),
        "examples": [
            [one.anomaly, one.partition, one.offset, _decoded(one.identity), one.detail] for one in follow.anomalies.examples
        ],
        "doubts": doubts.why,
        "moments": [gaps.seen_ms, follow.grew_ms, follow.first_answer_ms],
        "positions": None if gaps.positions is None else list(gaps.positions.items()),
        "numbers": [follow.counts.sink, follow.window.written],
        "begun_within": follow.asked.begun_within,
        "unread": list(doubts.unread.items()),
        "answered_ms": list(doubts.answered_ms.items()),
        "certain_from": list(doubts.certain_from.items()),
        "rewritten": sorted(doubts.rewritten),
    }
    demands, odds = list(follow.outstanding.items()), sorted(follow.odd)
    arrays: Arrays = {"window": np.frombuffer(follow.window.prints, np.uint64)}
    arrays |= _packed("demand", [key for key, _ in demands], [one for _, one in demands])
    arrays |= _packed("odd", [one.content for one in odds], odds)
    return told, arrays


def restored(asked: Comparison, told: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Follow:
    """Rebuild a follower from its saved state; the size of the window and `overdue_ms` may have changed since."""
    found = Follow(replace(asked, begun_within=told["begun_within"]), Counts(**told["counts"]))
    found.at = {side: _mapping(told["at"][side]) for side in SIDES}
    found.judged, found.answered_to = _mapping(told["judged"]), _mapping(told["answered_to"])
    found.anomalies.examples = [
        Seen(anomaly, partition, offset, None if identity is None else identity.encode(), detail)
        for anomaly, partition, offset, identity, detail in told["examples"]
    ]
    found.gaps.seen_ms, found.grew_ms, found.first_answer_ms = told["moments"]
    found.gaps.positions = None if told["positions"] is None else _mapping(told["positions"])
    doubts = found.doubts
    doubts.why = {side: dict(told["doubts"][side]) for side in SIDES}
    doubts.unread, doubts.rewritten = _mapping(told["unread"]), set(told["rewritten"])
    doubts.answered_ms, doubts.certain_from = _mapping(told["answered_ms"]), _mapping(told["certain_from"])
    _, written = told["numbers"]
    kept = arrays["window"]
    oldest_first = np.roll(kept, -(written % len(kept))) if written >= len(kept) else kept[:written]
    for content in oldest_first[-asked.window :].tolist():
        found.window.add(content)
    for key, place, identity in _unpacked("demand", arrays):
        found.outstanding.add(key, Demand(place[0], place[1], place[2], identity))
    for content, place, identity in _unpacked("odd", arrays):
        odd = Odd(place[0], place[1], place[2], identity, content)
        found.odd.add(content ^ found.prints.salt(odd.partition), odd)
    return found


def _packed(name: str, prints: list[int], rows: Sequence[Demand] | Sequence[Odd]) -> Arrays:
    """Pack prints, three numbers each, and identities; a null identity has length -1."""
    identities = [one.identity for one in rows]
    return {
        f"{name}_prints": np.array(prints, np.uint64),
        f"{name}_places": np.array([[one[column] for one in rows] for column in range(3)], np.int64),
        f"{name}_lengths": np.array([-1 if one is None else len(one) for one in identities], np.int32),
        f"{name}_bytes": np.frombuffer(b"".join(one or b"" for one in identities), np.uint8),
    }


def _unpacked(name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[tuple[int, list[int], bytes | None]]:
    text, begin = arrays[f"{name}_bytes"].tobytes(), 0
    columns = (arrays[f"{name}_prints"].tolist(), arrays[f"{name}_places"].T.tolist(), arrays[f"{name}_lengths"].tolist())
    for content, place, length in zip(*columns, strict=True):
        yield content, place, None if length < 0 else text[begin : begin + length]
        begin += max(0, length)


def _mapping(pairs: list[tuple[int, int]]) -> dict[int, int]:
    return dict(pairs)


def _decoded(identity: bytes | None) -> str | None:
    return None if identity is None else identity.decode(errors="replace")
