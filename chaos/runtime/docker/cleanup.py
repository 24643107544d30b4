"""Nothing is left in Docker: everything that a session makes there carries its labels, and is found and removed by them.

chaos.session   id of the session (`chaos.common.warden`)
chaos.owner     pid and start time of the process that opened it: what belonged to one that is gone, the next session removes

As a program this module is the warden of a session in containers: when the session's owner has ended, its containers and
networks are removed as well as its processes.
"""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from docker.errors import APIError

from chaos.common import warden
from chaos.common.errors import RuntimeUnavailableError
from chaos.common.warden import Identity, identify
from chaos.runtime.docker.engine import asking, connected

SESSION = "chaos.session"
OWNER = "chaos.owner"
_AT_ONCE = 6


def labels(session: str) -> dict[str, str]:
    """The labels of everything that a session makes."""
    owner = identify(os.getpid(), "owner")
    return {SESSION: session, OWNER: f"{owner.pid}:{owner.started}"}


def belongings(client: Any, session: str = "") -> list[str]:
    """``kind name`` of everything that a session has in Docker; of all sessions by default."""
    return [f"{kind} {_name(thing)}" for kind, thing in _found(client, session)]


def sweep(client: Any, session: str) -> list[str]:
    """Remove everything of a session: containers first, several at once, then what they used.

    Returns:
        What `belongings` found before. What could not be removed is still found by it.
    """
    found = list(_found(client, session))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_remove_container, (thing for kind, thing in found if kind == "container")))
    for kind, thing in found:
        if kind != "container":
            _tolerated(thing.remove)
    return [f"{kind} {_name(thing)}" for kind, thing in found]


def leftovers(client: Any) -> list[str]:
    """Remove what sessions left behind whose owner is gone; a session whose owner lives, whatever its user, is left alone."""
    owned = {_labels(thing)[SESSION]: _labels(thing).get(OWNER, "") for _, thing in _found(client, "")}
    return [name for session, owner in owned.items() if not _lives(owner) for name in sweep(client, session)]


def _lives(owner: str) -> bool:
    pid, _, started = owner.partition(":")
    return bool(started) and Identity(int(pid), float(started), "owner").process() is not None


def _found(client: Any, session: str) -> Iterator[tuple[str, Any]]:
    wanted = {"label": f"{SESSION}={session}" if session else SESSION}
    with asking("list what carries our labels"):
        yield from (("container", one) for one in client.containers.list(all=True, filters=wanted, ignore_removed=True))
        yield from (("network", one) for one in client.networks.list(filters=wanted))
        yield from (("volume", one) for one in client.volumes.list(filters=wanted))


def _remove_container(container: Any) -> None:
    _tolerated(partial(container.remove, force=True, v=True))


def _tolerated(remove: Callable[[], None]) -> None:
    """Something that is gone already, or in use elsewhere, is not an error here: `belongings` names what is left."""
    try:
        remove()
    except APIError as error:
        if not error.is_client_error():
            raise


def _labels(thing: Any) -> dict[str, str]:
    if hasattr(thing, "labels"):
        return dict(thing.labels)
    return dict(thing.attrs.get("Labels") or {})


def _name(thing: Any) -> str:
    return str(thing.name)


def main() -> None:
    """Wait for the owner to end, then sweep; if Docker does not answer now, the next session removes what is left."""
    path = Path(sys.argv[1])
    sys.stdin.buffer.read()
    try:
        with connected() as client:
            sweep(client, path.stem)
    except RuntimeUnavailableError as error:
        sys.stderr.write(f"chaos: {error}\n")
    warden.sweep(path)


if __name__ == "__main__":
    main()
