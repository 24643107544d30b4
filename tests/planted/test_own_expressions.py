"""An identity, or the value that a model demands, is made of one record alone; anything else is refused beforehand."""

from random import Random

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit import identity as audit_identity
from chaos.audit.logs import AuditUsageError
from chaos.expectation import expressions
from chaos.expectation.base import ModelError
from chaos.expectation.definitions import Query
from chaos.expectation.model import Model
from tests.planted.examples import EXAMPLES

COLUMNS = "key string, value string"
REFUSED = {  # with the error of Spark, where it is Spark that refuses it
    "max({0})": "INVALID_WHERE_CONDITION",
    "count(*)": "INVALID_WHERE_CONDITION",
    "row_number() OVER (ORDER BY {0})": "not allowed",
    "explode(split({0}, ','))": "UNSUPPORTED_GENERATOR",
    "uuid()": "",
    "concat({0}, rand())": "",
    "monotonically_increasing_id()": "",
    "'x'": "",
    "1 + 1": "",
    "current_date()": "",
    "nosuch": "UNRESOLVED_COLUMN",
    "nosuch({0})": "UNRESOLVED_ROUTINE",
    "{0} +": "PARSE_SYNTAX_ERROR",
    "": "PARSE_SYNTAX_ERROR",
}
SOUND = (
    "{0}",
    "left({0}, 3)",
    "get_json_object({0}, '$.id')",
    "concat({0}, '-', {1})",
    "{0} || coalesce({1}, 'none')",
    "md5({0})",
)
WRAPPED = ("{}", "upper({})", "coalesce({}, 'none')", "substring({}, 1, 9)", "concat({}, '!')")


def expression(random: Random, forms: tuple[str, ...]) -> str:
    """One of the forms, over columns in any order, perhaps within other functions."""
    columns = random.sample(["key", "value"], 2)
    return random.choice(WRAPPED).format(random.choice(forms).format(*columns))


@pytest.fixture
def nothing(spark):
    return spark.createDataFrame([], COLUMNS)


@pytest.mark.parametrize("sql", list(REFUSED))
def test_an_identity_that_is_none(spark, nothing, sql, snapshot):
    """An audit, its queries and a scenario's pipeline all refuse it."""
    said = sql.format("key", "value")

    why = expressions.why_no_sql(nothing, said)
    assert REFUSED[sql] in why
    assert REFUSED[sql] or why == snapshot
    with pytest.raises(AuditUsageError, match="--identity "):
        audit_identity.require_known(spark, said or " ", audit_identity.model("identity"), headers=False)
    if said:
        with pytest.raises(ModelError) as raised:
            Model(Query("SELECT key, value FROM orders"), identity=said).require_known(spark, ["orders"])
        assert raised.value.of_identity


def test_identities_that_are_none_however_they_are_written(nothing):
    """The reason may lie deep within."""
    random, forms = Random(1), tuple(form for form in REFUSED if form not in {"", "{0} +", "explode(split({0}, ','))"})
    for _ in range(EXAMPLES.max_examples):
        sql = expression(random, forms)
        assert expressions.why_no_sql(nothing, sql), sql


def test_sound_identities_and_models(spark, nothing):
    """None of them is refused."""
    random = Random(2)
    for _ in range(EXAMPLES.max_examples):
        sql = expression(random, SOUND)
        assert expressions.why_no_sql(nothing, sql) == "", sql
        audit_identity.require_known(spark, sql, lambda _value, sql=sql: F.expr(sql), headers=False)
    for sql in ("headers[0].value", "get(filter(headers, one -> one.key = 'a'), 0).value"):
        audit_identity.require_known(spark, sql, audit_identity.model("identity"), headers=True)


@pytest.mark.parametrize(
    ("demanded", "why"),
    [
        (F.max, "INVALID_WHERE_CONDITION"),
        (lambda _value: F.rand(), "another value each time"),
        (lambda _value: F.current_date(), "another value each time"),
        (lambda value: F.explode(F.array(value, value)), "UNSUPPORTED_GENERATOR"),
        (lambda _value: F.col("nosuch"), "UNRESOLVED_COLUMN"),
    ],
    ids=["aggregate", "random", "today", "generator", "unknown"],
)
def test_a_model_that_says_nothing_of_one_value(spark, demanded, why, snapshot):
    with pytest.raises(AuditUsageError, match=f"^--model: .*{why}") as caught:
        audit_identity.require_known(spark, "key", demanded, headers=False)
    assert str(caught.value).partition("[")[0] == snapshot  # what comes then is Spark's


@pytest.mark.parametrize("demanded", [lambda _value: F.lit("x"), F.length, F.upper], ids=["constant", "number", "text"])
def test_a_model_of_one_value(spark, demanded):
    """A constant is one, too: a pipeline may write it."""
    assert isinstance(demanded(F.col("value")), Column)
    audit_identity.require_known(spark, "dense-key", demanded, headers=True)
