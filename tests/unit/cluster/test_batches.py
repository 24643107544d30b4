"""Record batches from their bytes: the layout is Kafka's message format 2."""

import struct

import pytest

from chaos.cluster.batches import Batch, parse


def batch(first, records, producer=-1, epoch=-1, attributes=0, body=b"", magic=2):  # noqa: PLR0913 - as many as a header has
    """Its bytes; what no reader of headers looks at is zero."""
    tail = struct.pack(">hiqqqhii", attributes, records - 1, 0, 0, producer, epoch, 0, records) + body
    return struct.pack(">qiibI", first, 9 + len(tail), 0, magic, 0) + tail


def marker(kind, timestamp_delta=b"\x00"):
    """A control record: length, attributes, timestamp delta, offset delta, length of the key (zigzag), key, value, headers."""
    return b"\x20\x00" + timestamp_delta + b"\x00\x08" + struct.pack(">hh", 0, kind) + b"\x0c" + bytes(6) + b"\x00"


def test_who_wrote_what():
    """Rows in no transaction, rows in one, and both kinds of marker."""
    data = batch(5, 3) + batch(8, 2, 7, 4, 0x10) + batch(10, 1, 7, 4, 0x30, marker(1)) + batch(11, 1, 8, 0, 0x30, marker(0))

    assert list(parse(2, data)) == [
        Batch(2, 5, 7, -1, -1, transactional=False, control=None),
        Batch(2, 8, 9, 7, 4, transactional=True, control=None),
        Batch(2, 10, 10, 7, 4, transactional=True, control="COMMIT"),
        Batch(2, 11, 11, 8, 0, transactional=True, control="ABORT"),
    ]


def test_a_number_of_several_bytes_before_the_key():
    """Varints have no fixed length."""
    data = batch(0, 1, 7, 0, 0x30, marker(1, timestamp_delta=b"\x80\x81\x01"))

    assert [one.control for one in parse(0, data)] == ["COMMIT"]


@pytest.mark.parametrize("missing", [1, 40, 75])
def test_a_batch_that_was_cut_off_is_left_out(missing):
    """A Fetch ends where its limit falls; the next one begins there again."""
    data = batch(0, 1) + batch(1, 1, body=bytes(20))

    assert [one.first_offset for one in parse(0, data[:-missing])] == [0]


def test_an_older_format_is_refused():
    """It has another header, and no transactions."""
    with pytest.raises(ValueError, match=r"the batch at offset 3 is of message format 1"):
        list(parse(0, batch(3, 1, magic=1)))


def test_an_unknown_marker_is_refused():
    """What it would end cannot be known."""
    with pytest.raises(ValueError, match="a control record of type 5"):
        list(parse(0, batch(0, 1, 7, 0, 0x30, marker(5))))
