"""What a package says of itself, and what PyPI shows of it."""

import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.version import Version
from ruamel.yaml import YAML

import hatch_build

ROOT = Path(__file__).parents[3]
URL = "https://github.com/OWNER/NAME"
LINK = re.compile(r"\]\(([^)\s]+)\)")
NIGHT = ROOT / ".github" / "workflows" / "nightly.yml"


@pytest.fixture
def described(monkeypatch):
    """The metadata of a package that is built where the repository has this address; "" is no address."""

    def made(url):
        monkeypatch.setenv("PROJECT_URL", url)
        return ProjectMetadata(str(ROOT), PluginManager()).core

    return made


@pytest.fixture
def package(described):
    return described(URL)


def test_every_name_of_the_command_is_a_program(package):
    """Each leads to a function that there is."""
    assert set(package.scripts) == {"chaos", "kafka-spark-chaos"}
    for place in package.scripts.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))


def test_links_of_the_page_lead_to_files_of_the_tag(package):
    """A page of PyPI has no files beside it."""
    links = LINK.findall(package.readme)
    relative = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    inside = [link for link in links if link.startswith(URL)]

    assert len(inside) == len([link for link in relative if "://" not in link]) > 10
    assert {re.sub(rf"{URL}/(blob|raw)/v{package.version}/", "", link).partition("#")[0] for link in inside} == {
        link.partition("#")[0] for link in relative if "://" not in link
    }
    assert all(link.startswith("https://") for link in links)


def test_a_picture_is_shown_and_a_page_is_opened():
    """An address that is whole, and a place on the same page, stay as they are."""
    text = "![picture](docs/x.svg) [page](docs/x.md#part) [there](https://example.org/x) [here](#part)"
    led = f"![picture]({URL}/raw/v1/docs/x.svg) [page]({URL}/blob/v1/docs/x.md#part) "

    assert hatch_build.with_links_to(URL, "v1", text) == f"{led}[there](https://example.org/x) [here](#part)"


def test_without_an_address_none_is_made_up(described):
    """A fork, or a build by hand, is not sent to somebody else's repository."""
    package = described("")

    assert package.urls == {}
    assert package.readme == (ROOT / "README.md").read_text(encoding="utf-8")


def test_addresses_are_those_of_the_repository(package):
    assert set(package.urls) == {"Source", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(URL) for url in package.urls.values())


def test_it_may_be_uploaded(package):
    """PyPI refuses any package with a classifier `Private`, and knows no wheel for plain `linux`."""
    assert not any(one.startswith("Private") for one in package.classifiers)
    assert re.fullmatch(r"(many|musl)linux_[0-9_]+_[a-z]\w+", hatch_build._platform().partition(".")[0])


@pytest.fixture(scope="module")
def cells():
    """The versions that the night tests together."""
    return YAML(typ="safe").load(NIGHT)["jobs"]["supported"]["strategy"]["matrix"]["include"]


def test_versions_of_python_are_those_of_the_night(package, cells):
    """What is claimed is tested."""
    claimed = {one.rpartition(" ")[2] for one in package.classifiers if re.search(r"Python :: 3\.\d+$", one)}

    assert claimed == {cell["python"] for cell in cells}
    assert package.requires_python == f">={min(claimed)}"


@pytest.mark.parametrize("name", ["pyspark", "pytest"])
def test_the_oldest_and_the_newest_of_a_package_are_tested(package, cells, name):
    """A cell names the first numbers of a version; the newest is the one of this environment."""
    ranges = [one.specifier for one in map(Requirement, package.dependencies) if one.name == name]
    tested = {cell[name] for cell in cells}
    lowest = min(re.findall(r">=(\d[\d.]*)", ",".join(map(str, ranges))), key=Version)

    assert any(f"{cell}.".startswith(f"{lowest}.") for cell in tested)
    assert any(f"{version(name)}.".startswith(f"{cell}.") for cell in tested)
    assert all(any(one.contains(cell) for one in ranges) for cell in tested)


def test_the_page_names_what_the_night_tests(cells):
    """`docs/install.md` promises it."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))

    for name, key in {"Python": "python", "JDK": "java", "pytest": "pytest", "PySpark": "pyspark"}.items():
        assert set(rows[name].split(", ")) == {cell[key] for cell in cells}, name


@pytest.mark.parametrize(
    ("python", "pyspark", "allowed"), [("3.11", "3.5.7", True), ("3.12", "3.5.7", False), ("3.13", "4.0.0", True)]
)
def test_spark_3_is_for_python_3_11(package, python, pyspark, allowed):
    """It imports distutils, which Python 3.12 has no more."""
    (wanted,) = (
        one
        for one in map(Requirement, package.dependencies)
        if one.name == "pyspark" and one.marker.evaluate({"python_version": python})
    )

    assert wanted.specifier.contains(pyspark) == allowed
