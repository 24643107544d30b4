"""The type of a text decides its meaning, however deep it is in a declaration."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from chaos.contract.placeholders import RESERVED
from chaos.grammar.base import Declared
from chaos.scenario.pipelines import KINDS
from chaos.scenario.texts import ProjectPath, Template, Text, below, paths_of, texts_of
from tests import deployed


class Inner(Declared):
    place: Annotated[str, Template(("suffix",))] | None = None


class Outer(Declared):
    plain: str = "{project}"
    script: Annotated[str, ProjectPath()] | None = None
    words: tuple[Annotated[str, Template()], ...] = ()
    settings: dict[str, Annotated[str, Template(more=("partition",))]] = Field(default_factory=dict)
    inner: Literal["none"] | Inner = "none"


WHOLE = Outer(script="job.py", words=("a", "{project}/b"), settings={"c": "{project}"}, inner=Inner(place="{project}-{suffix}"))


def test_texts_are_found_with_their_places() -> None:
    """A text that has no mark is none of them."""
    assert texts_of(WHOLE, ("project",)) == {
        ("words", 0): Text("a", ("project",)),
        ("words", 1): Text("{project}/b", ("project",)),
        ("settings", "c"): Text("{project}", ("project", "partition")),
        ("inner", "place"): Text("{project}-{suffix}", ("suffix",)),
    }
    assert paths_of(WHOLE) == ("job.py",)


def test_paths_begin_at_the_file(tmp_path: Path) -> None:
    """Its folder takes the place of its placeholder only where there is such a placeholder."""
    placed = below(WHOLE, tmp_path, ("project",))

    assert placed == Outer(
        script=f"{tmp_path}/job.py",
        words=("a", f"{tmp_path}/b"),
        settings={"c": str(tmp_path)},
        inner=Inner(place="{project}-{suffix}"),
    )


def test_what_is_not_there_stays_so(tmp_path: Path) -> None:
    """Also an empty text."""
    assert below(Outer(words=("",)), tmp_path, ("project",)) == Outer(words=("",))
    assert (texts_of(Outer()), paths_of(Outer())) == ({}, ())


def test_no_topic_is_called_as_a_placeholder_of_a_pipeline() -> None:
    """This holds for every kind of pipeline."""
    assert {name for kind in KINDS.values() for name in kind.PLACEHOLDERS} == RESERVED


def test_the_folder_may_stand_in_the_names_of_a_group_and_of_transactions(tmp_path: Path) -> None:
    """As in every other text of a command."""
    ids = ("{project}-{partition}",)
    command = deployed.command(("run",), "{project}-group", transactional_ids=ids).declared.below(tmp_path)

    assert (command.group, command.transactional_ids) == (f"{tmp_path}-group", (f"{tmp_path}-{{partition}}",))
