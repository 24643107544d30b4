"""Servers beside Kafka: how they are declared, and what is refused before a run."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.external import declaration
from chaos.scenario.load import load_text, refused

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


def errors(text: str, runtime: str = "") -> list[str]:
    with pytest.raises(ScenarioError) as raised:
        load_text(text, Path("scenarios.yaml"), runtime)
    return str(raised.value).splitlines()


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
    ("service", "message"),
    [
        ("{}", "a service is started by a command, or is there already; write {run:"),
        ('{at: "h:1", run: ["{address}"]}', "a service is started by a command, or is there already; write {run:"),
        ('{at: "h:1", environment: {A: b}}', "environment is that of the command in run, and this service runs already"),
        ("{run: [serve]}", "{address} is missing: the service must listen there, where its links end"),
        ('{run: ["{address}", "{bootstrap}"]}', "{bootstrap} in '{bootstrap}' is not a placeholder; there are {address}, "),
        ('{at: "5432"}', "'5432' is not an address; write HOST:PORT, e.g. 127.0.0.1:5432"),
        ('{at: "h:70000"}', "'h:70000' is not an address; write HOST:PORT, e.g. 127.0.0.1:5432"),
    ],
)
def test_what_is_no_service(service: str, message: str) -> None:
    """Each is told at its place."""
    (error,) = errors(declared(service))

    assert error.startswith("scenarios.yaml:4:")
    assert message in error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Files", "'Files' is not the name of a service; write lower-case letters, digits and _"),
        ("bootstrap", "{bootstrap} stands for something else in a pipeline; choose another name for this service"),
        ("urls", "urls is the name of a topic as well, and {urls} can stand for one of them only; rename one"),
    ],
)
def test_a_name_that_a_service_cannot_have(name: str, message: str) -> None:
    """In a pipeline it stands for the address of its link."""
    text = declared(fault="", words="x").replace("    files:", f"    {name}:")

    assert any(message in error for error in errors(text))


def test_a_service_that_nobody_declares() -> None:
    """In the text of a pipeline, and as the end of a link."""
    assert any("{file} in '{file}' is not a placeholder" in error for error in errors(declared(words="{file}")))
    (error,) = errors(declared(fault=CUT.replace("service(files)", "service(fils)")))
    assert "there is no service 'fils' (did you mean files?); there are: files" in error


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            '{kind: hold_requests, request: Produce, link: "app->service(files)", when: {after: 1s}, for: 2s}',
            "service(files) speaks another protocol than Kafka's, so its requests are not known",
        ),
        (
            '{kind: crash_pipeline, when: {request: Produce, link: "app->service(files)"}}',
            "service(files) speaks another protocol than Kafka's, so its requests are not known",
        ),
        (CUT.replace("app->", "broker-1->"), "only clients connect to a service, and it connects to none; write pipeline->"),
        (CUT.replace("app->", "app<->"), "only clients connect to a service, and it connects to none; write pipeline->"),
        (CUT.replace("app->", "spark->"), "this pipeline does not run on Spark, so nothing would pass this link"),
        (CUT.replace("app->service(files)", "service(files)->broker-1"), "'service(files)' is not a broker"),
    ],
)
def test_faults_that_a_service_cannot_have(fault: str, message: str) -> None:
    """Nothing is known of its protocol."""
    (error,) = errors(declared(fault=fault))

    assert message in error


def test_containers_do_not_reach_it() -> None:
    """Its links are on loopback addresses of this machine."""
    (error,) = errors(declared(), "containers")

    assert error.startswith("scenarios.yaml:4:5: services are on loopback addresses of this machine")


def test_an_external_system_has_none() -> None:
    """Neither its link, nor its address in the text of a pipeline, which would be left as it is."""
    external = declaration.load_text("version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n", Path("external.yaml"))

    def told(**declaration: str) -> str:
        text = declared(**declaration).replace("group: g", 'group: "{prefix}g"')
        return str(refused(load_text(text, Path("scenarios.yaml")), ["a"], external))

    place = "scenarios.yaml:14:19: a: "
    assert told(fault="", words="{files}").startswith(
        f"{place}{{files}} is a service, which only a system of our own has links to;"
    )
    assert "service(files) is a part of a system of our own, and an external one has no links to it" in told(words="x")
    assert told(fault="", words="x") == "None"


KILLED = "{kind: crash_service, service: files, when: {after: 1s}}"


@pytest.mark.parametrize(
    ("service", "fault", "message"),
    [
        (RUN, KILLED.replace("files", "fils"), "there is no service 'fils' (did you mean files?); there are: files"),
        (AT, KILLED, "files runs already, and is not ours to kill; start it for each run"),
    ],
)
def test_a_service_that_cannot_be_killed(service: str, fault: str, message: str) -> None:
    """Only what a run starts can be started again by it."""
    (error,) = errors(declared(service, fault=fault))

    assert error.startswith("scenarios.yaml:15:45: ")
    assert message in error


def test_a_service_that_can_be_killed() -> None:
    """By a run of our own; where there are no services, this is what is told, and nothing of the fault."""
    file = load_text(declared(fault=KILLED), Path("scenarios.yaml"), "local")

    assert [fault.describe() for fault in file.scenario("a").faults] == ["crash_service service(files), restarted after 2 s"]
    (error,) = errors(declared(fault=KILLED), "containers")
    assert "services are on loopback addresses" in error
