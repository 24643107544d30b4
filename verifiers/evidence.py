"""Evidence on disk: observed and expected rows as Parquet, which can be judged again without a cluster.

    <folder>/<subject>/expected/     id long, partition int, value string, required boolean, position long
    <folder>/<subject>/observed/     partition int, offset long, timestamp_ms long, key string, value string
    <folder>/<subject>/bounds.json   {"bounds": {"0": {"low": 0, "lso": 9, "hw": 9}, …}, "positions": {"0": 9, …},
                                      "anywhere": false, "source_partitions": 3, "unordered": "", "unsaid": "", "state": false,
                                      "views": ["batches", "uncommitted"], "files": {"observed/part-….parquet": 4711, …}}

    and, where ``views`` names it:
    <folder>/<subject>/uncommitted/  as observed
    <folder>/<subject>/again/        as observed
    <folder>/<subject>/batches/      partition int, first_offset long, last_offset long, producer_id long,
                                     producer_epoch int, transactional boolean, control string
    <folder>/<subject>/ledger/       id long, outcome string, partition int, offset long
    <folder>/<subject>/open_transactions/
                                     partition int, producer_id long, producer_epoch int, first_offset long,
                                     last_timestamp_ms long, asked_at_ms long, transactional_id string,
                                     coordinator_state string, coordinator_producer_id long, coordinator_epoch int,
                                     timeout_ms long, listed boolean
    <folder>/<subject>/told/         transaction string, told string, id string
    <folder>/<subject>/deliveries/   instance string, seq long, event string, partition int, offset long
    <folder>/<subject>/commits/      partition int, seq long, position long, committed_at_ms long
    <folder>/<subject>/looks/        partition int, seq long, end long, asked_at_ms long, answered_at_ms long
    <folder>/<subject>/reached/      partition int, position long, committed_at_ms long, producer_id long
    <folder>/<subject>/answers/      partition int, offset long, id long, ordered boolean
    <folder>/<subject>/keys/         id long, key string
    <folder>/<subject>/places/       partition int, offset long, place string

`verifiers.base.Evidence` explains the columns; other columns are ignored. The writer of `expected` must see to it that each id
is expected once. `bounds.json` is removed before anything is written, and put in place last: if it exists, the evidence is
complete, and a view that it does not name is not part of it. ``files`` has the size in bytes of each file with rows: without
it, a lost file would look like lost records.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from verifiers import arrow
from verifiers.base import Bounds, Evidence

EXPECTED = {"id": "bigint", "partition": "int", "value": "string", "required": "boolean", "position": "bigint"}
OBSERVED = {"partition": "int", "offset": "bigint", "timestamp_ms": "bigint", "key": "string", "value": "string"}

BATCHES = {
    "partition": "int",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "transactional": "boolean",
    "control": "string",
}
LEDGER = {"id": "bigint", "outcome": "string", "partition": "int", "offset": "bigint"}
OPEN_TRANSACTIONS = {
    "partition": "int",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "first_offset": "bigint",
    "last_timestamp_ms": "bigint",
    "asked_at_ms": "bigint",
    "transactional_id": "string",
    "coordinator_state": "string",
    "coordinator_producer_id": "bigint",
    "coordinator_epoch": "int",
    "timeout_ms": "bigint",
    "listed": "boolean",
}
TOLD = {"transaction": "string", "told": "string", "id": "string"}
DELIVERIES = {"instance": "string", "seq": "bigint", "event": "string", "partition": "int", "offset": "bigint"}
COMMITS = {"partition": "int", "seq": "bigint", "position": "bigint", "committed_at_ms": "bigint"}
LOOKS = {"partition": "int", "seq": "bigint", "end": "bigint", "asked_at_ms": "bigint", "answered_at_ms": "bigint"}
REACHED = {"partition": "int", "position": "bigint", "committed_at_ms": "bigint", "producer_id": "bigint"}
OF_PROGRAMS = {"told": TOLD, "deliveries": DELIVERIES, "commits": COMMITS, "looks": LOOKS, "reached": REACHED}
"""Reports of the programs themselves, commits of their group, and observations of them; not every program of a log has such
views."""
ANSWERS = {"partition": "int", "offset": "bigint", "id": "bigint", "ordered": "boolean"}
KEYS = {"id": "bigint", "key": "string"}
PLACES = {"partition": "int", "offset": "bigint", "place": "string"}
VIEWS = {
    "uncommitted": OBSERVED,
    "again": OBSERVED,
    "batches": BATCHES,
    "ledger": LEDGER,
    "open_transactions": OPEN_TRANSACTIONS,
    "answers": ANSWERS,
    "keys": KEYS,
    "places": PLACES,
} | OF_PROGRAMS

_ROWS = "*.parquet"
_FEW = 50_000  # rows; this process reads and writes so few sooner than Spark has planned a job
_AT_ONCE = 2
_LAST = "again"  # a second read that ran beside the first would see what the first saw


class EvidenceError(ValueError):
    """Evidence is missing, incomplete or of another shape; the message says what, where, and what to do."""


def write(folder: Path, evidence: Evidence) -> None:
    """Write one subject's evidence, replacing what was there.

    Raises:
        EvidenceError: a column is missing or of another type; nothing was written.
    """
    place = folder / evidence.subject
    frames = _frames(evidence)
    place.mkdir(parents=True, exist_ok=True)
    (place / "bounds.json").unlink(missing_ok=True)
    write_ = _write_few if _are_few(evidence) else _write_many

    def land(name: str) -> None:
        write_(frames[name], place / name)

    with ThreadPoolExecutor(_AT_ONCE) as pool:  # most of a small job's time is its planning
        list(pool.map(land, [name for name in frames if name != _LAST]))
    if _LAST in frames:
        land(_LAST)
    _write_bounds(place / "bounds.json", evidence, sorted(frames.keys() & VIEWS.keys()), _files(place, frames))


def load(spark: SparkSession, folder: Path, subject: str, *, ended: bool = False) -> Evidence:
    """Read one subject's evidence; the frames are lazy.

    Args:
        ended: as in `Evidence`; it is not in the folder.

    Raises:
        EvidenceError: it is missing, incomplete, changed since, or of another shape.
    """
    place = folder / subject
    bounds, positions, views, files, routing = _read_bounds(place / "bounds.json")
    _unchanged(place, {"expected", "observed", *views}, files)
    expected = _read(spark, place / "expected", EXPECTED)
    observed = _read(spark, place / "observed", OBSERVED)
    return Evidence(
        subject,
        expected,
        observed,
        bounds,
        positions,
        anywhere=routing.anywhere,
        source_partitions=routing.source_partitions,
        unordered=routing.unordered,
        unsaid=routing.unsaid,
        ended=ended,
        state=routing.state,
        **{view: _read(spark, place / view, VIEWS[view]) for view in views},
    )


def _are_few(evidence: Evidence) -> bool:
    """Estimate from the ends of the log and of its source: rows are not counted before they are written."""
    there, demanded = sum(ends.hw - ends.low for ends in evidence.bounds.values()), sum(evidence.positions.values())
    return arrow.IS_PUBLIC and max(there, demanded) <= _FEW


def _write_few(rows: DataFrame, place: Path) -> None:
    found = arrow.table(rows)
    arrow.require_alive(rows.sparkSession)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    parquet.write_table(found, place / "part-0.parquet", write_page_checksum=True)


def _write_many(rows: DataFrame, place: Path) -> None:
    rows.write.mode("overwrite").parquet(str(place))


def _frames(evidence: Evidence) -> Mapping[str, DataFrame]:
    """Folder name -> frame."""
    optional = {name: getattr(evidence, name) for name in VIEWS}
    found = {"expected": evidence.expected, "observed": evidence.observed} | {
        name: frame for name, frame in optional.items() if frame is not None
    }
    columns = {"expected": EXPECTED, "observed": OBSERVED} | VIEWS
    return {
        name: _contracted(frame, columns[name], f"the {name} rows of {evidence.subject!r}") for name, frame in found.items()
    }


def _files(place: Path, names: Iterable[str]) -> Mapping[str, int]:
    """File with rows -> bytes."""
    return {f"{name}/{file.name}": file.stat().st_size for name in names for file in sorted((place / name).glob(_ROWS))}


def _unchanged(place: Path, names: AbstractSet[str], files: Mapping[str, int] | None) -> None:
    if files is None:  # landed by an earlier version
        return
    found = _files(place, names)
    for file in sorted(found.keys() | files.keys()):
        if found.get(file) != files.get(file):
            sizes = [f"{one[file]} bytes" if file in one else "not there" for one in (found, files)]
            raise EvidenceError(f"{place / file} is {sizes[0]}, but was {sizes[1]} when it was written: run the scenario again")


def _write_bounds(path: Path, evidence: Evidence, views: Sequence[str], files: Mapping[str, int]) -> None:
    """Write in one step, so that a reader never sees half of it."""
    bounds = {partition: asdict(ends) for partition, ends in evidence.bounds.items()}
    reasons = (evidence.unordered, evidence.unsaid)
    routing = asdict(_Routing(evidence.anywhere, evidence.source_partitions, *reasons, evidence.state))
    found = {"bounds": bounds, "positions": dict(evidence.positions), **routing, "views": list(views), "files": files}
    text = json.dumps(found, indent=1)
    draft = path.with_suffix(".draft")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)


@dataclass(frozen=True, slots=True)
class _Routing:
    """The fields of `Evidence`; the defaults are those of evidence that earlier versions wrote."""

    anywhere: bool = False
    source_partitions: int = 0
    unordered: str = ""
    unsaid: str = ""
    state: bool = False


def _read_bounds(
    path: Path,
) -> tuple[Mapping[int, Bounds], Mapping[int, int], AbstractSet[str], Mapping[str, int] | None, _Routing]:
    """Return bounds, positions, landed views, files (if known) and routing."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        bounds = {
            int(partition): Bounds(**{end: int(ends[end]) for end in ends}) for partition, ends in found["bounds"].items()
        }
        positions = {int(partition): int(position) for partition, position in found["positions"].items()}
        files = None if found.get("files") is None else {str(file): int(size) for file, size in found["files"].items()}
        unordered, unsaid = (str(found.get(name, "")) for name in ("unordered", "unsaid"))
        anywhere, state = (bool(found.get(name, False)) for name in ("anywhere", "state"))
        routing = _Routing(anywhere, int(found.get("source_partitions", 0)), unordered, unsaid, state)
        return bounds, positions, VIEWS.keys() & set(found.get("views", ())), files, routing
    except (FileNotFoundError, NotADirectoryError):
        raise EvidenceError(f"{path} is missing, so the evidence beside it is incomplete: run the scenario again") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"{path} is damaged ({type(error).__name__}: {error}): run the scenario again") from error


