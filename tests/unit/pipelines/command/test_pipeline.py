import json
import sys
from pathlib import Path

import pytest

from pipelines.base import Endpoints, Topics
from pipelines.command.pipeline import CommandPipeline
from pipelines.command.placeholders import substituted

TOPICS = Topics("datasource-7", "datasink-7", 3)
ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092")


def copies(*run: str, **options: object) -> list[list[str]]:
    """The commands that the supervisor is given."""
    argv = CommandPipeline(run, "group", **options).command(ENDPOINTS, TOPICS, Path("/run")).argv
    assert argv[:4] == (sys.executable, "-m", "pipelines.command.supervisor", "--copies")
    found: list[list[str]] = json.loads(argv[4])
    return found


def test_every_placeholder_is_replaced() -> None:
    """Each by what its name says, also in the middle of a word."""
    words = ("{java}", "-cp={kafka_tools}", "{bootstrap}", "{source}:{sink}", "{folder}/x", "{suffix}")

    assert copies(*words, java="/jdk/java", kafka_tools="/a/*:/b/*") == [
        ["/jdk/java", "-cp=/a/*:/b/*", "link:9092", "datasource-7:datasink-7", "/run/x", "7"]
    ]


def test_a_command_with_a_partition_runs_once_for_each() -> None:
    """Otherwise once."""
    assert copies("copy", "{partition}") == [["copy", "0"], ["copy", "1"], ["copy", "2"]]
    assert copies("copy", "all") == [["copy", "all"]]


def test_a_value_is_not_looked_at_again() -> None:
    """A folder may be called as it likes."""
    assert substituted("{a}", {"a": "{b}", "b": "wrong"}) == "{b}"


def test_other_braces_stay() -> None:
    """JSON, shell and regular expressions have them too; a doubled placeholder is a literal one."""
    text = '{"a": {"b": 1}} ${HOME} x{2,3} {} {{sink}}'

    assert copies(text) == [['{"a": {"b": 1}} ${HOME} x{2,3} {} {sink}']]


@pytest.mark.parametrize("where", ["run", "group", "ids"])
def test_an_unknown_placeholder_is_named(where: str) -> None:
    """When it is declared, with those that there are."""
    declared = {"run": ("copy",), "group": "g", "ids": ("i",)}
    declared[where] = "g-{sinkk}" if where == "group" else ("{sinkk}",)

    with pytest.raises(ValueError, match=r"\{sinkk\} in '.*' is no placeholder; there are \{bootstrap\}, .*\{partition\}"):
        CommandPipeline(**declared)


def test_a_group_is_no_partitions_own() -> None:
    """Its position is asked for all partitions at once."""
    with pytest.raises(ValueError, match=r"group must not hold \{partition\}"):
        CommandPipeline(("copy",), "g-{partition}")


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
    """One that is given alone stands for all."""
    assert CommandPipeline(("copy",), "g", ids=ids).transactional_ids(TOPICS) == found


@pytest.mark.parametrize(("options", "words"), [({"run": ()}, "must name a command"), ({"model": "cube"}, "'cube' is none of")])
def test_what_cannot_be_meant_is_refused(options: dict[str, object], words: str) -> None:
    """Where it is declared."""
    with pytest.raises(ValueError, match=words):
        CommandPipeline(**({"run": ("copy",), "group": "g"} | options))
