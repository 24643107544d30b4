"""Entry points: the classes behind them, and the messages for those that cannot be used."""

import re
import sys
from importlib.metadata import entry_points

import pytest

from chaos.common.errors import PluginError
from chaos.common.plugins import UnfitError, installed, listed, require
from chaos.faults.registry import _fault
from chaos.loader.generators import _made as _generator
from chaos.scenario.sinks.reader import _made as _reader
from chaos.scenario.verifiers import _made
from tests.unit.plugins import FAULT, VERIFIER, install
from tests.unit.wording import keep, raised

GROUP = "chaos.faults"


def found(made=lambda _name, thing: thing):
    return installed(GROUP, {"cut_link"}, made)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_what_a_package_adds_has_its_name_and_its_origin(site):
    """Reports and run directories say where a word comes from."""
    install(site, "shop-chaos", {f"{GROUP}: stall": "shop:THING", "chaos.verifiers: other": "shop:OTHER"}, shop="THING = 5")

    assert (found().things, found().problems) == ({"stall": 5}, ())
    assert found().used({"stall", "cut_link"}) == {"stall": "shop-chaos 1.0"}
    assert found().used({"cut_link"}) == {}
    require(found())


def test_the_packages_are_listed_with_what_they_add(site):
    """`chaos doctor` shows that a package was found, or that there is none."""
    verifiers = "chaos.verifiers"
    assert listed(found()) == "none"
    install(site, "shop-chaos", {f"{GROUP}: stall": "shop:ONE", f"{verifiers}: tidy": "shop:TWO"}, shop="ONE, TWO = 1, 2")
    install(site, "bank-chaos", {f"{GROUP}: rob": "bank:ONE"}, bank="ONE = 1")

    groups = found(), installed(verifiers, (), lambda _name, thing: thing)
    assert listed(*groups) == "bank-chaos 1.0: faults rob; shop-chaos 1.0: faults stall, verifiers tidy"


@pytest.mark.parametrize(
    ("point", "text", "said"),
    [
        (
            "stall = shop:THING",
            "import no_such_module",
            "it cannot be imported (ModuleNotFoundError: No module named ",
        ),
        ("stall = shop:THING", "", "it cannot be imported (AttributeError: "),
        ("stall = shop:THING", "THING = ", "it cannot be imported (SyntaxError: invalid syntax"),
        (
            "stall = shop:THING",
            "1 / 0",
            "it cannot be imported (ZeroDivisionError: division by zero); mend that package",
        ),
        ("cut_link = shop:THING", "THING = 5", "'cut_link' "),
        ("stall-it = shop:THING", "THING = 5", "'stall-it' "),
    ],
)
def test_an_entry_point_that_cannot_be_used(site, point, text, said):
    """One line with the package, the entry point, what is wrong, and the mend; nothing is raised until it is needed."""
    name, value = point.split(" = ")
    install(site, "shop-chaos", {f"{GROUP}: {name}": value}, shop=text)

    (problem,) = found().problems

    assert problem.startswith(f"shop-chaos 1.0: entry point {GROUP}: {point}: {said}")
    assert "\n" not in problem
    assert found().things == {}
    with pytest.raises(PluginError, match=r"^shop-chaos 1\.0: "):
        require(found())


def test_two_packages_with_one_name(site):
    """Neither is taken: which one would be, depended on the order of the path."""
    install(site, "shop-chaos", {f"{GROUP}: stall": "shop:THING"}, shop="THING = 5")
    install(site, "bank-chaos", {f"{GROUP}: stall": "bank:THING"}, bank="THING = 6")

    assert found().things == {}
    (problem,) = found().problems
    assert problem.startswith(f"bank-chaos 1.0 and shop-chaos 1.0: entry point {GROUP}: stall = ")
    keep(problem)
    assert {"stall = shop:THING", "stall = bank:THING"} <= set(re.split(": | and ", problem))


