"""Models in SQL or in Python: each anomaly with its exact count, where customers recur as keys."""

import re

import pytest

from chaos.common.errors import InconclusiveError
from chaos.contract.base import Topic, Topics
from chaos.engine.demand import with_demand
from chaos.engine.run_plan import RunPlan
from chaos.expectation.base import ModelError, nothing, view
from chaos.expectation.definitions import Function, Query
from chaos.expectation.model import Model
from chaos.judging.judge import check
from chaos.loader.declaration import FillSource, UserLoader
from chaos.matching import row_ids
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed
from tests.planted.examples import nightly
from tests.planted.log import table
from verifiers import evidence
from verifiers.base import Bounds, Evidence, Verdict

OBSERVED = "partition int, offset long, timestamp_ms long, key string, value string"
BOUNDS = {0: Bounds(0, 100, 100), 1: Bounds(0, 100, 100)}
LINES = row_ids.lines_of(BOUNDS)
NAMES = ("duplicates", "gaps", "ordering", "values", "offsets")
ENDS = {0: 30, 1: 30}
ORDERS = [(f"c-{number % 4}", f'{{"order": {number}, "amount": {number % 6}}}', number % 2) for number in range(60)]
AMOUNT = "get_json_object(value, '$.amount')"
LARGE = f"SELECT key, value, partition, offset FROM orders WHERE {AMOUNT} >= 2"  # noqa: S608 - a constant
BARE = f"SELECT key, value FROM orders WHERE {AMOUNT} >= 2"  # noqa: S608 - a constant
ORDER = "get_json_object(value, '$.order')"
TOTALS = f"SELECT key, CAST(sum(CAST({AMOUNT} AS BIGINT)) AS STRING) AS value FROM orders GROUP BY key"  # noqa: S608 - a constant
KEPT = [order for number, order in enumerate(ORDERS) if number % 6 >= 2]


def frame(spark, records):
    """Records of key, value and partition, at the offsets that follow from their order."""
    ends, found = {}, []
    for key, value, partition in records:
        place = ends.get(partition, 0)
        ends[partition] = place + 1
        found.append((partition, place, 1000 + 10 * len(found), key, value))
    return spark.createDataFrame(table(found, OBSERVED))


@pytest.fixture
def judged(spark, tmp_path):
    """Land a sink as a run does, read it again and judge it by a model; the findings by verifier."""

    def ask(model, sink, source=ORDERS, positions=ENDS, names=NAMES, **more):
        sources = {"orders": view(frame(spark, source)), "others": nothing(spark)}
        anywhere = more.pop("anywhere", False)
        numbering = model.numbering(spark, sources, positions, LINES, anywhere=anywhere)
        observed = frame(spark, sink)
        found = numbering(observed)
        reasons = {"unordered": found.unordered, "unsaid": found.unsaid, "anywhere": anywhere or found.anywhere}
        evidence.write(
            tmp_path, Evidence("sink", found.expected, observed, BOUNDS, positions, **found.views, **reasons, **more)
        )
        one = evidence.load(spark, tmp_path, "sink")
        return {name: check(name, one, LINES) for name in names}

    return ask


def verdicts(findings):
    """Verdict and count of those that found something."""
    return {name: (one.verdict.name, one.count) for name, one in findings.items() if one.verdict is not Verdict.VALID}


def shown(finding):
    """Anomaly, key, partition and offset of each example."""
    return [(one.anomaly, one.id, one.partition, one.offset) for one in finding.examples]


PLACED, PLACELESS = Model(Query(LARGE)), Model(Query(BARE))
BY_ORDER = Model(Query(LARGE), identity=ORDER)
BOTH = pytest.mark.parametrize(
    "model", [PLACED, *nightly(PLACELESS, BY_ORDER)], ids=["placed", "placeless", "identity"]
)  # the gate asks all three about all anomalies at once
ALL = pytest.mark.parametrize("model", [PLACED, PLACELESS, BY_ORDER], ids=["placed", "placeless", "identity"])


