"""`system: {services: …}`: servers that a pipeline uses beside Kafka, each behind links of its own.

    system:
      services:
        files:    {run: ["{python}", "-m", "shop.file_server", "--listen={address}"]}     # started for each run anew
        postgres: {at: "127.0.0.1:5432"}                                                  # runs already

    pipelines:
      load: {run: ["{python}", "-m", "shop.load", "--files={files}", "--database={postgres}"], …}

    scenarios:
      - {…, faults: [{kind: cut_link, link: "app->service(files)", when: {progress: 30%}, for: 3s}]}

The name of a service is a placeholder in the texts of a pipeline: the address ``HOST:PORT`` of the link from the pipeline's
client to the service. The proxy does not know its protocol, so it cannot hold single requests.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.contract.placeholders import names_in, partly_substituted
from chaos.grammar.base import Declared, Message, Problem, WrongValueError, did_you_mean, shown
from chaos.grammar.targets import SERVICE_NAME
from chaos.grammar.units import text_of_setting
from chaos.scenario.topics import PLACEHOLDERS, unknown_placeholder

MOST_SERVICES = 9
KNOWN = ("address", "folder", "project", "python")
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):(?P<port>[1-9]\d{0,4})")
_EXAMPLE = '{run: ["{python}", "-m", "shop.file_server", "--listen={address}"]}, or {at: "127.0.0.1:5432"}'
_LAST_PORT = 65_535


def _host_and_port(value: Any) -> Any:
    found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found["port"]) > _LAST_PORT:
        raise WrongValueError("not-host-port", f"{shown(value)} is not an address; write HOST:PORT, e.g. 127.0.0.1:5432")
    return value


def _name(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(SERVICE_NAME, value):
        raise WrongValueError(
            "not-a-service-name", f"{shown(value)} is not the name of a service; write lower-case letters, digits and _"
        )
    if value in PLACEHOLDERS or value in KNOWN:
        raise WrongValueError(
            "service-name-taken", f"{{{value}}} has another meaning in a pipeline; choose another name for this service"
        )
    return value


class ServiceSpec(Declared):
    """A server that a pipeline uses beside Kafka; it runs already, or every run starts its own."""

    at: Annotated[str, BeforeValidator(_host_and_port)] | None = None
    """the address ``HOST:PORT`` of a service that runs already."""
    run: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """the command that starts it, in the folder of the run; it must listen at ``{address}``, and run until SIGTERM."""
    environment: dict[str, Annotated[str, BeforeValidator(text_of_setting)]] = Field(default_factory=dict)
    """environment variables of the command; their values may have the same placeholders: ``{address}``, ``{folder}``,
    ``{project}`` and ``{python}``.
    """

    @property
    def address(self) -> tuple[str, int] | None:
        """The address of a service that runs already; None if its start decides."""
        if self.at is None:
            return None
        host, _, port = self.at.rpartition(":")
        return host, int(port)

    def below(self, folder: Path) -> Self:
        """Replace ``{project}`` by the folder of the scenarios file."""
        project = {"project": str(folder.resolve())}
        run = tuple(partly_substituted(word, project) for word in self.run)
        environment = {name: partly_substituted(value, project) for name, value in self.environment.items()}
        return self.model_copy(update={"run": run, "environment": environment})

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if (self.at is None) == (not self.run):
            raise WrongValueError(
                "not-one-service", f"a service needs either run, its command, or at, its address; write {_EXAMPLE}"
            )
        if self.at is not None and self.environment:
            raise WrongValueError(
                "environment-without-command",
                "environment is for the command in run, but this service runs already; leave environment out",
            )
        for text in (*self.run, *self.environment.values()):
            if wrong := unknown_placeholder(text, KNOWN):
                raise WrongValueError(wrong.code, wrong)
        if self.run and "address" not in {name for word in (*self.run, *self.environment.values()) for name in names_in(word)}:
            raise WrongValueError("address-missing", "{address} is missing: the service must listen there, where its links end")
        return self


Services = Annotated[
    dict[Annotated[str, BeforeValidator(_name), Field(title="name of a service")], ServiceSpec], Field(max_length=MOST_SERVICES)
]


def problems(services: Collection[str], topics: Collection[str]) -> Iterator[Problem]:
    """Refuse services with the name of a topic, with their places in the system."""
    for name in services:
        if name in topics:
            text = f"{name} is also the name of a topic, so {{{name}}} would be ambiguous; rename one"
            yield ("services", name), Message("service-called-as-topic", text)


def unknown(name: str, services: Mapping[str, ServiceSpec]) -> Message | None:
    """Report a service that does not exist; None if it exists."""
    if name in services:
        return None
    there = f"there are: {', '.join(services)}" if services else "none is declared; write system: {services: {NAME: …}}"
    return Message("no-such-service", f"there is no service {name!r}{did_you_mean(name, services)}; {there}")