def test_all_problems_of_all_groups_are_told_at_once(site):
    """A package that is mended should not show its next defect only then."""
    install(site, "shop-chaos", {f"{GROUP}: a": "none:A", "chaos.verifiers: b": "none:B"})
    groups = [installed(group, (), lambda _name, thing: thing) for group in (GROUP, "chaos.verifiers")]

    with pytest.raises(PluginError) as caught:
        require(*groups)
    with pytest.raises(PluginError):
        listed(*groups)

    assert len(str(caught.value).splitlines()) == 2


def loaded(site, made, text, name, value):
    """The classes that one of the two groups finds in a module."""
    install(site, "shop-chaos", {f"test.group: {name}": value}, shop=text)
    (point,) = entry_points(group="test.group")
    return made(name, point.load())


@pytest.mark.parametrize(
    ("right", "wrong", "names"),
    [
        ("(FaultBase)", "", ("chaos.faults.base.FaultBase",)),
        ('"stall"', '"halt"', ("Stall ", 'kind: Literal["stall"]')),
        ("    needs = frozenset()\n", "", ("Stall ", "needs = frozenset({Capability.…})")),
    ],
    ids=["no fault", "another kind", "without needs"],
)
def test_a_class_that_is_not_a_fault_of_this_kind(site, right, wrong, names):
    """It would fail in the middle of a run, or be refused by the grammar with other words."""
    assert right in FAULT

    with raised(UnfitError, *names):
        loaded(site, _fault, FAULT.replace(right, wrong), "stall", "shop:Stall")


def test_a_class_that_is_a_fault(site):
    """Only the parts that the test before takes away are required."""
    assert loaded(site, _fault, FAULT, "stall", "shop:Stall").__name__ == "Stall"


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("class Tidy:", "def Tidy():", "class"),
        ('name = "tidy"', 'name = "neat"', "Tidy has the name 'neat'"),
        ('    guarantee = "everything is tidy"\n', "", "`guarantee`"),
        ('{"sink"}', '{"snik"}', "`subjects`"),
        ('frozenset({"sink"})', "frozenset()", "`subjects`"),
        ('{"told"}', '{"said"}', "`views`"),
        ('("untidy",)', "()", "`anomalies`"),
        ("def check", "def judge", "`check(evidence)`"),
    ],
)
def test_a_class_that_is_not_a_verifier(site, right, wrong, name):
    """It is told before anything is started, and not when a run is judged."""
    assert right in VERIFIER

    with raised(UnfitError, name):
        loaded(site, _made, VERIFIER.replace(right, wrong), "tidy", "shop:Tidy")


def test_a_verifier_that_is_right(site):
    """It is made without arguments."""
    assert loaded(site, _made, VERIFIER, "tidy", "shop:Tidy").anomalies == ("untidy",)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders = 7", "not a function"),
        ("def orders():\n    yield {}", "def rows(seed): …"),
        ("def orders(*, seed):\n    yield {}", "def rows(seed): …"),
    ],
    ids=["no function", "without a seed", "with a seed by name"],
)
def test_a_thing_that_is_not_a_generator(site, text, name):
    """It is told before anything is started."""
    with raised(UnfitError, name):
        loaded(site, _generator, text, "orders", "shop:orders")


def test_a_generator_that_is_right(site):
    """Whatever else it takes is asked for when a scenario uses it."""
    assert loaded(site, _generator, "def orders(seed, customers):\n    yield seed", "orders", "shop:orders")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("shelf = 5", "not a function"),
        (
            "def outer():\n    def shelf(spark, places):\n        return 5\n    return shelf\nshelf = outer()",
            "not a function of a module",
        ),
        ("def shelf(spark):\n    return 5", "first arguments"),
    ],
    ids=["no function", "inside another", "too few arguments"],
)
def test_a_thing_that_reads_no_sink(site, text, name):
    """It is told before anything is started."""
    with raised(UnfitError, name, "def read(spark, places): …"):
        loaded(site, _reader, text, "shelf", "shop:shelf")


def test_a_reader_is_found_where_its_package_is(site):
    """The Spark of a job imports it by its name, from that folder."""
    found = loaded(site, _reader, "def shelf(spark, places, name):\n    return 5", "shelf", "shop:shelf")

    assert (found.place, found.folder) == ("shop:shelf", str(site.resolve()))
