import json
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.contract.base import Endpoints, Topic, Topics
from chaos.contract.placeholders import substituted
from chaos.scenario.pipelines.base import Tools
from tests import deployed

TOPICS = Topics((Topic("datasource-7", 3),), "datasink-7", suffix="7", names={"page-views": "page-views-7"})
ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092")


def copies(*run: str, **options: Any) -> list[list[str]]:
    """The commands that the supervisor is given."""
    argv = deployed.command(run, "group", **options).command(ENDPOINTS, TOPICS, Path("/run")).argv
    assert argv[:4] == (sys.executable, "-m", "chaos.contract.supervisor", "--copies")
    found: list[list[str]] = json.loads(argv[4])
    return found


def test_every_placeholder_is_replaced() -> None:
    """Also in the middle of a word."""
    words = ("{java}", "-cp={kafka_tools}:{packages}", "{bootstrap}", "{source}:{sink}", "{folder}/x", "{suffix}")
    tools = Tools("/jdk/java", "/a/*:/b/*", packages=("/c/d.jar", "/c/e.jar"))

    assert copies(*words, tools=tools, packages=("a:b:1",)) == [
        ["/jdk/java", "-cp=/a/*:/b/*:/c/d.jar:/c/e.jar", "link:9092", "datasource-7:datasink-7", "/run/x", "7"]
    ]


def test_a_command_with_a_partition_runs_once_for_each() -> None:
    """Otherwise once."""
    assert copies("copy", "{partition}") == [["copy", "0"], ["copy", "1"], ["copy", "2"]]
    assert copies("copy", "all") == [["copy", "all"]]


def test_placeholders_in_a_value_are_not_replaced() -> None:
    """The name of a folder may contain braces."""
    assert substituted("{a}", {"a": "{b}", "b": "wrong"}) == "{b}"


def test_other_braces_stay() -> None:
    """JSON, shell and regular expressions have them too; a doubled placeholder is a literal one."""
    text = '{"a": {"b": 1}} ${HOME} x{2,3} {} {{sink}}'

    assert copies(text) == [['{"a": {"b": 1}} ${HOME} x{2,3} {} {sink}']]


def test_the_name_of_a_topic_is_a_placeholder() -> None:
    """Also one with other characters than the others have; where there is no such topic, it is a text in braces."""
    assert copies("{page-views}", "{{page-views}}", "{page.views}", "{{page.views}}") == [
        ["page-views-7", "{page-views}", "{page.views}", "{{page.views}}"]
    ]


def test_without_a_group_nothing_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """No group is asked or seeded."""
    monkeypatch.setattr("chaos.contract.clients.Consumer", None)
    one = deployed.command(("copy",))

    one.prepare(ENDPOINTS, TOPICS)

    assert one.consumer_group(TOPICS) == ""


def test_a_group_is_not_that_of_one_partition() -> None:
    """It is asked for the positions in all partitions at once."""
    with pytest.raises(ValueError, match=r"group must not contain \{partition\}"):
        deployed.command(("copy",), "g-{partition}")


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ((), ()),
        (("t-{suffix}-{partition}",), ("t-7-0", "t-7-1", "t-7-2")),
        (("one",), ("one", "one", "one")),
        (("a", "b", "c"), ("a", "b", "c")),
    ],
)
def test_transactional_ids_are_by_partition(ids: tuple[str, ...], found: tuple[str, ...]) -> None:
    """A single id stands for all partitions."""
    assert deployed.command(("copy",), "g", transactional_ids=ids).transactional_ids(TOPICS) == found


@pytest.mark.parametrize(
    ("options", "words"), [({"run": ()}, "at least 1 item"), ({"expected": "cube"}, "'cube' does not define the expected rows")]
)
def test_impossible_values_are_refused(options: dict[str, Any], words: str) -> None:
    """Where they are declared."""
    with pytest.raises(ValueError, match=words):
        deployed.command(**({"run": ("copy",), "group": "g"} | options))
