"""A pipeline's promise as a pure model, which must be right, because the verifiers compare logs with it."""

from chaos.expectation.ways import copied
from chaos.loader.declaration import FillSource

SOURCE = "partition int, offset long, key string, value string"


def test_a_copy_of_each_id_is_demanded_once_where_it_was_read(spark):
    """Its value may be any text, or none; the first record counts, whatever its value is."""
    rows = [(0, 7, "3", "b"), (0, 8, "3", "a"), (1, 0, "4", None), (1, 1, "4", "c")]

    found = copied(spark.createDataFrame(rows, SOURCE)).orderBy("id").collect()

    assert [tuple(row) for row in found] == [(3, 0, "b", True, 7), (4, 1, None, True, 0)]


def test_an_id_that_is_in_the_source_twice_is_demanded_by_its_first_record(spark):
    """Else whether it is lost or pending would hang on chance."""
    rows = [(0, 9, "3", "3"), (0, 2, "3", "3")]

    (found,) = copied(spark.createDataFrame(rows, SOURCE)).collect()

    assert found["position"] == 2


def test_the_ledger_demands_what_was_acknowledged_and_allows_what_is_unknown(spark, tmp_path):
    """A record that was refused for good is not expected: in the log it is a phantom."""
    ledger = "id,outcome,partition,offset\n0,ok,0,0\n1,unknown,,\n2,fail,2,\n"
    (tmp_path / "ledger.csv").write_text(ledger, encoding="utf-8")

    found = FillSource(3, 1.0).expected(spark, tmp_path, 3).orderBy("id").collect()

    assert [tuple(row) for row in found] == [(0, 0, "0", True, None), (1, 1, "1", False, None)]
