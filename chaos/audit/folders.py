"""The folders of an audit, looked at before Spark starts: what is wrong with them is told in a line, with what to do."""

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
    """Raise AuditUsageError where a folder of this machine does not hold two logs.

    Each log is a folder of Parquet whose files have the same schema: Spark reads all of them by the schema of one, and a column
    that this one lacks is not read.
    """
    _check_name("--landed", folder)
    for side in ("source", "sink") if _is_local(folder, master) else ():
        place = Path(folder, side)
        if not place.exists():
            raise AuditUsageError(f"{place} is not there: --landed names the folder of source/ and sink/")
        if place.is_dir():
            _check_log(place)


def check_landing(folder: str, master: str) -> None:
    """Raise AuditUsageError where nothing can be landed in a folder of this machine."""
    _check_name("--landing", folder)
    if not _is_local(folder, master):
        return
    try:
        files.require_folder(Path(folder))
    except OSError as error:
        why = f"cannot be written to: {error.strerror}"
        raise AuditUsageError(f"--landing {folder}: {why}; name a folder or URL that Spark can write to") from None


def _check_name(option: str, folder: str) -> None:
    pattern = _PATTERN.search(folder)
    if pattern:
        reason = f"{pattern[0]!r} makes it a pattern for Spark, which would read several folders as one log"
        raise AuditUsageError(f"{option} {folder}: {reason}; name one folder, by a link without that character if need be")


def _is_local(folder: str, master: str) -> bool:
    """Whether it is certain that Spark looks on this machine."""
    return master.startswith("local") and not _SCHEME.match(folder) and not any(map(os.environ.get, _ELSEWHERE))


def _check_log(place: Path) -> None:
    data = sorted(file for file in place.rglob("*") if file.is_file() and not file.name.startswith(("_", ".")))
    if not data:
        raise AuditUsageError(
            f"{place} holds no file of Parquet: land the log there; one without records is a file without rows"
        )
    _check_schemas(place, data)


def _check_schemas(place: Path, data: Sequence[Path]) -> None:
    try:
        schemas = ((file, _schema(file)) for file in data)
        first, expected = next(schemas)
        other = next(((file, found) for file, found in schemas if found != expected), None)
    except (OSError, pa.ArrowException):
        return  # one is not Parquet, or cannot be read: Spark says what is wrong
    if other is None:
        return
    file, found = other
    name = next(name for name in _COLUMNS if found.get(name) != expected.get(name))
    here, there = (f"{name} {kind.get(name, 'not at all')}" for kind in (expected, found))
    differ = f"its files have different schemas ({first.relative_to(place)} has {here}, {file.relative_to(place)} has {there})"
    raise AuditUsageError(f"{place}: {differ}; land all of it with the same columns and types")


def _schema(file: Path) -> Mapping[str, str]:
    schema = parquet.read_schema(file)
    return {name: str(schema.field(name).type) for name in _COLUMNS if name in schema.names}
