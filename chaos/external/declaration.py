"""Declaration of an existing system: the file of ``--chaos-external``.

It is a separate file, because `scenarios.yaml` is the same on every system, while the address of a cluster and the login change
from machine to machine.

`chaos.scenario.support` knows which faults are possible on such a system.
"""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from chaos.grammar.base import Declared, Message, WrongValueError, did_you_mean, shown
from chaos.grammar.error_messages import mistakes
from chaos.grammar.units import SomeSeconds
from chaos.grammar.yaml_source import read, tree_of, wrong_at
from chaos.runtime.capabilities import Capability

_HOOK_VALUES = ("broker", "id", "host", "port")
_ADDRESS = re.compile(r"[^\s:,]+:([0-9]{1,5})|\[[0-9a-fA-F:]+\]:([0-9]{1,5})")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,62}[-._]")
_MASTER = re.compile(r"local\[([0-9]+|\*)\]|spark://\S+|yarn|k8s://\S+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_MOST_PORT = 65_535
_NOTHING = Message("no-external-system", "the file declares no system; begin with `version: 1`, `bootstrap:` and `prefix:`")
_OURS = ("bootstrap.servers", "security.protocol", "sasl.password", "sasl.jaas.config", "group.id", "transactional.id")

Text = Annotated[str, StringConstraints(min_length=1)]


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[1] or match[2]) <= _MOST_PORT:
        raise WrongValueError(
            "not-an-address", f"{shown(text)} is not an address; write HOST:PORT, e.g. kafka-1.example.org:9092"
        )
    return text


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise WrongValueError(
            "not-a-prefix",
            f"{shown(text)} is not a prefix; write four or more letters and digits that end with a hyphen, dot or underscore, "
            "e.g. chaos-alice-: runs may remove every topic and group that begins with it",
        )
    return text


