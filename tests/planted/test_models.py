"""What a pipeline promises, as a pure model: the verifiers compare logs with this, so it must be right itself."""

from chaos.loader.declaration import FillSource
from chaos.subject import models

SOURCE = "partition int, offset long, key string, value string"


def test_the_square_of_each_id_is_demanded_once_where_it_was_read(spark):
    """The square of -4 is 16 as well, and a number of ten digits does not overflow."""
    rows = [(0, 7, "3", "3"), (1, 0, "4", "-4"), (2, 5, "5", "3037000500")]

    found = models.expected(spark.createDataFrame(rows, SOURCE), "square").orderBy("id").collect()

    assert [tuple(row) for row in found] == [
        (3, 0, "9", True, 7),
        (4, 1, "16", True, 0),
        (5, 2, "9223372037000250000", True, 5),
    ]


def test_a_copy_of_each_id_is_demanded_once_where_it_was_read(spark):
    """Its value may be any text, or none; the first record counts, whatever its value is."""
    rows = [(0, 7, "3", "b"), (0, 8, "3", "a"), (1, 0, "4", None), (1, 1, "4", "c")]

    found = models.expected(spark.createDataFrame(rows, SOURCE), "identity").orderBy("id").collect()

    assert [tuple(row) for row in found] == [(3, 0, "b", True, 7), (4, 1, None, True, 0)]


def test_an_id_that_is_in_the_source_twice_is_demanded_by_its_first_record(spark):
    """Else whether it is lost or pending would hang on chance."""
    rows = [(0, 9, "3", "3"), (0, 2, "3", "3")]

    (found,) = models.expected(spark.createDataFrame(rows, SOURCE), "square").collect()

    assert found["position"] == 2


def test_the_ledger_demands_what_was_acknowledged_and_allows_what_is_unknown(spark, tmp_path):
    """What was refused for good is not expected: if it is there, it is a phantom."""
    ledger = "id,outcome,partition,offset\n0,ok,0,0\n1,unknown,,\n2,fail,2,\n"
    (tmp_path / "ledger.csv").write_text(ledger, encoding="utf-8")

    found = FillSource(3, 1.0).expected(spark, tmp_path, 3).orderBy("id").collect()

    assert [tuple(row) for row in found] == [(0, 0, "0", True, None), (1, 1, "1", False, None)]
