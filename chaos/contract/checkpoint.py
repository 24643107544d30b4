"""The checkpoint of a Structured Streaming query: the planned and done batches, and the end offsets of each.

Spark writes ``offsets/N`` when it plans batch N, and ``commits/N`` when all its tasks have ended. Only the number of a commit
is read, so its format does not matter. A plan has two formats (``spark.sql.streaming.offsetLog.formatVersion``)::

    v1                          v2                                  the format
    {"batchWatermarkMs":0,…}    {"batchWatermarkMs":0,…}            metadata
    {"orders":{"0":30,"1":7}}   0:{"orders":{"0":30,"1":7}}         a line for each source: where the batch ends, and in
    -                           returns:-                           version 2 before that the source's number, or its name

A dash stands for a source that has nothing yet. Source: `OffsetSeqLog` of Spark 4.2.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.common.errors import InconclusiveError, one_line

OFFSETS, COMMITS = "offsets", "commits"
State = Mapping[str, int | None]

_BY_ORDER, _BY_ID = "v1", "v2"
_FIRST_SOURCE = 3  # line of a plan
_NOTHING_YET = "-"


def of_query(checkpoint: Path, topic: str) -> Path:
    """Find the folder of the query that reads this topic: the checkpoint, or one below it; a job may give each query its own.

    As long as no plan names the topic, return the checkpoint itself.

    Raises:
        InconclusiveError: a plan has an unknown format.
    """
    if (checkpoint / OFFSETS).is_dir():
        return checkpoint
    # unlike a glob, a walk does not fail when Spark removes a folder meanwhile
    queries = sorted(Path(folder) for folder, names, _ in os.walk(checkpoint) if OFFSETS in names)
    return next((query for query in queries if planned(query, newest(query)[OFFSETS], topic)), checkpoint)


def newest(checkpoint: Path) -> State:
    """Return the number of the newest planned batch (``offsets``) and of the newest done one (``commits``); None for none."""
    return {log: max(batches(checkpoint, log), default=None) for log in (OFFSETS, COMMITS)}


def batches(checkpoint: Path, log: str) -> list[int]:
    """Return the batches in one of the logs, in no order. Spark's checksums and temporary files beside them are left out."""
    return [int(path.name) for path in (checkpoint / log).glob("[0-9]*") if path.name.isdigit()]


def checkpointed(checkpoint: Path, topic: str) -> Mapping[int, int]:
    """End offsets of the newest batch that is planned and done; a file cut short by a crash counts as absent.

    Raises:
        InconclusiveError: a plan has an unknown format.
    """
    found = (planned(checkpoint, batch, topic) for batch in sorted(batches(checkpoint, COMMITS), reverse=True))
    return next((ends for ends in found if ends), {})


def planned(checkpoint: Path, batch: int | None, topic: str) -> Mapping[int, int]:
    """Partition -> end offset, exclusive; empty if the plan is absent or damaged, or none of its sources reads this topic.

    If several sources read the topic, the highest offset of a partition is its end.

    Raises:
        InconclusiveError: the plan has an unknown format.
    """
    place = checkpoint / OFFSETS / str(batch)
    try:
        text = place.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    ends: dict[int, int] = {}
    for source in _sources(text, place):
        for partition, offset in source.ends(topic).items():
            ends[partition] = min(ends.get(partition, offset), offset)
    return ends


@dataclass(frozen=True, slots=True)
class _Source:
    """The line of a source in a plan.

    Attributes:
        offset: the text of the source.
        where: the file, and the number of the line in it.
        may_be_cut: whether the line is the last one: Spark ends no file with a line break, so a crash may have cut it off.
    """

    offset: str
    where: str
    may_be_cut: bool

    def ends(self, topic: str) -> Mapping[int, int]:
        """End offsets of a topic's partitions; empty for a source that is not Kafka's, or reads other topics."""
        if json.dumps(topic) not in self.offset:
            return {}
        try:
            ends = json.loads(self.offset).get(topic, {})
            return {int(partition): int(offset) for partition, offset in ends.items()}
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            if self.may_be_cut and self.offset.startswith("{") and self.offset.count("{") > self.offset.count("}"):
                return {}
            raise _unknown(self.where, self.offset) from error


def _sources(text: str, place: Path) -> Iterator[_Source]:
    """Yield the sources that have an offset."""
    head, whole, _ = text.partition("\n")
    if whole and head not in (_BY_ORDER, _BY_ID):
        raise _unknown(f"{place}, line 1", head)
    lines = text.split("\n")
    for number, line in enumerate(lines[_FIRST_SOURCE - 1 :], _FIRST_SOURCE):
        where, is_last = f"{place}, line {number}", number == len(lines)
        _, colon, offset = line.partition(":") if head == _BY_ID else ("", ":", line)
        if not colon and not is_last:
            raise _unknown(where, line)
        if colon and offset != _NOTHING_YET:
            yield _Source(offset, where, is_last)


def _unknown(where: str, text: str) -> InconclusiveError:
    known = "chaos knows versions 1 and 2 of Spark's offset log"
    mend = "write spark.sql.streaming.offsetLog.formatVersion: 1 or 2 in the job's configuration, or declare positions: none"
    return InconclusiveError(f"{where}: {one_line(text, 80)!r} has an unknown format; {known}; {mend}")
