"""A query that gives other rows each time demands nothing: it is refused before anything is compared."""

import pytest

from chaos.audit import identity as audit_identity
from chaos.audit import query as audit_expected
from chaos.audit.logs import AuditUsageError
from chaos.expectation.base import ModelError
from chaos.expectation.definitions import Query
from chaos.expectation.model import Model


def query(value="value", rest=""):
    """A copy, but for this."""
    return f"SELECT key, CAST({value} AS STRING) AS value FROM source {rest}"  # noqa: S608 - a test's own


VARY = [
    *("uuid()", "rand()", "rand(3)", "randn()", "random()", "shuffle(array(1, 2))[0]", "monotonically_increasing_id()"),
    *("current_timestamp()", "current_timestamp", "now()", "current_date", "curdate()", "unix_timestamp()", "localtimestamp()"),
    *("spark_partition_id()", "input_file_name()", "transform(array(1), x -> rand())[0]", "(SELECT max(now()) FROM source)"),
    *("year(current_date())", "date_add(current_date, -7)", "java_method('java.util.UUID', 'randomUUID')"),
    *("CASE WHEN key IS NULL THEN concat('x', uuid()) ELSE value END", "value IN (SELECT CAST(rand() AS STRING) FROM source)"),
]
VARYING_ROWS = [
    *("TABLESAMPLE (50 PERCENT)", "TABLESAMPLE (5 ROWS)", "TABLESAMPLE (50 PERCENT) REPEATABLE (3)", "LIMIT 3"),
    *("WHERE timestamp < now() - INTERVAL 1 DAY", "WHERE rand() < 0.5", "WHERE EXISTS (SELECT uuid() FROM source)"),
    *("WHERE key IN (SELECT key FROM source LIMIT 2)", "SORT BY offset LIMIT 2", "ORDER BY rand() LIMIT 2"),
    "UNION ALL SELECT * FROM (SELECT key, value FROM source LIMIT 1)",
]


@pytest.mark.parametrize("sql", [*map(query, VARY), *(query(rest=rest) for rest in VARYING_ROWS)])
def test_what_varies_is_refused(spark, sql, snapshot):
    """Whichever part of it does, in an audit and in a scenario."""
    with pytest.raises(AuditUsageError) as caught:
        audit_expected.require_known(spark, audit_expected.model(sql, "key"), ())

    assert "\n" not in str(caught.value)
    assert str(caught.value) == snapshot
    with pytest.raises(ModelError) as of_model:
        Model(Query(sql)).require_known(spark, ["source"])
    assert str(caught.value) == f"--expected-sql: {of_model.value}"


@pytest.mark.parametrize(
    "sql",
    [
        query(),
        query("date_add(timestamp, 7)"),
        query("'now() uuid() TABLESAMPLE LIMIT 3'"),
        query("first_value(value) OVER (PARTITION BY key ORDER BY offset)"),
        query("(SELECT max(offset) FROM source)"),
        query("unix_timestamp(timestamp)"),
        query(rest="ORDER BY partition, offset LIMIT 3"),
        query(rest="ORDER BY partition, offset LIMIT 3 OFFSET 1"),
        query(rest="WHERE value > (SELECT max(value) FROM source LIMIT 1)"),
        "SELECT key, value FROM (SELECT * FROM source ORDER BY partition, offset) WHERE key > 'a' LIMIT 2",
        "SELECT key, array_join(array_sort(collect_list(value)), ',') AS value FROM source GROUP BY key",
        "WITH a AS (SELECT key, max(value) AS value FROM source GROUP BY key) SELECT key, a.value FROM a JOIN a b USING (key)",
    ],
)
def test_what_is_the_same_each_time_is_asked(spark, sql):
    """Names of what varies in a text are no such thing, and a limit of rows in order takes the same ones."""
    audit_expected.require_known(spark, audit_expected.model(sql, "key"), ())


@pytest.mark.parametrize("identity", ["uuid()", "concat(key, current_date())", "rand()"])
def test_what_identifies_a_record_is_the_same_each_time(spark, identity):
    """With a model and with a query."""
    varies = r"^--identity .*: it may give another value each time"
    with pytest.raises(AuditUsageError, match=varies):
        audit_identity.require_known(spark, identity, audit_identity.model("identity"), headers=True)
    with pytest.raises(AuditUsageError, match=varies):
        audit_expected.require_known(spark, audit_expected.model(query(), identity), ())