@BOTH
def test_a_filter_that_is_right(judged, model):
    """Every row was compared; where rows have no place in the source, their order is not asked, and it is said so."""
    findings = judged(model, KEPT)

    assert verdicts(findings) == {}
    assert {name: one.checked for name, one in findings.items() if one.asked} == dict.fromkeys(
        [name for name in NAMES if name != "ordering" or model is not PLACELESS], 40
    )
    assert findings["ordering"].asked is (model is not PLACELESS)
    assert ("40 of its rows" in findings["ordering"].note) is (model is PLACELESS)


def test_what_is_said_of_rows_without_a_place(judged, snapshot):
    """The note counts the rows without a place; their order is not judged."""
    assert judged(PLACELESS, KEPT, names=("ordering",))["ordering"].note == snapshot


@BOTH
def test_a_batch_that_is_written_again(judged, model):
    """As many duplicates as rows were written again, each with its key and place."""
    findings = judged(model, [*KEPT, *KEPT[20:27]])

    assert findings["duplicates"].count == 7
    late = {"ordering": ("INVALID", findings["ordering"].count)} if model is not PLACELESS else {}
    assert verdicts(findings) == {"duplicates": ("INVALID", 7)} | late
    assert [(anomaly, partition, offset) for anomaly, _, partition, offset in shown(findings["duplicates"])] == [
        *(("duplicate", 0, offset) for offset in range(20, 24)),
        *(("duplicate", 1, offset) for offset in range(20, 23)),
    ]
    keys = [str(one.id) for one in findings["duplicates"].examples]
    assert all(key.startswith("c-") for key in keys)
    assert all(key.endswith("]") for key in keys) is (model is BY_ORDER)


@BOTH
def test_rows_that_are_missing(judged, model):
    """Positions are past all of the source, so they are lost, and the positions were committed without them."""
    findings = judged(model, [row for number, row in enumerate(KEPT) if number not in {3, 17, 31}])

    assert verdicts(findings) == {"gaps": ("INVALID", 3), "offsets": ("INVALID", 3)}
    assert findings["gaps"].counts["lost"] == findings["offsets"].counts["behind"] == 3
    assert {"source partition" in one.words for one in findings["gaps"].examples} == {model is not PLACELESS}
    assert {one.partition < 0 for name in ("gaps", "offsets") for one in findings[name].examples} == {model is PLACELESS}


@BOTH
def test_a_wrong_value(judged, model):
    """It stands in the place of one of its key; with an identity, of the one that it names."""
    changed = list(KEPT)
    changed[5] = (KEPT[5][0], KEPT[5][1].replace('"amount"', '"sum"'), KEPT[5][2])

    findings = judged(model, changed)

    assert verdicts(findings) == {"values": ("INVALID", 1)}
    assert findings["values"].counts["wrong value"] == 1
    assert f"value {changed[5][1]}, expected {KEPT[5][1]}" in findings["values"].examples[0].words


@BOTH
def test_rows_that_no_source_demands(judged, model):
    """A row that the filter should drop, and one of an unknown customer, are one phantom each."""
    strays = [ORDERS[0], ORDERS[1], ("eve", "{}", 0)]

    findings = judged(model, [*KEPT, *strays])

    assert verdicts(findings) == {"values": ("INVALID", 3)}
    assert findings["values"].counts == {"wrong value": 0, "phantom": 3, "misrouted": 0, "undecodable": 0}
    assert sorted(key.split(" ")[0] for _, key, _, _ in shown(findings["values"])) == ["c-0", "c-1", "eve"]


@ALL
def test_all_of_them_at_once(judged, model):
    """Two missing, three again, one wrong, four that nothing demands: each is counted as what it is."""
    sink = [row for number, row in enumerate(KEPT) if number not in {8, 9}]
    sink[30] = (sink[30][0], '{"order": 50, "amount": 77}', sink[30][2])
    sink += [*KEPT[:3], *ORDERS[:2], *ORDERS[6:8]]
    # of a customer whose row is missing, a row that nothing demands stands in its place, unless orders tell them apart
    findings = judged(model, sink)

    wrong = findings["values"].counts
    assert findings["duplicates"].count == 3
    assert findings["gaps"].counts["lost"] + wrong["wrong value"] == 3
    assert wrong["phantom"] + wrong["wrong value"] == 5
    if model is BY_ORDER:
        assert (findings["gaps"].counts["lost"], wrong["wrong value"], wrong["phantom"]) == (2, 1, 4)


