"""A broker's logs after a power failure, written here byte by byte."""

import struct

import pytest

from chaos.cluster import broker_disk
from chaos.cluster.broker_disk import ThrownAway

BATCH_BYTES = 61 + 9


def batch(base, records):
    """A record batch v2 with the fields that are read, its offsets and its length; the rest is filled up."""
    head = struct.pack(">qiibihi", base, BATCH_BYTES - 12, 0, 2, 0, 0, records - 1)
    return head.ljust(BATCH_BYTES, b"\0")


def segment(folder, first, *spans):
    """One segment with its indexes, and a snapshot of its producers; spans are (base, records)."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{first:020}.log"
    path.write_bytes(b"".join(batch(base, records) for base, records in spans))
    for suffix in (".index", ".timeindex", ".snapshot"):
        path.with_suffix(suffix).write_bytes(b"x")
    return path


def recovery_points(data, **points):
    """The file as Kafka writes it: version, count, a line for each."""
    lines = [f"{name.replace('_', '-')} 0 {offset}" for name, offset in points.items()]
    (data / "recovery-point-offset-checkpoint").write_text("\n".join(["0", str(len(points)), *lines, ""]))


def test_a_log_ends_after_its_last_whole_batch(tmp_path):
    """The death of the broker may leave a part of a batch, which does not count."""
    path = segment(tmp_path / "a-b-0", 0, (0, 5), (5, 3))
    path.write_bytes(path.read_bytes() + batch(8, 2)[:40])

    assert broker_disk.log_end(tmp_path, "a-b", 0) == 8


def test_an_empty_last_segment_ends_where_it_begins(tmp_path):
    """Right after a segment was rolled."""
    segment(tmp_path / "a-0", 0, (0, 5))
    segment(tmp_path / "a-0", 5)

    assert broker_disk.log_end(tmp_path, "a", 0) == 5


def test_a_partition_that_is_not_there_has_no_end(tmp_path):
    """It is not a partition of length zero."""
    with pytest.raises(FileNotFoundError, match="has no log of a-0"):
        broker_disk.log_end(tmp_path, "a", 0)


def test_what_was_not_flushed_is_thrown_away(tmp_path):
    """From the recovery point on; offsets and bytes are returned."""
    path = segment(tmp_path / "a-0", 0, (0, 5), (5, 3), (8, 2))
    recovery_points(tmp_path, a=5)

    assert broker_disk.lose_power(tmp_path) == {"a-0": ThrownAway(5, 10, 2 * BATCH_BYTES)}
    assert broker_disk.log_end(tmp_path, "a", 0) == 5
    assert path.stat().st_size == BATCH_BYTES


def test_a_topic_that_is_flushed_is_left_whole(tmp_path):
    """Whatever its recovery point is; a name that only begins like it is another topic."""
    for name in ("a-0", "a-1", "a-b-0"):
        segment(tmp_path / name, 0, (0, 5))

    assert list(broker_disk.lose_power(tmp_path, {"a"})) == ["a-b-0"]


def test_a_batch_around_the_recovery_point_goes_as_a_whole(tmp_path):
    """A batch can only be kept whole."""
    segment(tmp_path / "a-0", 0, (0, 5), (5, 3))
    recovery_points(tmp_path, a=6)

    assert broker_disk.lose_power(tmp_path) == {"a-0": ThrownAway(5, 8, BATCH_BYTES)}


def test_later_segments_go_with_their_indexes_and_snapshots(tmp_path):
    """So do the indexes of the segment that is cut, which the broker builds again; its snapshot is older than it, and stays."""
    first, second = segment(tmp_path / "a-0", 0, (0, 5)), segment(tmp_path / "a-0", 5, (5, 3))
    recovery_points(tmp_path, a=2)

    assert broker_disk.lose_power(tmp_path) == {"a-0": ThrownAway(0, 8, 2 * BATCH_BYTES)}
    assert sorted(path.name for path in (tmp_path / "a-0").iterdir()) == [first.name, first.with_suffix(".snapshot").name]
    assert first.stat().st_size == 0
    assert not second.exists()


def test_what_was_flushed_stays(tmp_path):
    """It is not in the answer either."""
    path = segment(tmp_path / "a-0", 0, (0, 5))
    recovery_points(tmp_path, a=5)

    assert broker_disk.lose_power(tmp_path) == {}
    assert path.with_suffix(".index").exists()


def test_a_partition_without_recovery_point_was_never_flushed(tmp_path):
    """The file is written once a minute: a young partition is not in it."""
    segment(tmp_path / "a-0", 3, (3, 5))
    recovery_points(tmp_path)

    assert broker_disk.lose_power(tmp_path) == {"a-0": ThrownAway(3, 8, BATCH_BYTES)}


def test_the_log_of_the_quorum_is_left_as_it_is(tmp_path):
    """It is flushed before it is acknowledged."""
    segment(tmp_path / "__cluster_metadata-0", 0, (0, 5))

    assert broker_disk.lose_power(tmp_path) == {}
    assert broker_disk.log_end(tmp_path, "__cluster_metadata", 0) == 5


def test_after_a_power_failure_no_shutdown_was_clean(tmp_path):
    """With the marker file a broker would not check its logs."""
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert broker_disk.was_clean(tmp_path)

    broker_disk.lose_power(tmp_path)

    assert not broker_disk.was_clean(tmp_path)
