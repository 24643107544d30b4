import os
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from chaos.install import class_archives
from chaos.install.class_archives import QUICK, Ingredients
from tests.unit.wording import keep, named


@pytest.fixture
def ingredients(tmp_path: Path) -> Ingredients:
    """A JDK, a Spark, Kafka's jars and a connector, as far as an archive knows them."""
    jdk, spark, kafka, connector = (tmp_path / name for name in ("jdk", "spark", "kafka", "connector"))
    for folder in (jdk / "bin", spark / "jars", kafka, connector):
        folder.mkdir(parents=True)
    (jdk / "release").write_text('JAVA_VERSION="17.0.1"', encoding="utf-8")
    connected = (connector / "y.jar", connector / "x.jar")
    for jar in (spark / "jars" / "slf4j-api-2.jar", spark / "jars" / "spark.jar", kafka / "b.jar", kafka / "a.jar", *connected):
        jar.touch()
    return Ingredients(jdk / "bin" / "java", spark, kafka, connected)


def test_without_an_archive_a_jvm_is_still_made_quick() -> None:
    """A missing archive is not an error anywhere."""
    assert class_archives.options(None) == QUICK


def test_an_archive_that_does_not_fit_is_ignored_silently(tmp_path: Path) -> None:
    """`auto` instead of `on`, and no log line that would end up in the output of a program."""
    options = class_archives.options(tmp_path / "some.jsa")

    assert options[: len(QUICK)] == QUICK
    assert {f"-XX:SharedArchiveFile={tmp_path}/some.jsa", "-Xshare:auto", "-Xlog:cds=off"} <= set(options)


def test_the_brokers_class_path_has_one_order(ingredients: Ingredients) -> None:
    """An archive fits a class path jar by jar, so a wildcard, whose order is not defined, would not do."""
    jars = ingredients.kafka_jars

    assert ingredients.class_paths()[class_archives.KAFKA] == f"{jars}/a.jar:{jars}/b.jar"


def test_sparks_class_path_is_the_launchers(ingredients: Ingredients) -> None:
    """Daemons share an archive with the drivers and executors that Spark's launcher starts."""
    spark, connector = ingredients.spark_home, ingredients.connector_jars[0].parent
    for jar in ("spark-sql_2.13-4.0.0.jar", "spark-core_2.13-4.0.0.jar", "spark-sql-kafka.jar"):
        (spark / "jars" / jar).touch()

    assert ingredients.class_paths()[class_archives.SPARK] == (
        f"{spark}/jars/spark-core_2.13-4.0.0.jar:{spark}/jars/spark-sql_2.13-4.0.0.jar:"
        f"{connector}/y.jar:{connector}/x.jar:{spark}/conf:{spark}/jars/slf4j-api-2.jar:{spark}/jars/*"
    )


def test_an_archive_depends_on_jdk_and_jars(ingredients: Ingredients) -> None:
    """A JDK that was updated in its place and a jar that was installed again both need another archive."""
    described = [ingredients.described()]

    def changed() -> None:
        described.append(ingredients.described())

    (ingredients.java.parent.parent / "release").write_text('JAVA_VERSION="17.0.2"', encoding="utf-8")
    changed()
    (ingredients.kafka_jars / "a.jar").write_bytes(b"another")
    changed()
    os.utime(ingredients.kafka_jars / "a.jar", (1, 1))
    changed()
    (ingredients.spark_home / "jars" / "new.jar").touch()
    changed()
    os.utime(ingredients.connector_jars[0], (1, 1))
    changed()

    assert len(set(described)) == 6
    assert ingredients.described() == described[-1]


def test_an_archive_that_cannot_be_made_is_reported_and_not_needed(ingredients: Ingredients, tmp_path: Path) -> None:
    """Class archives are a matter of speed: a Java that cannot make them stops nothing."""
    ingredients.java.write_text("#!/bin/sh\necho no room; exit 3\n", encoding="utf-8")
    ingredients.java.chmod(0o755)
    folder, said = tmp_path / "archives", list[str]()
    folder.mkdir()

    class_archives.make(ingredients, folder, said.append)

    (line,) = said
    named(line, " (3) no room (", "archives-*")
    assert [one.name for one in folder.iterdir()] == ["made-for"]
    assert class_archives.found(folder, class_archives.KAFKA) is None


def test_archives_of_a_spark_that_is_gone_are_removed(ingredients: Ingredients, tmp_path: Path) -> None:
    """An environment that was removed leaves 250 MB; archives of one that exists, and of earlier versions, are kept."""
    ingredients.java.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    ingredients.java.chmod(0o755)
    cache, gone = tmp_path / "cache", copytree(ingredients.spark_home, tmp_path / "gone")
    for name, home in (("gone", gone), ("here", ingredients.spark_home)):
        (cache / name).mkdir(parents=True)
        class_archives.make(replace(ingredients, spark_home=home), cache / name, lambda _line: None)
    (cache / "earlier").mkdir()
    (cache / "gone" / class_archives.SPARK).touch()
    rmtree(gone)

    class_archives.remove_useless(cache)

    assert sorted(one.name for one in cache.iterdir()) == ["earlier", "here"]


def test_archives_of_a_spark_that_was_installed_anew_are_removed(ingredients: Ingredients, tmp_path: Path) -> None:
    """A JVM compares the times of the jars, so these archives fit no more; a CI job installs Spark each time."""
    ingredients.java.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    ingredients.java.chmod(0o755)
    made = tmp_path / "cache" / "archives-1"
    made.mkdir(parents=True)
    class_archives.make(ingredients, made, lambda _line: None)
    later = (made / "made-for").stat().st_mtime + 60
    for jar in (ingredients.spark_home / "jars").glob("*.jar"):
        os.utime(jar, (later, later))

    class_archives.remove_useless(made.parent)

    assert not made.exists()


def test_an_archive_that_a_jvm_crashes_on_is_removed(ingredients: Ingredients, tmp_path: Path) -> None:
    """Whatever was written, each archive is tried on a JVM before it is kept."""
    ingredients.java.write_text("#!/bin/sh\nexit 134\n", encoding="utf-8")
    ingredients.java.chmod(0o755)
    folder, said = tmp_path / "archives", list[str]()
    folder.mkdir()
    (folder / class_archives.SPARK).touch()

    class_archives.make(ingredients, folder, said.append)

    assert all(word in said[-1] for word in ("spark.jsa", "134"))
    keep(said[-1])
    assert class_archives.found(folder, class_archives.SPARK) is None