def _command(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongValueError("not-a-command", f"{shown(text)} is not a command: {str(error).lower()}") from None
    if not words:
        raise WrongValueError("empty-hook", "this hook is empty; write a command")
    for name in _PLACEHOLDER.findall(text):
        if name not in _HOOK_VALUES:
            known = ", ".join(f"{{{word}}}" for word in _HOOK_VALUES)
            raise WrongValueError(
                "unknown-hook-value", f"{{{name}}} is not known here{did_you_mean(name, _HOOK_VALUES)}; there are {known}"
            )
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise WrongValueError(
            "not-a-variable", f"{shown(text)} is not the name of an environment variable; write letters, digits and underscores"
        )
    return text


def _set(name: str) -> str:
    if not os.environ.get(name, "").strip():
        raise WrongValueError(
            "variable-not-set",
            f"the variable {name} is not set, so there is no secret to hide; export it first, or remove it here",
        )
    return name


def _extra(options: Mapping[str, str]) -> Mapping[str, str]:
    taken = next((name for name in options if name in _OURS), None)
    if taken:
        raise WrongValueError(
            "option-taken", f"{taken!r} cannot be set here; it follows from `bootstrap`, `tls`, `sasl` and `prefix`"
        )
    return options


def _as_text(options: Any) -> Any:
    """Turn ``true`` and ``4`` into texts, the only values that clients take."""
    if not isinstance(options, Mapping):
        return options
    words = {True: "true", False: "false"}
    return {
        name: words[value] if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value
        for name, value in options.items()
    }


Address = Annotated[Text, AfterValidator(_address)]
Hook = Annotated[Text, AfterValidator(_command)]
Options = Annotated[dict[str, str], BeforeValidator(_as_text)]
ClientOptions = Annotated[Options, AfterValidator(_extra)]
Variable = Annotated[str, AfterValidator(_variable)]
SetVariable = Annotated[Variable, AfterValidator(_set)]


class Tls(Declared):
    """Files are PEM, and their paths are relative to the folder of this declaration."""

    ca: Text | None = None
    certificate: Text | None = None
    key: Text | None = None
    verify_hostname: Annotated[bool, Field(strict=True)] = True

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise WrongValueError(
                "certificate-without-key", "a certificate needs its key, and a key its certificate: write both, or neither"
            )
        return self


class Sasl(Declared):
    """A name and a password; the password is taken from the environment, so that no file contains it."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: Text
    password_env: Variable


class DeclaredSpark(Declared):
    """The Spark that runs the pipeline.

    ``executors: here`` means that executors run on this machine, as they always do with ``local[N]``. Only then can faults
    break their network, and kill them.
    """

    master: Text
    executors: Literal["here", "elsewhere"] = "elsewhere"
    driver_host: Text | None = None
    options: Options = Field(default_factory=dict, repr=False)

    @field_validator("master")
    @classmethod
    def _is_master(cls, text: str) -> str:
        if not _MASTER.fullmatch(text):
            raise WrongValueError(
                "not-a-master", f"{shown(text)} is not a Spark master; write spark://HOST:PORT, local[4], yarn or k8s://…"
            )
        return text

    @property
    def is_local(self) -> bool:
        """Whether driver and executor are one process."""
        return self.master.startswith("local[")

    @property
    def is_here(self) -> bool:
        """Whether every JVM of the pipeline runs on this machine."""
        return self.is_local or self.executors == "here"


class Hooks(Declared):
    """Commands that kill, start, pause or resume a broker; they run without a shell."""

    kill: Hook | None = None
    start: Hook | None = None
    pause: Hook | None = None
    resume: Hook | None = None
    within_s: SomeSeconds = Field(alias="within", default=60.0)

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if (self.pause is None) != (self.resume is None):
            raise WrongValueError(
                "pause-without-resume", "pause needs resume, and resume needs pause: a paused broker must be resumed"
            )
        if self.start is not None and self.kill is None:
            raise WrongValueError("start-without-kill", "start needs kill: no broker is ever started without it")
        return self


class External(Declared):
    """The whole file."""

    version: Literal[1]
    bootstrap: Annotated[tuple[Address, ...], Field(min_length=1)]
    prefix: Annotated[Text, AfterValidator(_prefix)]
    replication: Annotated[int, Field(strict=True, ge=1, le=9)] = 3
    tls: Tls | None = None
    sasl: Sasl | None = None
    librdkafka: ClientOptions = Field(default_factory=dict, repr=False)
    """further options of clients that are built on librdkafka."""
    java: ClientOptions = Field(default_factory=dict, repr=False)
    """further options of Java clients."""
    spark: DeclaredSpark = DeclaredSpark(master="local[2]")
    hooks: Hooks = Hooks()
    secrets: tuple[SetVariable, ...] = ()
    """variables whose values are hidden wherever hooks are recorded."""
    names: dict[int, Text] = Field(default_factory=dict)
    """node id -> the value of ``{broker}`` in hooks; the default is the advertised host."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Capabilities of this system for faults."""
        given = {
            Capability.LINKS: True,
            Capability.PLAIN_CONNECTIONS: self.tls is None,
            Capability.KILL_BROKERS: self.hooks.kill is not None,
            Capability.PAUSE_BROKERS: self.hooks.pause is not None,
            Capability.EXECUTOR_PROCESSES: self.spark.is_here and not self.spark.is_local,
        }
        return frozenset(capability for capability, is_given in given.items() if is_given)

    @property
    def is_plain(self) -> bool:
        """Whether connections are unencrypted and need no login."""
        return self.tls is None and self.sasl is None


def load(path: Path) -> External:
    """Read a file; its paths are relative to its folder.

    Raises:
        ScenarioError: the file cannot be read, or is wrong; one line for every error.
    """
    external, folder = load_text(read(path), path), path.absolute().parent
    if external.tls is None:
        return external
    names = {"ca": external.tls.ca, "certificate": external.tls.certificate, "key": external.tls.key}
    files = {name: str(folder / value) for name, value in names.items() if value is not None}
    return external.model_copy(update={"tls": external.tls.model_copy(update=files)})


def load_text(text: str, path: Path) -> External:
    """Read the text of a file; errors name `path`, and are those of `load`."""
    tree = tree_of(text, path, _NOTHING)
    try:
        return External.model_validate(tree)
    except ValidationError as error:
        raise wrong_at(mistakes(error, External), tree, path) from None
