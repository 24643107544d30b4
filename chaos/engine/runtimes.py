"""The runtime of a session's processes, and the plan of their addresses."""

from collections.abc import Callable
from pathlib import Path

from chaos.cluster import addresses
from chaos.cluster.addresses import Addresses
from chaos.install import artifacts, cache
from chaos.runtime.base import Runtime
from chaos.runtime.local import LocalRuntime


def opened(name: str, runs: Path, echo: Callable[[str], None]) -> tuple[Runtime, Addresses]:
    """Open a runtime by its name (`chaos.runtime.capabilities.RUNTIMES`), and choose the plan of addresses in it.

    Raises:
        RuntimeUnavailableError: Docker does not answer, or has no image.
    """
    if name == "containers":
        from chaos.runtime.docker import runtime as containers  # noqa: PLC0415 - Docker's libraries take half a second, and are needed here only

        runtime = containers.open_runtime(session_files(), runs, echo)
        return runtime, Addresses(runtime.net)
    return LocalRuntime(session_files()), addresses.from_environment()


def session_files() -> Path:
    """The folder of the warden's session files, one for all sessions of this user."""
    return artifacts.cache_folder() / cache.SESSIONS
