from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.common.errors import InconclusiveError
from chaos.contract.checkpoint import checkpointed, of_query, planned


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """An empty checkpoint."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    return tmp_path


def plan(checkpoint: Path, batch: int, ends: str) -> None:
    """Spark's plan of a batch, as `OffsetSeqLog` writes it."""
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{metadata}\n{ends}", encoding="utf-8")


def commit(checkpoint: Path, batch: int) -> None:
    """Spark's word that all tasks of a batch ended."""
    (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")


def test_the_newest_committed_batch_counts(checkpoint: Path) -> None:
    """A batch that is planned and not committed may be written in part, so it does not count as progress; 10 comes after 9."""
    for batch, end in ((9, 90), (10, 100), (11, 110)):
        plan(checkpoint, batch, f'{{"source":{{"1":{end},"0":{end + 1}}}}}')
    for batch in (9, 10):
        commit(checkpoint, batch)

    assert checkpointed(checkpoint, "source") == {0: 101, 1: 100}


def test_nothing_is_committed_before_the_first_batch(tmp_path: Path) -> None:
    """A checkpoint that does not exist yet is not an error."""
    assert checkpointed(tmp_path / "checkpoint", "source") == {}


def test_files_that_are_no_batches_are_passed_over(checkpoint: Path) -> None:
    """Spark writes checksums and temporary files beside its logs."""
    plan(checkpoint, 3, '{"source":{"0":30}}')
    commit(checkpoint, 3)
    for name in (".3.crc", "4.tmp", ".4.0f2e.tmp"):
        (checkpoint / "commits" / name).write_text("v1", encoding="utf-8")

    assert checkpointed(checkpoint, "source") == {0: 30}


def test_a_query_of_several_sources(checkpoint: Path) -> None:
    """Each has a line of its own, in the order of the query; a dash stands for one that has nothing yet."""
    plan(checkpoint, 3, '-\n{"source":{"0":30}}\n{"other":{"0":7}}')
    commit(checkpoint, 3)

    assert checkpointed(checkpoint, "source") == {0: 30}
    assert checkpointed(checkpoint, "other") == {0: 7}


@pytest.mark.parametrize("torn", ["", "v1", "v1\n", '{"source":{"0":4', '{"another":{"0":40}}'])
def test_a_torn_plan_counts_as_absent(checkpoint: Path, torn: str) -> None:
    """Older progress is a safe answer, an exception or an invented position is not."""
    plan(checkpoint, 3, '{"source":{"0":30}}')
    (checkpoint / "offsets" / "4").write_text(torn, encoding="utf-8")
    for batch in (3, 4):
        commit(checkpoint, batch)

    assert checkpointed(checkpoint, "source") == {0: 30}


def test_a_commit_without_its_plan_counts_as_absent(checkpoint: Path) -> None:
    """Without the plan it is not known how far the batch went."""
    plan(checkpoint, 3, '{"source":{"0":30}}')
    for batch in (3, 4):
        commit(checkpoint, batch)

    assert checkpointed(checkpoint, "source") == {0: 30}


def below(folder: Path, *names: str) -> list[Path]:
    """Empty checkpoints in folders of their own."""
    for name in names:
        (folder / name / "offsets").mkdir(parents=True)
        (folder / name / "commits").mkdir()
    return [folder / name for name in names]


def test_the_checkpoint_is_that_of_the_query(checkpoint: Path) -> None:
    """Folders below it belong to the query, because sources keep their own logs there."""
    below(checkpoint, "sources")

    assert of_query(checkpoint, "source") == checkpoint


def test_a_query_may_have_a_folder_below_the_checkpoint(tmp_path: Path) -> None:
    """A job of several queries needs one for each; that counts which reads the topic."""
    first, second = below(tmp_path, "a", "deep/b")
    plan(first, 0, '{"other":{"0":5}}')
    assert of_query(tmp_path, "source") == tmp_path

    plan(second, 0, '{"source":{"0":30}}')

    assert of_query(tmp_path, "source") == second


def test_a_checkpoint_that_is_not_there_yet(tmp_path: Path) -> None:
    """Its own name is as good as any."""
    assert of_query(tmp_path / "checkpoint", "source") == tmp_path / "checkpoint"


def plan_by_id(checkpoint: Path, batch: int, *sources: str) -> None:
    """Spark's plan of a batch in format 2, as Spark 4.2 writes it."""
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.streaming.offsetLog.formatVersion":"2"}}'
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(("v2", metadata, *sources)), encoding="utf-8")


