"""Check the folders of an audit before Spark starts; an error is one line that says what to do."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from chaos.audit.logs import AuditUsageError
from chaos.common import files

_COLUMNS = ("partition", "offset", "key", "value", "timestamp_ms", "isolation")
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_ELSEWHERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def check_landed(folder: str, master: str) -> None:
    """Raise AuditUsageError unless a local folder holds two logs.

    Each log is a Parquet folder whose files share one schema: Spark reads all files by the schema of one of them, and drops
    columns that this one lacks.
    """
    check_name("--landed", folder)
    for side in ("source", "sink") if is_local(folder, master) else ():
        place = Path(folder, side)
        if not place.exists():
            raise AuditUsageError(f"{place} does not exist: --landed must name the folder that holds source/ and sink/")
        if place.is_dir():
            _check_log(place)


def check_landing(folder: str, master: str) -> None:
    """Raise AuditUsageError if a local folder cannot be written to."""
    check_name("--landing", folder)
    if not is_local(folder, master):
        return
    try:
        files.require_folder(Path(folder))
    except OSError as error:
        why = f"cannot be written to: {error.strerror}"
        raise AuditUsageError(f"--landing {folder}: {why}; name a folder or URL that Spark can write to") from None


def check_name(option: str, folder: str) -> None:
    """Raise AuditUsageError if Spark would take the name for a pattern."""
    pattern = _PATTERN.search(folder)
    if pattern:
        reason = f"{pattern[0]!r} makes it a pattern for Spark, which would read several folders as one log"
        raise AuditUsageError(f"{option} {folder}: {reason}; name one folder, or a link to it without that character")


def is_local(folder: str, master: str) -> bool:
    """Whether Spark certainly reads the disk of this machine."""
    return master.startswith("local") and not _SCHEME.match(folder) and not any(map(os.environ.get, _ELSEWHERE))


def _check_log(place: Path) -> None:
    data = sorted(file for file in place.rglob("*") if file.is_file() and not file.name.startswith(("_", ".")))
    if not data:
        raise AuditUsageError(f"{place} holds no Parquet file: land the log there; an empty log is a file without rows")
    _check_schemas(place, data)


def _check_schemas(place: Path, data: Sequence[Path]) -> None:
    try:
        schemas = ((file, _schema(file)) for file in data)
        first, expected = next(schemas)
        other = next(((file, found) for file, found in schemas if found != expected), None)
    except (OSError, pa.ArrowException):
        return  # one is not Parquet, or cannot be read: Spark's own error says why
    if other is None:
        return
    file, found = other
    name = next(name for name in _COLUMNS if found.get(name) != expected.get(name))
    here, there = (f"{name} {kind[name]}" if name in kind else f"no {name}" for kind in (expected, found))
    differ = f"its files have different schemas ({first.relative_to(place)} has {here}, {file.relative_to(place)} has {there})"
    raise AuditUsageError(f"{place}: {differ}; land all files with the same columns and types")


def _schema(file: Path) -> Mapping[str, str]:
    schema = parquet.read_schema(file)
    return {name: str(schema.field(name).type) for name in _COLUMNS if name in schema.names}
