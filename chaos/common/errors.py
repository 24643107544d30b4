"""Every error that this framework raises on purpose, in one tree.

A message says what is wrong, where, and what to do about it.
"""


class ChaosError(Exception):
    """The root: catching it catches nothing that is a defect of the framework itself."""


class ScenarioError(ChaosError):
    """A scenarios file is wrong; the message has one line `file:line:col: what (did you mean …)` per error."""


class RuntimeUnavailableError(ChaosError):
    """The system cannot be had: no JDK, no network with an empty cache, occupied ports, too little memory or disk."""


class DeadlineError(ChaosError):
    """A wait ran out; the message says what was waited for, for how long, and what was seen last."""


class InjectionError(ChaosError):
    """A fault could not be put in force, or not be healed."""


class ForeignNameError(ChaosError):
    """A topic or group would be made or removed that is not ours, on a cluster that others use."""


class InconclusiveError(ChaosError):
    """The run proved nothing (verdict UNKNOWN). Not an AssertionError, so Allure shows it as broken."""


class ViolationError(ChaosError, AssertionError):
    """The guarantee is broken (verdict INVALID), or a negative control came back VALID."""
