"""The disk of a broker: the ends of its logs, and their flushed parts, which a power failure would leave.

Kafka does not wait for the disk before it acknowledges: a log is flushed when a segment is full, and its recovery point, the
first offset that may not be flushed, is recorded from time to time (``recovery-point-offset-checkpoint``, with a line
``topic partition offset`` for each; OffsetCheckpointFile.scala). A power failure may lose everything beyond it. The log of the
controller quorum is left alone: it is flushed before it is acknowledged (KIP-595).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.cluster.protocol import BatchHeader

_RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_CLEAN = ".kafka_cleanshutdown"
_QUORUM = "__cluster_metadata-0"
_OF_SEGMENT = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_BATCH_HEADER = BatchHeader.HEADER_STRUCT.size
_HEADER_LINES = 2


@dataclass(frozen=True, slots=True)
class ThrownAway:
    """The lost offsets of one partition: from `since`, at or before its recovery point, to `until`, exclusive."""

    since: int
    until: int
    bytes: int

    @property
    def facts(self) -> Mapping[str, int]:
        """The offsets as JSON values."""
        return {"since": self.since, "until": self.until, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of records: its offsets, ``end`` exclusive, and its bytes in the file."""

    base: int
    end: int
    at: int
    size: int


def was_clean(data: Path) -> bool:
    """Whether a broker that has ended left the marker file of a controlled shutdown."""
    return (data / _CLEAN).exists()


def log_end(data: Path, topic: str, partition: int) -> int:
    """Return the offset after the last record of a partition on a broker's disk.

    Args:
        data: the broker's log directory; while the broker runs, the answer may be out of date at once.

    Raises:
        FileNotFoundError: the broker has no replica of it.
    """
    segments = _segments(data / f"{topic}-{partition}")
    if not segments:
        raise FileNotFoundError(f"{data} has no log of {topic}-{partition}")
    *_, last = [int(segments[-1].stem), *(batch.end for batch in batches(segments[-1]))]
    return last


def lose_power(data: Path, flushed_topics: Collection[str] = ()) -> dict[str, ThrownAway]:
    """Cut every log to its certainly flushed part.

    Returns:
        Partition -> its lost offsets; partitions that lost nothing are left out.

    Args:
        data: the log directory of a broker that does not run.
        flushed_topics: topics whose logs are left whole.
    """
    (data / _CLEAN).unlink(missing_ok=True)
    flushed = _recovery_points(data)
    logs = (path for path in sorted(data.iterdir()) if path.is_dir() and path.name != _QUORUM)
    partitions = [path for path in logs if path.name.rpartition("-")[0] not in flushed_topics and _segments(path)]
    lost = {path.name: _cut(path, flushed.get(path.name, int(_segments(path)[0].stem))) for path in partitions}
    return {name: thrown for name, thrown in lost.items() if thrown.until > thrown.since}


def batches(segment: Path) -> Iterator[Batch]:
    """Yield the whole batches of a segment; a torn one at the end is left out."""
    size = segment.stat().st_size
    with segment.open("rb") as file:
        at = 0
        while at + _BATCH_HEADER <= size:
            file.seek(at)
            header = BatchHeader(file.read(_BATCH_HEADER))
            if header.size_in_bytes < _BATCH_HEADER or at + header.size_in_bytes > size:
                return
            yield Batch(header.base_offset, header.next_offset, at, header.size_in_bytes)
            at += header.size_in_bytes


def _recovery_points(data: Path) -> dict[str, int]:
    """Return partition -> the first offset that may not be flushed."""
    path = data / _RECOVERY_POINTS
    lines = path.read_text(encoding="utf-8").splitlines()[_HEADER_LINES:] if path.exists() else []
    fields = [line.rsplit(" ", 2) for line in lines]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in fields}


def _cut(partition: Path, flushed: int) -> ThrownAway:
    """End a log before the first batch that is not wholly flushed, and remove later segments with their indexes."""
    lost = [(segment, batch) for segment in _segments(partition) for batch in batches(segment) if batch.end > flushed]
    if not lost:
        return ThrownAway(flushed, flushed, 0)
    first_segment, first = lost[0]
    for path in partition.iterdir():
        if path.suffix in _OF_SEGMENT and path.stem.isdigit() and int(path.stem) > int(first_segment.stem):
            path.unlink()
    for suffix in (".index", ".timeindex", ".txnindex"):
        first_segment.with_suffix(suffix).unlink(missing_ok=True)  # the broker builds them again
    with first_segment.open("r+b") as file:
        file.truncate(first.at)
    return ThrownAway(first.base, lost[-1][1].end, sum(batch.size for _, batch in lost))


def _segments(partition: Path) -> list[Path]:
    """List segments in the order of their offsets, which are their names."""
    return sorted((path for path in partition.glob("*.log") if path.stem.isdigit()), key=lambda path: int(path.stem))
