"""The checkpoint of a Structured Streaming query: which batches are planned and done, and how far each one goes.

Spark writes ``offsets/N`` when it plans batch N, and ``commits/N`` when all its tasks have ended. Format of a plan
(``OffsetSeqLog``): a version, a line of metadata, then one line for each source.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

OFFSETS, COMMITS = "offsets", "commits"
State = Mapping[str, int | None]


def of_query(checkpoint: Path, topic: str) -> Path:
    """The folder of the query that reads this topic: the checkpoint, or one below it; a job may give each query its own.

    The checkpoint itself as long as no plan names the topic.
    """
    if (checkpoint / OFFSETS).is_dir():
        return checkpoint
    # unlike a glob, a walk bears that Spark removes a folder meanwhile
    queries = sorted(Path(folder) for folder, names, _ in os.walk(checkpoint) if OFFSETS in names)
    return next((query for query in queries if planned(query, newest(query)[OFFSETS], topic)), checkpoint)


def newest(checkpoint: Path) -> State:
    """Number of the newest batch that is planned (``offsets``), and of the newest that is done (``commits``); None for none."""
    return {log: max(batches(checkpoint, log), default=None) for log in (OFFSETS, COMMITS)}


def batches(checkpoint: Path, log: str) -> list[int]:
    """The batches in one of the logs, in no order. Spark writes checksums and temporary files beside them."""
    return [int(path.name) for path in (checkpoint / log).glob("[0-9]*") if path.name.isdigit()]


def checkpointed(checkpoint: Path, topic: str) -> Mapping[int, int]:
    """End offsets of the newest batch that is planned and done; a file cut short by a crash counts as absent."""
    found = (planned(checkpoint, batch, topic) for batch in sorted(batches(checkpoint, COMMITS), reverse=True))
    return next((ends for ends in found if ends), {})


def planned(checkpoint: Path, batch: int | None, topic: str) -> Mapping[int, int]:
    """Partition -> end offset, exclusive; empty if the plan is absent or damaged, or none of its sources is of this topic."""
    try:
        sources = (checkpoint / OFFSETS / str(batch)).read_text(encoding="utf-8").splitlines()[2:]
        found = [json.loads(line) for line in sources if line.startswith("{")]
        ends = next(one[topic] for one in found if topic in one)
        return {int(partition): int(offset) for partition, offset in ends.items()}
    except (FileNotFoundError, StopIteration, json.JSONDecodeError, AttributeError, ValueError):
        return {}
