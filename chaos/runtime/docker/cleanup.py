"""Nothing is left in Docker: everything that we make carries our labels, and is found by them whoever it was that made it.

chaos.session   id of the session (`chaos.common.warden`)
chaos.owner     pid and start time of the harness: what belongs to one that is gone is swept by the next one
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from docker.errors import APIError

from chaos.common.warden import Identity, identify
from chaos.runtime.docker.engine import asking

SESSION = "chaos.session"
OWNER = "chaos.owner"
_AT_ONCE = 6


def labels(session: str) -> dict[str, str]:
    """What everything of a session carries."""
    owner = identify(os.getpid(), "owner")
    return {SESSION: session, OWNER: f"{owner.pid}:{owner.started}"}


def belongings(client: Any, session: str = "") -> list[str]:
    """What is there of a session, or of any; in words."""
    return [f"{kind} {_name(thing)}" for kind, thing in _found(client, session)]


def sweep(client: Any, session: str) -> list[str]:
    """Remove everything of a session: containers first, all at once, then what they used.

    Returns:
        What was there, in words. What could not be removed is found by `belongings` still.
    """
    found = list(_found(client, session))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_remove_container, (thing for kind, thing in found if kind == "container")))
    for kind, thing in found:
        if kind != "container":
            _tolerated(thing.remove)
    return [f"{kind} {_name(thing)}" for kind, thing in found]


def leftovers(client: Any) -> list[str]:
    """Remove what sessions left behind whose owner is gone; one that lives, of whatever user, is let alone."""
    owned = {_labels(thing)[SESSION]: _labels(thing).get(OWNER, "") for _, thing in _found(client, "")}
    return [name for session, owner in owned.items() if not _lives(owner) for name in sweep(client, session)]


def _lives(owner: str) -> bool:
    pid, _, started = owner.partition(":")
    return bool(started) and Identity(int(pid), float(started), "owner").process() is not None


def _found(client: Any, session: str) -> Iterator[tuple[str, Any]]:
    wanted = {"label": f"{SESSION}={session}" if session else SESSION}
    with asking("list what is ours"):
        yield from (("container", one) for one in client.containers.list(all=True, filters=wanted, ignore_removed=True))
        yield from (("network", one) for one in client.networks.list(filters=wanted))
        yield from (("volume", one) for one in client.volumes.list(filters=wanted))


def _remove_container(container: Any) -> None:
    _tolerated(partial(container.remove, force=True, v=True))


def _tolerated(remove: Callable[[], None]) -> None:
    """What is gone already, or is used by somebody else, is no error here: whoever looks for leaks tells what is left."""
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