def test_another_order(judged):
    """Two rows of a partition have changed places."""
    swapped = [*KEPT[:4], KEPT[6], KEPT[5], KEPT[4], *KEPT[7:]]

    assert verdicts(judged(PLACED, swapped)) == {"ordering": ("INVALID", 1)}
    assert verdicts(judged(PLACELESS, swapped)) == {}


def test_another_key_of_the_same_order(judged):
    """An identity does not stand for the key: a row of another customer is not the one that is demanded."""
    changed = [("c-9", *KEPT[0][1:]), *KEPT[1:]]

    findings = judged(BY_ORDER, changed)

    assert verdicts(findings) == {"gaps": ("INVALID", 1), "values": ("INVALID", 1), "offsets": ("INVALID", 1)}
    assert findings["values"].counts["phantom"] == 1


def test_a_wrong_row_of_an_order_that_is_there(judged):
    """It is one too many of this order, and its value is wrong."""
    findings = judged(BY_ORDER, [*KEPT, (KEPT[0][0], KEPT[0][1].replace("}", ", }"), 0), ("c-0", '{"order": 0}', 0)])

    assert findings["values"].counts == {"wrong value": 0, "phantom": 2, "misrouted": 0, "undecodable": 0}
    findings = judged(BY_ORDER, [*KEPT, (KEPT[0][0], KEPT[0][1].replace('"amount": 2', '"amount": 9'), 0)])
    assert verdicts(findings) == {"values": ("INVALID", 1), "duplicates": ("INVALID", 1), "ordering": ("INVALID", 1)}


def test_totals_of_all_records(judged):
    """N to 1: a right total is VALID wherever it is; a wrong one is a wrong value, with both."""
    totals = {key: 0 for key, _, _ in ORDERS}
    for number, (key, _, _) in enumerate(ORDERS):
        totals[key] += number % 6
    right = [(key, str(total), number % 2) for number, (key, total) in enumerate(totals.items())]

    assert verdicts(judged(Model(Query(TOTALS)), right)) == {}
    wrong = judged(Model(Query(TOTALS)), [("c-0", "7", 1), *right[1:]])
    assert verdicts(wrong) == {"values": ("INVALID", 1)}
    assert wrong["values"].examples[0].words == f"value 7, expected {totals['c-0']}"
    assert verdicts(judged(Model(Query(TOTALS)), right[1:])) == {"gaps": ("INVALID", 1), "offsets": ("INVALID", 1)}


def test_several_rows_of_one_record(judged, snapshot):
    """1 to N: their places are those of their records; their order is not asked, but their partitions are."""
    sql = "SELECT key, CAST(part AS STRING) AS value, partition, offset FROM orders LATERAL VIEW explode(array(1, 2)) AS part"
    right = [(key, str(part), partition) for key, _, partition in ORDERS for part in (1, 2)]

    findings = judged(Model(Query(sql)), right)
    assert verdicts(findings) == {}
    assert "120 " in findings["ordering"].note
    assert findings["ordering"].note == snapshot
    assert (findings["gaps"].checked, findings["ordering"].asked) == (120, False)
    moved = [(*right[0][:2], 1), *right[1:]]
    assert judged(Model(Query(sql)), moved)["values"].counts["misrouted"] == 1
    assert verdicts(judged(Model(Query(sql)), moved, anywhere=True)) == {}
    assert verdicts(judged(Model(Query(sql)), right[2:])) == {"gaps": ("INVALID", 2), "offsets": ("INVALID", 2)}


def test_bytes_and_nulls(judged):
    """A model may give bytes, and pass on what is no text as it sees it."""
    source = [(None, "0xFF00", 0), ("a", None, 1), ("0x30783132", "x", 0)]
    model = Model(Query("SELECT IF(key IS NULL, NULL, CAST('0x12' AS BINARY)) AS key, value FROM orders"))
    right = [("0x30783132", None, 0), ("0x30783132", "x", 1), (None, "0xFF00", 0)]

    assert verdicts(judged(model, right, source)) == {}


