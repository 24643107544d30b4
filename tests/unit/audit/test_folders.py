"""An audit reports mistakes of its folders before Spark starts."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.audit import folders
from chaos.audit.logs import AuditUsageError
from tests.unit.wording import keep

SCHEMA = {"partition": pa.int32(), "offset": pa.int64(), "key": pa.string(), "value": pa.string()}


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch):
    """Spark looks for folders here, whatever Hadoop this machine is configured for."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def land(place, name="part-0.parquet", **columns):
    """A file of a log, without rows; a column may be of another type, or be one more, or be none."""
    place.mkdir(parents=True, exist_ok=True)
    kinds = {name: kind for name, kind in (SCHEMA | columns).items() if kind is not None}
    parquet.write_table(pa.table({name: pa.array([], kind) for name, kind in kinds.items()}), place / name)


@pytest.fixture
def logs(tmp_path):
    """Two sound ones."""
    for side in ("source", "sink"):
        land(tmp_path / side)
        land(tmp_path / side, "part-1.parquet")
        (tmp_path / side / "_SUCCESS").touch()
        (tmp_path / side / ".part-0.parquet.crc").touch()
    return tmp_path


def refused(folder, master="local[*]"):
    """The message; empty where nothing is wrong."""
    try:
        folders.check_landed(str(folder), master)
    except AuditUsageError as error:
        return keep(str(error))
    return ""


def test_sound_folders(logs):
    """Also with columns that an audit does not read, and with logs that are single files."""
    land(logs / "sink", "part-2.parquet", producer=pa.int64())
    land(logs, "log", timestamp_ms=pa.int64())

    assert refused(logs) == ""
    assert refused(str(logs) + "/") == ""


@pytest.mark.parametrize("side", ["source", "sink"])
@pytest.mark.parametrize(
    ("column", "kind", "names"),
    [
        ("key", pa.binary(), ("key string", "key binary")),
        ("offset", pa.int32(), ("offset int64", "offset int32")),
        ("value", None, ("value string", "no value")),
        ("isolation", pa.string(), ("no isolation", "isolation string")),
        ("timestamp_ms", pa.int64(), ("no timestamp_ms", "timestamp_ms int64")),
    ],
)
def test_files_of_different_schemas(logs, side, column, kind, names):
    """Spark takes the schema of one of them: without `isolation` there, uncommitted rows would count as committed."""
    land(logs / side, "part-9.parquet", **{column: kind})

    said = refused(logs)
    assert said.startswith(f"{logs / side}: ")
    assert all(name in said for name in ("part-0.parquet", "part-9.parquet", *names))


def test_a_log_that_is_not_there(logs):
    (logs / "sink").rename(logs / "skin")

    said = refused(logs)
    assert said.startswith(f"{logs / 'sink'} ")
    assert "--landed" in said


def test_a_log_without_files(logs):
    """A writer that failed leaves such a folder; it is no log without records."""
    for file in (logs / "source").glob("*.parquet"):
        file.unlink()

    assert refused(logs).startswith(f"{logs / 'source'} holds no Parquet file")


@pytest.mark.parametrize("name", ["g*d", "go?d", "[g]ood", "{a,b}", "a\\b", "s3://bucket/*", "/*"])
def test_a_pattern_is_not_expanded(name):
    """Spark would read whatever it matches as one log."""
    assert "makes it a pattern for Spark" in refused(name)
    with pytest.raises(AuditUsageError, match=r"--landing .* makes it a pattern"):
        folders.check_landing(name, "local[*]")


@pytest.mark.parametrize(
    ("folder", "master"),
    [("s3://b/x", "local[2]"), ("hdfs:/x", "local"), ("file:/nowhere", "local"), ("nowhere", "spark://h:7077")],
)
def test_what_is_perhaps_elsewhere_is_left_to_spark(folder, master):
    assert refused(folder, master) == ""
    folders.check_landing(folder, master)


def test_a_path_may_be_of_hadoop(monkeypatch):
    """One without a scheme is where Spark is configured to look."""
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")

    assert refused("nowhere") == ""


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/x"])
def test_where_nothing_can_be_landed(tmp_path, place):
    (tmp_path / "file").touch()
    path = tmp_path / place

    with pytest.raises(
        AuditUsageError, match=r"--landing .*: cannot be written to: .*; name a folder or URL that Spark can write"
    ):
        folders.check_landing(str(path), "local[*]")


def test_where_logs_can_be_landed(tmp_path):
    """Nothing is made before the topics are read."""
    folders.check_landing(str(tmp_path / "a" / "b"), "local[*]")

    assert list(Path(tmp_path).iterdir()) == []
