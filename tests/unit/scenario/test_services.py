"""Servers beside Kafka: how they are declared, and what is refused before a run."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.external import declaration
from chaos.scenario.load import load_text, refused
from tests.unit.wording import mistakes_in

FILE = """\
version: 2
system:
  services:
    files: {service}
topics: {{urls: {{}}, rows: {{}}}}
scenarios:
  - name: a
    title: A server of files
    pipeline:
      kind: command
      reads: [urls]
      sink: {{topic: rows}}
      group: g
      run: [load, "{words}"]
    faults: [{fault}]
"""
RUN = '{run: ["{python}", serve.py, "{address}", "{project}/files"]}'
AT = '{at: "127.0.0.1:5432"}'
CUT = '{kind: cut_link, link: "app->service(files)", when: {after: 1s}, for: 2s}'


def declared(service: str = RUN, words: str = "--files={files}", fault: str = CUT) -> str:
    return FILE.format(service=service, words=words, fault=fault)


def errors(text: str, runtime: str = "") -> list[tuple[str, str]]:
    with pytest.raises(ScenarioError) as raised:
        load_text(text, Path("scenarios.yaml"), runtime)
    return mistakes_in(raised.value)


def test_a_service_that_a_run_starts(tmp_path: Path) -> None:
    """Its address is not known before the system is; the folder of the file is."""
    service = load_text(declared(), tmp_path / "scenarios.yaml").system.services["files"]

    assert service.address is None
    assert service.run == ("{python}", "serve.py", "{address}", f"{tmp_path.resolve()}/files")


@pytest.mark.parametrize(("at", "address"), [("127.0.0.1:5432", ("127.0.0.1", 5432)), ("db.shop:1", ("db.shop", 1))])
def test_a_service_that_runs_already(at: str, address: tuple[str, int]) -> None:
    """Only its address is declared."""
    file = load_text(declared(f'{{at: "{at}"}}'), Path("scenarios.yaml"))

    assert file.system.services["files"].address == address


@pytest.mark.parametrize(
    ("service", "code"),
    [
        ("{}", "not-one-service"),
        ('{at: "h:1", run: ["{address}"]}', "not-one-service"),
        ('{at: "h:1", environment: {A: b}}', "environment-without-command"),
        ("{run: [serve]}", "address-missing"),
        ('{run: ["{address}", "{bootstrap}"]}', "unknown-placeholder"),
        ('{at: "5432"}', "not-host-port"),
        ('{at: "h:70000"}', "not-host-port"),
    ],
)
def test_what_is_no_service(service: str, code: str) -> None:
    """Each is told at its place."""
    (error,) = errors(declared(service))

    assert error[0].startswith("4:")
    assert error[1] == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Files", "not-a-service-name"),
        ("bootstrap", "service-name-taken"),
        ("urls", "service-called-as-topic"),
    ],
)
def test_a_name_that_a_service_cannot_have(name: str, code: str) -> None:
    """In a pipeline it stands for the address of its link."""
    text = declared(fault="", words="x").replace("    files:", f"    {name}:")

    assert code in dict(errors(text)).values()


def test_a_service_that_nobody_declares() -> None:
    """In the text of a pipeline, and as the end of a link."""
    assert "unknown-placeholder" in dict(errors(declared(words="{file}"))).values()
    (error,) = errors(declared(fault=CUT.replace("service(files)", "service(fils)")))
    assert error[1] == "no-such-service"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (
            '{kind: hold_requests, request: Produce, link: "app->service(files)", when: {after: 1s}, for: 2s}',
            "request-of-service",
        ),
        (
            '{kind: crash_pipeline, when: {request: Produce, link: "app->service(files)"}}',
            "request-of-service",
        ),
        (CUT.replace("app->", "broker-1->"), "service-without-client"),
        (CUT.replace("app->", "app<->"), "service-without-client"),
        (CUT.replace("app->", "spark->"), "no-spark-client"),
        (CUT.replace("app->service(files)", "service(files)->broker-1"), "not-a-broker"),
    ],
)
def test_faults_that_a_service_cannot_have(fault: str, code: str) -> None:
    """Nothing is known of its protocol."""
    (error,) = errors(declared(fault=fault))

    assert error[1] == code


def test_containers_do_not_reach_it() -> None:
    """Its links are on loopback addresses of this machine."""
    assert errors(declared(), "containers") == [("4:5", "services-in-containers")]


def test_an_external_system_has_none() -> None:
    """Neither its link, nor its address in the text of a pipeline, which would be left as it is."""
    external = declaration.load_text("version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n", Path("external.yaml"))

    def found(**declaration: str) -> list[tuple[str, str]]:
        text = declared(**declaration).replace("group: g", 'group: "{prefix}g"')
        error = refused(load_text(text, Path("scenarios.yaml")), ["a"], external)
        return mistakes_in(error) if error else []

    assert found(fault="", words="{files}") == [("14:19", "service-outside")]
    assert [code for _, code in found(words="x")] == ["service-link-outside"]
    assert found(fault="", words="x") == []


KILLED = "{kind: crash_service, service: files, when: {after: 1s}}"


@pytest.mark.parametrize(
    ("service", "fault", "code"),
    [
        (RUN, KILLED.replace("files", "fils"), "no-such-service"),
        (AT, KILLED, "service-not-started"),
    ],
)
def test_a_service_that_cannot_be_killed(service: str, fault: str, code: str) -> None:
    """Only what a run starts can be started again by it."""
    (error,) = errors(declared(service, fault=fault))

    assert error == ("15:45", code)


def test_a_service_that_can_be_killed() -> None:
    """By a run of our own; where there are no services, this is what is told, and nothing of the fault."""
    file = load_text(declared(fault=KILLED), Path("scenarios.yaml"), "local")

    assert [fault.describe() for fault in file.scenario("a").faults] == ["crash_service service(files), restarted after 2 s"]
    (error,) = errors(declared(fault=KILLED), "containers")
    assert error[1] == "services-in-containers"