# a source that was not processed to its end --------------------------------------------------------------------------------


def test_what_is_not_processed_yet(judged):
    """With places it is known which rows are due; what is missing of the others is pending, and what is there is ahead."""
    due = [row for number, row in enumerate(ORDERS) if number % 6 >= 2 and number < 40]

    findings = judged(PLACED, due, positions={0: 20, 1: 20})

    assert verdicts(findings) == {"gaps": ("UNKNOWN", 0)}
    assert findings["gaps"].counts == {"lost": 0, "pending": 40 - len(due), "recovered": 0, "absent": 0}
    ahead = judged(PLACED, KEPT, positions={0: 20, 1: 20})
    assert verdicts(ahead) == {"offsets": ("INVALID", 40 - len(due))}


@pytest.mark.parametrize(
    "model",
    [
        PLACELESS,
        Model(Query("SELECT key, CAST(count(*) AS STRING) AS value, 0 AS partition, 0 AS offset FROM orders GROUP BY key")),
    ],
    ids=["without places", "of other rows"],
)
def test_rows_of_which_it_is_not_known_whether_they_are_due(judged, model, snapshot):
    """Nothing is called wrong then, and nothing right; what needs no model is asked all the same."""
    findings = judged(model, KEPT, positions={0: 30, 1: 20}, names=(*NAMES, "hanging"))

    ((verdict, note),) = {(one.verdict, one.note) for name, one in findings.items() if name != "hanging"}
    assert (verdict, "(10 records are left)" in note) == (Verdict.UNKNOWN, True)
    assert note == snapshot
    assert "10 records" not in findings["hanging"].note


# bad input -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM orders",
        "SELECT key, value, 1 AS amount FROM orders",
        "SELECT key, key, value FROM orders",
        "SELECT key, offset AS value FROM orders",
        "SELECT key, value, offset FROM orders",
        "SELECT key, value, key AS partition, offset FROM orders",
    ],
)
def test_a_query_that_is_not_of_rows(spark, sql, snapshot):
    """One line names the mistake in its columns, before anything is read."""
    with pytest.raises(ModelError) as caught:
        Model(Query(sql)).require_known(spark, ["orders", "others"])

    assert str(caught.value) == snapshot


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
        ("SELECT key, value FROM order", "The view"),
        ("SELECT key, amount AS value FROM orders", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        ("DROP VIEW orders", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT key, value FROM orders; DROP VIEW orders", "[PARSE_SYNTAX_ERROR]"),
    ],
)
def test_a_query_that_cannot_be_asked(spark, sql, said):
    """In a line, before anything has been read; and where a name is not known, with those that there are."""
    with pytest.raises(ModelError) as caught:
        Model(Query(sql)).require_known(spark, ["orders", "others"])

    told = str(caught.value)
    assert said in told
    assert "\n" not in told
    if "TABLE_OR_VIEW_NOT_FOUND" in told or "UNRESOLVED" in told:
        assert told.endswith("The views are orders, others, with the columns key, value, partition, offset, timestamp.")


def test_views_are_gone_with_their_query(spark):
    """Another run in the same session would else read the topics of this one, in place of an error."""
    for topic in ("orders", "shop.orders-v1"):
        Model(Query(f"SELECT key, value FROM `{topic}`")).demanded(spark, {topic: frame(spark, ORDERS)})  # noqa: S608 - a constant

    assert [table.name for table in spark.catalog.listTables() if "orders" in table.name] == []


def test_a_query_that_fails_when_it_is_computed(judged):
    """It cannot be said what is expected, so nothing is VALID."""
    sql = "SELECT key, CAST(1 DIV (offset - 2) AS STRING) AS value FROM orders"

    (note,) = {one.note for one in judged(Model(Query(sql)), KEPT).values()}

    assert "pipeline, expected, sql: [DIVIDE_BY_ZERO]" in note


def test_a_place_that_the_source_does_not_have(judged, snapshot):
    """The query takes the place from somewhere else."""
    sql = "SELECT key, value, partition + 7 AS partition, offset FROM orders"

    (note,) = {one.note for one in judged(Model(Query(sql)), KEPT).values()}

    assert "partition 8" in note
    assert note == snapshot


