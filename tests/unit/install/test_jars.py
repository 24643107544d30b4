import hashlib
import os
import stat
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import jars
from chaos.install.jars import Ivy, Jar
from tests.unit.wording import raised

SHA = "a" * 64
WANTED = (Jar("org.example", "thing", "1.0", hashlib.sha256(b"right").hexdigest()),)


def ivy(folder: Path, script: str) -> Ivy:
    """A stand-in for Ivy, because the real one does not fail on demand (it is used in `tests/integration/test_parts.py`).

    Args:
        script: shell; `$target` is where the jar belongs, `$attempt` counts from 1.
    """
    java, home = folder / "java", folder / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "ivy-1.jar").touch()
    count = f'echo >> "{folder}/attempts"; attempt=$(wc -l < "{folder}/attempts")'
    target = f'target="$(dirname "${{13}}")/{WANTED[0].file}"'
    java.write_text(f"#!/bin/sh\n{count}\n{target}\n{script}\n", encoding="utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return Ivy(java, home)


def attempts(folder: Path) -> int:
    """How often Ivy was started."""
    return len((folder / "attempts").read_text(encoding="utf-8").splitlines())


def fetch(tmp_path: Path, script: str) -> tuple[Path, list[str]]:
    """The folder afterwards, and the lines that were reported."""
    place, said = tmp_path / "place", list[str]()
    place.mkdir()
    jars.fetch(WANTED, place, ivy(tmp_path, script), said.append)
    return place, said


def lock(tmp_path: Path, text: str) -> Path:
    """A lock file."""
    path = tmp_path / "parts.lock"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_lock_has_sections_comments_and_classifiers(tmp_path: Path) -> None:
    """Every part of the file format is understood, and the order of the lines is kept."""
    path = lock(tmp_path, f"# about\n\n[one]\ng.h:b:1.0  {SHA}  # why\ng.h:a:2.0:tests  {SHA}\n[two]\n")

    assert jars.read_lock(path) == {"one": (Jar("g.h", "b", "1.0", SHA), Jar("g.h", "a", "2.0", SHA, "tests")), "two": ()}


@pytest.mark.parametrize("line", ["g:a 1.0 " + SHA, f"g:a:1.0:c:d  {SHA}", "g:a:1.0  " + "a" * 63, "g:a:1.0"])
def test_a_wrong_line_is_named_with_its_number(tmp_path: Path, line: str) -> None:
    """A mistake made while editing the lock by hand is reported with its place."""
    path = lock(tmp_path, f"[one]\ng:a:1.0  {SHA}\n{line}\n")

    with pytest.raises(RuntimeUnavailableError, match=r"parts\.lock:3: "):
        jars.read_lock(path)


def test_a_jar_above_all_sections_is_a_mistake(tmp_path: Path) -> None:
    """It would belong to no section, and silently be left out."""
    with pytest.raises(RuntimeUnavailableError, match=r"parts\.lock:1: .* below a \[section\]"):
        jars.read_lock(lock(tmp_path, f"g:a:1.0  {SHA}\n[one]\n"))


def test_our_own_lock_holds_a_broker_tools_and_a_connector() -> None:
    """The sections hold what a broker, Kafka's programs and Spark's connector cannot do without, and no jar twice."""
    sections = jars.read_lock()

    of_tables = ["delta 4.2", "delta 3.5", "iceberg 3.5", "postgresql"]
    assert list(sections) == ["kafka", "tools", "connector 4.2.0", "connector 3.5.7", *of_tables]
    assert {"kafka_2.13", "scala-library", "scala-logging_2.13", "snappy-java"} <= {jar.artifact for jar in sections["kafka"]}
    assert "spark-sql-kafka-0-10_2.13" in {jar.artifact for jar in sections["connector 4.2.0"]}
    assert "spark-sql-kafka-0-10_2.12" in {jar.artifact for jar in sections["connector 3.5.7"]}
    for wanted in sections.values():
        assert len({(jar.group, jar.artifact) for jar in wanted}) == len(wanted)


def test_kafkas_programs_are_of_the_brokers_version_and_bring_nothing_that_brokers_have() -> None:
    """They run with both folders on one class path, where a second version of a class would win or lose by chance."""
    sections = jars.read_lock()
    versions = {jar.artifact: jar.version for jar in sections["kafka"]}

    ours = versions["kafka_2.13"]
    assert {jar.artifact: jar.version for jar in sections["tools"]} == {"kafka-streams": ours, "kafka-tools": ours}
    assert not versions.keys() & {jar.artifact for jar in sections["tools"]}
    assert "argparse4j" in versions  # its options


def test_our_own_lock_names_no_host() -> None:
    """Where jars come from is decided by Ivy's settings or by CHAOS_MAVEN_MIRROR."""
    assert "//" not in jars.LOCK.read_text(encoding="utf-8")


def parsed(text: str) -> Element:
    """Parse XML that we wrote ourselves, so nothing in it is hostile."""
    return fromstring(text)  # noqa: S314 - see above


def test_ivy_is_asked_for_exactly_the_jars_of_the_lock() -> None:
    """Nothing comes transitively, so nothing comes that has no hash."""
    wanted = (Jar("g", "a", "1&2", SHA), Jar("g", "b", "3", SHA, "tests"))
    dependencies = parsed(jars.ivy_xml(map(jars._dependency, wanted))).findall(".//dependency")

    assert [(d.get("org"), d.get("name"), d.get("rev"), d.get("transitive")) for d in dependencies] == [
        ("g", "a", "1&2", "false"),
        ("g", "b", "3", "false"),
    ]
    assert [artifact.attrib for artifact in dependencies[1]] == [
        {"name": "b", "type": "jar", "ext": "jar", "{http://ant.apache.org/ivy/maven}classifier": "tests"}
    ]


def test_a_file_is_called_as_ivy_calls_it() -> None:
    """The name is made of all coordinates, so two jars never share a file."""
    assert Jar("g.h", "a", "1.0", SHA).file == "g.h__a-1.0.jar"
    assert Jar("g.h", "a", "1.0", SHA, "tests").file == "g.h__a-1.0-tests.jar"


@pytest.mark.parametrize(
    ("mirror", "root"), [(None, None), ("https://mirror.example/maven2/", "https://mirror.example/maven2/")]
)
def test_a_mirror_takes_the_place_of_maven_central(tmp_path: Path, mirror: str | None, root: str | None) -> None:
    """Without a mirror no root is written, which is Maven Central for Ivy."""
    resolver = parsed(jars.settings_xml(tmp_path, mirror)).find(".//ibiblio")

    assert resolver is not None
    assert resolver.get("root") == root


def test_the_mirror_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CHAOS_MAVEN_MIRROR reaches the settings that Ivy is started with."""
    monkeypatch.setenv("CHAOS_MAVEN_MIRROR", "https://mirror.example/")

    fetch(tmp_path, f'cp "$4" "{tmp_path}/seen"; printf right > "$target"')

    assert 'root="https://mirror.example/"' in (tmp_path / "seen").read_text(encoding="utf-8")


def test_what_came_right_is_kept_and_nothing_else(tmp_path: Path) -> None:
    """Ivy's own files do not stay: the folder is a class path."""
    place, said = fetch(tmp_path, 'printf right > "$target"')

    assert os.listdir(place) == [WANTED[0].file]  # noqa: PTH208 - names, to compare
    assert (said, attempts(tmp_path)) == ([], 1)


def test_a_wrong_jar_is_removed_reported_and_fetched_once_more(tmp_path: Path) -> None:
    """The line names the jar, the hash that was expected and the one that was found."""
    script = '[ $attempt = 1 ] && printf wrong > "$target"; [ -e "$target" ] || printf right > "$target"'
    place, said = fetch(tmp_path, script)

    assert (place / WANTED[0].file).read_bytes() == b"right"
    (line,) = said
    for part in ("removed", "org.example:thing:1.0", WANTED[0].sha256, hashlib.sha256(b"wrong").hexdigest()):
        assert part in line


def test_a_jar_that_is_wrong_twice_is_an_error(tmp_path: Path) -> None:
    """There is no third attempt: what is published has changed, or the lock is wrong."""
    with pytest.raises(RuntimeUnavailableError, match=r"org\.example:thing:1\.0 differs from parts\.lock"):
        fetch(tmp_path, 'printf wrong > "$target"')

    assert attempts(tmp_path) == 2


def test_a_download_that_broke_off_is_tried_once_more(tmp_path: Path) -> None:
    """A jar that is not there at all is treated like a wrong one."""
    place, said = fetch(tmp_path, '[ $attempt = 2 ] && printf right > "$target"; true')

    assert (place / WANTED[0].file).read_bytes() == b"right"
    assert len(said) == 1


def test_without_a_network_there_is_one_line_and_no_second_attempt(tmp_path: Path) -> None:
    """It says what is missing, and the three things to do about it."""
    with pytest.raises(jars.UnreachableError) as caught:
        fetch(tmp_path, "echo java.net.UnknownHostException: somewhere")

    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in ("(1: org.example:thing:1.0)", "network", "CHAOS_MAVEN_MIRROR", "CHAOS_CACHE"))
    assert attempts(tmp_path) == 1


