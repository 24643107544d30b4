from dataclasses import dataclass

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from pipelines.transactional.delivery import BrokenError, Place
from pipelines.transactional.pipeline import ConsumeTransformProduce
from pipelines.transactional.worker import begins, member, transformed


@dataclass
class Record:
    """A stand-in for what a consumer returns."""

    at: tuple[int, int]
    of_key: bytes | None
    of_value: bytes | None

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> bytes | None:
        return self.of_key

    def value(self) -> bytes | None:
        return self.of_value


def test_a_row_goes_to_the_partition_its_record_came_from():
    """With its key, squared; the ends are the positions to read on from. Big numbers stay exact."""
    big = 10**18 + 1

    batch = transformed([Record((0, 7), b"3", b"3"), Record((2, 0), b"b", str(big).encode()), Record((0, 9), None, b"-4")])

    assert batch.rows == [(0, b"3", b"9"), (2, b"b", str(big * big).encode()), (0, None, b"16")]
    assert batch.ends == {0: 10, 2: 1}


@pytest.mark.parametrize("value", [None, b"", b"1.5", b"\xff"])
def test_a_value_that_is_not_an_integer_ends_the_worker_with_its_place(value):
    """To skip it silently would be a loss."""
    with pytest.raises(BrokenError, match="at offset 7 of partition 1 is not an integer"):
        transformed([Record((1, 7), b"k", value)])


def test_a_member_reads_committed_rows_and_does_not_guess_where_to_begin():
    """Its name decides which partitions it gets."""
    settings = member(1, ConsumeTransformProduce(), Place("link", "datasource-7", "datasink-7"))

    assert (settings["isolation.level"], settings["enable.auto.commit"]) == ("read_committed", False)
    assert settings["auto.offset.reset"] == "error"
    assert member(1, ConsumeTransformProduce(auto_offset_reset="latest"), Place("l", "s", "t"))["auto.offset.reset"] == "latest"
    assert (settings["client.id"], settings["group.id"]) == ("datasource-7-ctp-1", "datasource-7-ctp")


@pytest.mark.parametrize(("reset", "begin"), [("earliest", OFFSET_BEGINNING), ("latest", OFFSET_END)])
def test_what_is_read_again_begins_where_it_was_committed(reset, begin):
    """Or where `auto.offset.reset` says, if there is no position."""
    asked = [TopicPartition("datasource-7", partition) for partition in (0, 2)]

    assert begins(asked, {0: 11, 2: 0}, reset) == {0: 11, 2: 0}
    assert begins(asked, {0: 11}, reset) == {0: 11, 2: begin}
    assert begins(asked, {0: 11, 2: 0}, "error") == {0: 11, 2: 0}
    with pytest.raises(BrokenError, match="no position in datasource-7-2"):
        begins(asked, {0: 11}, "error")
