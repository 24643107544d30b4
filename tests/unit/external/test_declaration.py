"""The declaration of a system that is already there: its defaults, and every mistake with its place."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.external.declaration import External, load, load_text

LEAST = "version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n"
EXAMPLE = Path(__file__).parents[3] / "examples" / "external" / "external.yaml"


def read(*lines: str) -> External:
    """The smallest declaration, with these lines added from line 4 on."""
    return load_text(LEAST + "".join(f"{line}\n" for line in lines), Path("external.yaml"))


def errors(text: str) -> list[str]:
    """The lines of the error that a text causes."""
    with pytest.raises(ScenarioError) as caught:
        load_text(text, Path("external.yaml"))
    return str(caught.value).splitlines()


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

    assert "4:11: the variable OPS_PASSWORD is not set" in errors(f"{LEAST}secrets: [OPS_PASSWORD]\n")[0]


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
        ("spak: {}", "4:1: 'spak' is not known here (did you mean spark?)"),
        ("spark: {master: mesos}", "4:17: 'mesos' is not a Spark master; write spark://HOST:PORT, local[4], yarn or k8s://…"),
        ("tls: {certificate: a.pem}", "4:6: a certificate goes with its key: write both, or neither"),
        ("tls: {cert: a.pem}", "4:7: 'cert' is not known here"),
        ("sasl: {username: a}", "4:7: 'password_env' is missing"),
        ("sasl: {username: a, password_env: a-b}", "4:35: 'a-b' is not the name of an environment variable; write letters"),
        ("secrets: OPS", "4:10: 'OPS' is not a list; write [ … ]"),
        ("secrets: [$OPS]", "4:11: '$OPS' is not the name of an environment variable; write letters, digits and underscores"),
        ("secrets: [PATH, OPS_UNSET]", "4:17: the variable OPS_UNSET is not set, so there is nothing to hide; export it"),
        ("java: {bootstrap.servers: a}", "4:7: 'bootstrap.servers' cannot be set here"),
        ("hooks: {kill: 'a {brokr}'}", "4:15: {brokr} is not known here (did you mean broker?); there are {broker}, {id}"),
        ("hooks: {kill: 'a \"b'}", "4:15: 'a \"b' is not a command: no closing quotation"),
        ("hooks: {start: a}", "4:8: start goes with kill: without it, nothing would ever be started"),
        ("hooks: {pause: a}", "4:8: pause goes with resume: a broker that is paused must be resumed again"),
        ("replication: 0", "4:14: 0 is too small; the least is 1"),
    ],
)
def test_a_mistake_is_reported_with_its_place(line: str, error: str) -> None:
    """With line and column, what is wrong, and what may have been meant."""
    assert errors(f"{LEAST}{line}\n")[0].startswith(f"external.yaml:{error}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "1:1: there is no system here; begin with `version: 1`, `bootstrap:` and `prefix:`"),
        (LEAST.replace("kafka-1:9092", "kafka-1"), "2:13: 'kafka-1' is not an address; write HOST:PORT"),
        (LEAST.replace("kafka-1:9092", "kafka-1:90920"), "2:13: 'kafka-1:90920' is not an address"),
        (LEAST.replace("chaos-a-", "chaos"), "3:9: 'chaos' is not a prefix"),
        (LEAST.replace("chaos-a-", '""'), "3:9: this text must not be empty"),
        (LEAST.replace("chaos-a-", "__c-"), "3:9: '__c-' is not a prefix"),
        (LEAST.replace("version: 1", "version: 2"), "1:10: 2 is not known here; write 1"),
    ],
)
def test_a_prefix_that_guards_nothing_is_refused(text: str, error: str) -> None:
    """With an empty prefix, or one that a foreign topic may have by chance, we could remove that topic."""
    assert errors(text)[0].startswith(f"external.yaml:{error}")
