"""Hooks: declared commands for operations on a broker that we cannot do ourselves, e.g. ``kubectl delete pod {broker}``.

They run without a shell. The declared text is split into words first and its placeholders are filled in afterwards, so that the
name of a broker cannot become a second word, let alone a second command.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from chaos.common import clock, processes
from chaos.common.errors import RuntimeUnavailableError

_SHOWN = 500
_HIDDEN = "***"
Kind = Literal["kill", "start", "pause", "resume"]


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values that must not be recorded, although a hook gets or prints them."""

    values: tuple[str, ...] = field(default=(), repr=False)

    def hidden_in(self, text: str) -> str:
        """Replace each of them in the text by three stars; the longest first, since one may be a part of another."""
        for value in sorted(self.values, key=len, reverse=True):
            text = text.replace(value, _HIDDEN)
        return text


NO_SECRETS = Secrets()


@dataclass(frozen=True, slots=True)
class HookRun:
    """The result of a hook, without secrets.

    Attributes:
        output: the end of its output, standard error last.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    took_s: float

    @property
    def facts(self) -> Mapping[str, Any]:
        """The result in the form of the history."""
        return {"argv": list(self.argv), "exit_code": self.exit_code, "output": self.output, "took_s": self.took_s}


class HookTexts(Protocol):
    """The declared commands, an attribute for each `Kind`; None for one that is not declared."""

    @property
    def within_s(self) -> float:
        """Time limit of each command, in seconds."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerHooks:
    """The hooks of one cluster.

    Attributes:
        values: node id -> placeholder -> its value.
    """

    declared: HookTexts
    values: Mapping[int, Mapping[str, object]]
    secrets: Secrets = NO_SECRETS

    def run(self, kind: Kind, number: int) -> HookRun | None:
        """Run a hook for a broker and wait for its end; None if it is not declared.

        Raises:
            RuntimeUnavailableError: it cannot be started, or does not end in time.
        """
        text: str | None = getattr(self.declared, kind)
        return None if text is None else run_hook(text, self.values[number], self.declared.within_s, self.secrets)


def run_hook(text: str, values: Mapping[str, object], within_s: float, secrets: Secrets = NO_SECRETS) -> HookRun:
    """Run one hook and wait for its end, whatever its exit code.

    Args:
        text: the declared text.
        values: placeholder -> its value.
        within_s: seconds after which it is killed.
        secrets: values to hide in the result or the error.

    Raises:
        RuntimeUnavailableError: it cannot be started, or does not end in time.
    """
    argv = hook_words(text, values)
    began_s = clock.monotonic_s()
    try:
        answer = processes.run(argv, within_s=within_s)
    except RuntimeUnavailableError as error:
        raise RuntimeUnavailableError(secrets.hidden_in(str(error))) from None  # its cause shows the whole command
    took_s = round(clock.monotonic_s() - began_s, 3)
    output = secrets.hidden_in(answer.stdout + answer.stderr)  # before it is cut: a part of a secret would not be found
    return HookRun(tuple(map(secrets.hidden_in, argv)), answer.returncode, output.strip()[-_SHOWN:], took_s)


def hook_words(text: str, values: Mapping[str, object]) -> tuple[str, ...]:
    """Split a hook into words and fill in its placeholders; other braces are left as they are."""
    return tuple(_filled(word, values) for word in shlex.split(text))


def _filled(word: str, values: Mapping[str, object]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", str(value))
    return word
