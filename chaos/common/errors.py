"""Every error that this framework raises on purpose, in one tree.

A message says what is wrong, where, and what to do about it.
"""

import re


class ChaosError(Exception):
    """The root of the tree. Defects of the framework itself are not below it."""


class ScenarioError(ChaosError):
    """A scenarios file is wrong; the message has one line `file:line:col: what (did you mean …)` per error."""


class MisuseError(ChaosError):
    """A test uses the fixture `chaos` in a way that proves nothing: nothing started, nothing judged, two runs in one test."""


class RuntimeUnavailableError(ChaosError):
    """The system cannot run here: no JDK, no network with an empty cache, occupied ports, too little memory or disk."""


class PluginError(ChaosError):
    """Packages that add faults or verifiers cannot be used; the message has one line for each of their entry points."""


class DeadlineError(ChaosError):
    """A deadline passed; the message has the reason of the wait, its length, and the last observation."""


class StandstillError(DeadlineError):
    """The program under test does not move, so no later phase waits for it again."""


class InjectionError(ChaosError):
    """A fault could not be injected, or could not be healed."""


class ForeignNameError(ChaosError):
    """A topic or group that does not belong to this run would be made or removed on a cluster that others use."""


class InconclusiveError(ChaosError):
    """The run proved nothing (verdict UNKNOWN). Not an AssertionError, so Allure shows it as broken."""


class ProcessEndedError(InconclusiveError):
    """A process of the run has ended by itself; the message says how, and the last lines of its log that look like errors.

    Attributes:
        process: its name.
    """

    def __init__(self, process: str, message: str) -> None:
        super().__init__(message)
        self.process = process


class ViolationError(ChaosError, AssertionError):
    """The guarantee is broken (verdict INVALID), or a negative control came back VALID."""


def one_line(text: str, limit: int = 200) -> str:
    """Replace each run of white space by one space, and cut the text off at `limit` characters."""
    flat = re.sub(r"[ \t\r\n]+", " ", text).strip()
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