@pytest.mark.parametrize("identity", ["get_json_object(valu, '$.order')", "1 +"])
def test_an_identity_that_cannot_be_read(spark, identity):
    """With the columns that it may use."""
    with pytest.raises(ModelError) as caught:
        Model(Query(LARGE), identity=identity).require_known(spark, ["orders"])

    assert caught.value.of_identity
    assert str(caught.value).endswith(" key, value.")


def test_an_identity_that_rows_of_the_sink_do_not_have(judged):
    """The sink is what fails; it is UNKNOWN, and the identity is named."""
    model = Model(Query(LARGE), identity=f"CAST({ORDER} AS INT)")

    findings = judged(model, [*KEPT, ("c-0", '{"order": "x"}', 0)])

    (note,) = {one.note for one in findings.values()}
    assert "pipeline, identity: [CAST_INVALID_INPUT]" in note


def test_a_topic_whose_name_needs_quotes(spark):
    """Names of Kafka are in backquotes where they are no names of SQL."""
    Model(Query("SELECT key, value FROM `shop.orders-v1`")).require_known(spark, ["shop.orders-v1"])
    assert spark.catalog.dropTempView("`shop.orders-v1`") is False  # nothing is left of it


# functions -----------------------------------------------------------------------------------------------------------------

MODULE = """
import warnings

from pyspark.sql import functions as F

def large(sources, spark):
    orders = sources["orders"]
    assert spark.range(1).count() == 1 and sources["others"].count() == 0
    return orders.where(F.get_json_object("value", "$.amount") >= 2).select("key", "value", "partition", "offset")

def doubled(sources, spark):
    twice = F.udf(lambda value: inner(value))
    return sources["orders"].select("key", twice("value").alias("value"))

def inner(value):
    return value * 2

def warns(sources, spark):
    warnings.warn("this is slow")
    return large(sources, spark)

def fails(sources, spark):
    return sources["orders"].select("amount")

def exits(sources, spark):
    raise SystemExit(3)

def nothing(sources, spark):
    return 7

NAME = "x"
"""


@pytest.fixture
def module(tmp_path):
    """The folder of a module with models."""
    (tmp_path / "shop_models.py").write_text(MODULE, encoding="utf-8")
    return lambda name, **more: Model(Function(f"shop_models:{name}", str(tmp_path)), **more)


def test_a_function(judged, module):
    """It is given what a query sees; a function of Spark's Python workers is found by them."""
    assert verdicts(judged(module("large"), KEPT)) == {}
    assert verdicts(judged(module("warns"), KEPT)) == {}  # although pytest makes errors of warnings here
    assert verdicts(judged(module("large"), [*KEPT, KEPT[-1]])) == {"duplicates": ("INVALID", 1)}
    assert verdicts(judged(module("doubled"), [(key, value * 2, partition) for key, value, partition in ORDERS])) == {}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "absent in shop_models"),
        ("NAME", "NAME in shop_models"),
        ("fails", "shop_models:fails raised AnalysisException: [UNRESOLVED_COLUMN"),
        ("exits", "shop_models:exits raised SystemExit: 3"),
        ("nothing", "shop_models:nothing returned "),
    ],
)
def test_a_function_that_gives_no_rows(judged, module, tmp_path, name, said, snapshot):
    """One line, with the place in the user's code where there is one."""
    (note,) = {one.note for one in judged(module(name), KEPT).values()}

    assert said in note
    assert note.partition("raised")[0].replace(str(tmp_path), "<folder>") == snapshot
    assert "\n" not in note
    if "raised" in said:
        assert note.endswith(")")
        assert "shop_models.py:" in note