def test_what_ivy_complains_about_is_passed_on(tmp_path: Path) -> None:
    """So a version that does not exist can be told from a network that does not answer."""
    with pytest.raises(RuntimeUnavailableError, match="WARN: unresolved dependency"):
        fetch(tmp_path, "echo chatter; echo 'WARN: unresolved dependency'")


class FakeIvy:
    """Ivy's answer, and the module that it was given."""

    def __init__(self, said: str, *made: str) -> None:
        self.said, self.made, self.module = said, made, ""

    def retrieve(self, _settings: Path, module: Path, target: Path) -> str:
        self.module = module.read_text(encoding="utf-8")
        for name in self.made:
            (target / name).write_bytes(b"jar")
        return self.said


def test_a_module_comes_with_all_that_it_needs(tmp_path: Path) -> None:
    """At run time; what it was compiled or tested with does not come."""
    ivy: Any = FakeIvy("", "g__a-1.jar", "h__b-2.jar")

    jars.resolve((jars.Module("g", "a", "1"),), tmp_path, ivy)

    (wanted,) = parsed(ivy.module).findall(".//dependency")
    assert wanted.attrib == {"org": "g", "name": "a", "rev": "1", "conf": "default->master,runtime"}
    assert {path.name for path in tmp_path.iterdir()} == {"g__a-1.jar", "h__b-2.jar"}


@pytest.mark.parametrize(
    ("said", "made", "names"),
    [
        (":: g#a;1: not found", (), ("g:a:1;", "Maven Central")),
        (":: UNRESOLVED DEPENDENCIES ::\n\t\t:: h#b;2: not found", ("g__a-1.jar",), ("h:b:2", "g:a:1")),
        (":: UNRESOLVED DEPENDENCIES ::\n ERROR x", ("g__a-1.jar",), ()),
        ("java.net.UnknownHostException: repo1", (), ("Maven Central", "1: g:a:1")),
    ],
    ids=["not there", "something that it needs is not there", "something that it needs", "no answer"],
)
def test_a_module_that_cannot_be_had(
    tmp_path: Path, monkeypatch, said: str, made: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """It does not exist, or something that it needs, or nobody answers."""
    monkeypatch.delenv("CHAOS_MAVEN_MIRROR", raising=False)
    ivy: Any = FakeIvy(said, *made)

    with raised(RuntimeUnavailableError, *names):
        jars.resolve((jars.Module("g", "a", "1"),), tmp_path, ivy)