def test_format_2_names_each_source(checkpoint: Path) -> None:
    """By its number in the query, or by the name that the job gave it; a dash stands for one that has nothing yet."""
    plan_by_id(checkpoint, 3, '0:{"source":{"1":40,"0":30}}', "1:-", 'returns:{"other":{"0":7}}', "rate:12")
    commit(checkpoint, 3)

    assert checkpointed(checkpoint, "source") == {0: 30, 1: 40}
    assert checkpointed(checkpoint, "other") == {0: 7}
    assert checkpointed(checkpoint, "absent") == {}


def test_a_query_below_the_checkpoint_is_found_by_a_plan_in_format_2(tmp_path: Path) -> None:
    """As in format 1."""
    first, second = below(tmp_path, "a", "deep/b")
    plan_by_id(first, 0, '0:{"other":{"0":5}}')
    plan_by_id(second, 0, '0:{"source":{"0":30}}')

    assert of_query(tmp_path, "source") == second


def test_a_topic_that_several_sources_read_is_read_as_far_as_the_last_of_them(checkpoint: Path) -> None:
    """A query that joins a topic with itself; a partition that only one of them reads is where that one is."""
    plan(checkpoint, 3, '{"source":{"0":30,"1":9}}\n{"source":{"0":20,"2":5}}')

    assert planned(checkpoint, 3, "source") == {0: 20, 1: 9, 2: 5}


@pytest.mark.parametrize("torn", ["v2", "v2\n{}", "v2\n{}\n", "v2\n{}\n0", "v2\n{}\n0:", 'v2\n{}\n0:{"source":{"0":4'])
def test_a_torn_plan_in_format_2_counts_as_absent(checkpoint: Path, torn: str) -> None:
    """Wherever it was cut off."""
    plan_by_id(checkpoint, 3, '0:{"source":{"0":30}}')
    (checkpoint / "offsets" / "4").write_text(torn, encoding="utf-8")
    for batch in (3, 4):
        commit(checkpoint, batch)

    assert checkpointed(checkpoint, "source") == {0: 30}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('v3\n{}\n0:{"source":{"0":30}}', 1),
        ("version: 2\n{}\n", 1),
        ('v1\n{}\n0:{"source":{"0":30}}', 3),  # lines of format 2 below the word of format 1
        ('v1\n{}\n-\n{"source":{"0":"later"}}', 4),
        ('v1\n{}\n{"source":[30]}', 3),
        ('v1\n{}\n{"source":{"0":4\n-', 3),  # a line that is cut off before the last is no work of a crash
        ('v2\n{}\n0:1\n{"source";{"0";30}}\n2:-', 4),
        ('v2\n{}\n0:1:{"source":{"0":30}}', 3),
    ],
)
def test_a_format_that_nobody_knows_is_told_at_once_with_file_and_line(checkpoint: Path, text: str, line: int) -> None:
    """A plan that is taken for an absent one would be waited for until the drain is given up."""
    (checkpoint / "offsets" / "4").write_text(text, encoding="utf-8")
    commit(checkpoint, 4)

    with pytest.raises(InconclusiveError, match=rf"offsets/4, line {line}: '.*' has an unknown format"):
        checkpointed(checkpoint, "source")


@pytest.mark.parametrize("form", [plan, plan_by_id])
def test_every_cut_of_a_plan_is_absent_or_whole(checkpoint: Path, form: Callable[[Path, int, str], None]) -> None:
    """A crash may cut a file at any byte, and a position that is not there must not be invented."""
    form(checkpoint, 0, '{"source":{"0":30,"1":40}}' if form is plan else '0:{"source":{"0":30,"1":40}}')
    place = checkpoint / "offsets" / "0"
    whole = place.read_text(encoding="utf-8")

    for cut in range(len(whole)):
        place.write_text(whole[:cut], encoding="utf-8")
        assert planned(checkpoint, 0, "source") == {}, whole[:cut]