def test_a_module_that_cannot_be_imported(spark, tmp_path):
    """Told before the pipeline starts; a module of the same name elsewhere does not hide one that is there."""
    said = r"^nowhere_at_all:f cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'$"
    (tmp_path / "broken.py").write_text("x = 1\nx +\n", encoding="utf-8")
    (tmp_path / "fails.py").write_text("x = 1\nx.y\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"^broken:f cannot be imported: SyntaxError: invalid syntax \(broken.py, line 2\)$"):
        Model(Function("broken:f", str(tmp_path))).require_known(spark, ["orders"])
    with pytest.raises(ModelError, match=r"^fails:f cannot be imported: AttributeError: .*fails.py:2\)$"):
        Model(Function("fails:f", str(tmp_path))).require_known(spark, ["orders"])
    with pytest.raises(ModelError, match=said):
        Model(Function("nowhere_at_all:f", str(tmp_path))).require_known(spark, ["orders"])
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        name = f"only_here_{number}"
        (folder / "same_name.py").write_text(f"def {name}(sources, spark): ...\n", encoding="utf-8")
        Model(Function(f"same_name:{name}", str(folder))).require_known(spark, ["orders"])


# before anything is sent ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "outputs"),
    [
        pytest.param(
            {"sql": "SELECT key, value FROM orders WHERE CAST(value AS INT) % 2 = 0 AND partition < 2 AND offset < 5"},
            5,
            id="some",
        ),
        pytest.param({"sql": "SELECT key, value FROM orders LATERAL VIEW explode(array(1, 2)) AS part"}, 60, id="two for each"),
        pytest.param({"sql": "SELECT key, value FROM orders WHERE timestamp IS NULL"}, ("sql: ", " 30 records"), id="none"),
        pytest.param({"sql": "SELECT key, amount AS value FROM orders"}, ("sql: [UNRESOLVED_COLUMN",), id="no such column"),
        pytest.param({"python": "nowhere_at_all:f"}, ("python: nowhere_at_all:f ", "ModuleNotFoundError"), id="no such module"),
    ],
)
def test_how_many_rows_will_come(spark, tmp_path, expected, outputs, snapshot):
    """As many as the model demands of what is declared; what is wrong with it is told now."""
    pipeline = {"kind": "command", "run": ["a"], "group": "g", "reads": ["orders"], "sink": {"topic": "kept"}}
    declared = {"name": "a", "title": "A", "pipeline": {**pipeline, "expected": expected}, "workload": {"records": 30}}
    scenario = Scenario.model_validate({**declared, "topics": {"orders": {}, "kept": {}}})
    loader, subject = FillSource(30, 100.0), deployed.command(("a",), "g")
    planned = RunPlan(
        scenario, plan(scenario, 1), tmp_path, Topics((Topic("orders-1", 3),), "kept-1"), (loader,), subject, "app"
    )

    if isinstance(outputs, int):
        assert with_demand(planned, lambda: spark).demanded == outputs
    else:
        with pytest.raises(InconclusiveError, match=r"^pipeline, expected, ") as caught:
            with_demand(planned, lambda: spark)
        assert [name for name in outputs if name not in str(caught.value)] == []
        assert str(caught.value).partition("[")[0] == snapshot  # what comes then is Spark's


@pytest.mark.parametrize(("asked", "said"), [("value", ""), ("amount AS value", "pipeline, expected, sql: [UNRESOLVED_COLUMN")])
def test_of_records_that_are_not_known_yet_the_query_alone_is_read(spark, tmp_path, asked, said):
    """A loader of the user's own sends them: how many rows they demand is not known, and is not waited for."""
    pipeline = {"kind": "command", "run": ["a"], "group": "g", "reads": ["orders"], "sink": {"topic": "kept"}}
    workload = {"records": 30, "rows": {"command": ["load"]}}
    pipeline |= {"expected": {"sql": f"SELECT key, {asked} FROM orders WHERE value = 'large'"}}  # noqa: S608 - a constant
    declared = {"name": "a", "title": "A", "pipeline": pipeline, "workload": workload, "topics": {"orders": {}, "kept": {}}}
    scenario, loader = Scenario.model_validate(declared), UserLoader(("load",), 30, 10.0, 1, {})
    topics, subject = Topics((Topic("orders-1", 3),), "kept-1"), deployed.command(("a",), "g")
    planned = RunPlan(scenario, plan(scenario, 1), tmp_path, topics, (loader,), subject, "app")

    if said:
        with pytest.raises(InconclusiveError, match=re.escape(said)):
            with_demand(planned, lambda: spark)
    else:
        assert with_demand(planned, lambda: spark) is planned
        assert (planned.expectation.counts_records, planned.demanded) == (True, 30)