def _read(spark: SparkSession, place: Path, columns: Mapping[str, str]) -> DataFrame:
    few = _read_few(place, columns)
    if few is not None:
        return _contracted(arrow.frame(spark, few), columns, str(place))
    try:
        return _contracted(spark.read.parquet(str(place)), columns, str(place))
    except (
        PySparkException,
        Py4JJavaError,
    ) as error:  # the second if PySpark has no exception of its own, as for a torn footer
        condition = re.search(r"\[([A-Z_.]+)\]", str(error))
        reason = condition[1] if condition else type(error).__name__
        raise EvidenceError(f"{place} is not a Parquet folder ({reason}): run the scenario again") from error


def _read_few(place: Path, columns: Mapping[str, str]) -> pa.Table | None:
    """Read the rows if they are few; None if Spark has to read them, or to say why it cannot.

    Raises:
        EvidenceError: their checksums are wrong.
    """
    try:
        if not arrow.IS_PUBLIC or sum(parquet.read_metadata(file).num_rows for file in place.glob(_ROWS)) > _FEW:
            return None
        there = parquet.read_schema(next(place.glob(_ROWS))).names
    except (StopIteration, OSError, pa.ArrowException):
        return None
    wanted = [name for name in columns if name in there]
    try:
        return parquet.read_table(place, columns=wanted, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().splitlines()[0]
        raise EvidenceError(f"{place} is damaged ({reason}): run the scenario again") from error


def _contracted(frame: DataFrame, columns: Mapping[str, str], what: str) -> DataFrame:
    """Select the columns of the contract, in its order."""
    types = dict(frame.dtypes)
    wrong = [f"{name} {kind} (found: {types.get(name, 'none')})" for name, kind in columns.items() if types.get(name) != kind]
    if wrong:
        raise EvidenceError(f"{what}: wrong or missing columns: {', '.join(wrong)}; select and cast them")
    return frame.select(*columns)
