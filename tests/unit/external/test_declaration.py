"""The declaration of a system that is already there: its defaults, and every mistake with its place."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.external.declaration import External, load, load_text
from tests.unit.wording import mistakes_in

LEAST = "version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n"
EXAMPLE = Path(__file__).parents[3] / "examples" / "external" / "external.yaml"


def read(*lines: str) -> External:
    """The smallest declaration, with these lines added from line 4 on."""
    return load_text(LEAST + "".join(f"{line}\n" for line in lines), Path("external.yaml"))


def errors(text: str) -> list[tuple[str, str]]:
    """Place and code of each error in a text."""
    with pytest.raises(ScenarioError) as caught:
        load_text(text, Path("external.yaml"))
    return mistakes_in(caught.value)


def test_what_is_not_declared_has_a_default() -> None:
    """Three replicas, no login, Spark in the driver, and no hook."""
    external = read()

    assert (external.replication, external.is_plain, external.spark.master) == (3, True, "local[2]")
    assert external.spark.is_here
    assert external.hooks.kill is None


def test_the_example_is_right_and_its_paths_begin_at_its_folder() -> None:
    """A declaration can be used from any working directory."""
    external = load(EXAMPLE)

    assert external.tls is not None
    assert external.tls.ca == str(EXAMPLE.parent / "ca.pem")
    assert not external.is_plain


def test_options_are_texts_whatever_yaml_makes_of_them() -> None:
    """Clients take `true` and `4` only as texts."""
    assert read("librdkafka: {a: true, b: 4, c: v4}").librdkafka == {"a": "true", "b": "4", "c": "v4"}


def test_a_variable_that_is_empty_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused as one that is not set."""
    monkeypatch.setenv("OPS_PASSWORD", " ")

    assert errors(f"{LEAST}secrets: [OPS_PASSWORD]\n") == [("4:11", "variable-not-set")]


def test_options_are_not_in_the_text_of_a_declaration() -> None:
    """They may be secret, and pytest prints the arguments of every function that an error passed through."""
    external = read("java: {a: hunter2}", "librdkafka: {a: hunter2}", "spark: {master: yarn, options: {a: hunter2}}")

    assert external.spark.options == external.java == {"a": "hunter2"}
    assert "hunter2" not in repr(external)


@pytest.mark.parametrize(
    "master", ["local[4]", "local[*]", "spark://a:7077", "spark://a:1,b:2", "yarn", "k8s://https://a:6443"]
)
def test_every_kind_of_master_is_known(master: str) -> None:
    """YARN and Kubernetes are passed on to Spark."""
    assert read(f'spark: {{master: "{master}"}}').spark.is_here == master.startswith("local")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("spak: {}", ("4:1", "unknown-key")),
        ("spark: {master: mesos}", ("4:17", "not-a-master")),
        ("tls: {certificate: a.pem}", ("4:6", "certificate-without-key")),
        ("tls: {cert: a.pem}", ("4:7", "unknown-key")),
        ("sasl: {username: a}", ("4:7", "missing-key")),
        ("sasl: {username: a, password_env: a-b}", ("4:35", "not-a-variable")),
        ("secrets: OPS", ("4:10", "not-a-list")),
        ("secrets: [$OPS]", ("4:11", "not-a-variable")),
        ("secrets: [PATH, OPS_UNSET]", ("4:17", "variable-not-set")),
        ("java: {bootstrap.servers: a}", ("4:7", "option-taken")),
        ("hooks: {kill: 'a {brokr}'}", ("4:15", "unknown-hook-value")),
        ("hooks: {kill: 'a \"b'}", ("4:15", "not-a-command")),
        ("hooks: {kill: ' '}", ("4:15", "empty-hook")),
        ("hooks: {start: a}", ("4:8", "start-without-kill")),
        ("hooks: {pause: a}", ("4:8", "pause-without-resume")),
        ("replication: 0", ("4:14", "too-small")),
    ],
)
def test_a_mistake_is_reported_with_its_place(line: str, error: tuple[str, str]) -> None:
    """With line and column, what is wrong, and what may have been meant."""
    assert errors(f"{LEAST}{line}\n")[0] == error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ("1:1", "no-external-system")),
        (LEAST.replace("kafka-1:9092", "kafka-1"), ("2:13", "not-an-address")),
        (LEAST.replace("kafka-1:9092", "kafka-1:90920"), ("2:13", "not-an-address")),
        (LEAST.replace("chaos-a-", "chaos"), ("3:9", "not-a-prefix")),
        (LEAST.replace("chaos-a-", '""'), ("3:9", "empty-text")),
        (LEAST.replace("chaos-a-", "__c-"), ("3:9", "not-a-prefix")),
        (LEAST.replace("version: 1", "version: 2"), ("1:10", "unknown-choice")),
    ],
)
def test_a_prefix_that_guards_nothing_is_refused(text: str, error: tuple[str, str]) -> None:
    """With an empty prefix, or one that a foreign topic may have by chance, we could remove that topic."""
    assert errors(text)[0] == error
