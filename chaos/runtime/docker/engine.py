"""The Docker daemon: connection, required features, errors, and the removal of everything that a session makes in it.

Everything that a session makes there carries its labels, and is found and removed by them:

chaos.session   id of the session (`chaos.common.warden`)
chaos.owner     pid and start time of the process that opened it: the next session removes the things of a dead owner

As a program this module is the warden of a session in containers: when the session's owner has ended, its containers and
networks are removed as well as its processes.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config

from chaos.common import warden
from chaos.common.errors import RuntimeUnavailableError
from chaos.common.warden import Identity, identify

IMAGE = "kafka-spark-chaos:1"  # raise the number with containers/Dockerfile
API = (1, 41)  # of Docker 20.10
_SOCKET = "unix:///var/run/docker.sock"
_ASK_WITHIN_S = 60
_ROOTLESS = "name=rootless"
_REMAPPED = "name=userns"


def connect() -> Any:
    """Make a client of the daemon that the environment names (``DOCKER_HOST``), or of this machine's.

    Raises:
        RuntimeUnavailableError: there is none, it is too old, or its networks cannot be reached from here.
    """
    if sys.platform != "linux":
        raise RuntimeUnavailableError(f"containers cannot be reached at their own addresses on {sys.platform}; use Linux")
    try:
        _knock(os.environ.get("DOCKER_HOST") or _SOCKET)
        client = docker.from_env(timeout=_ASK_WITHIN_S)
    except (DockerException, requests.RequestException, OSError) as error:
        raise RuntimeUnavailableError(
            f"--chaos-runtime containers needs Docker, and its daemon does not answer: {error}; "
            "apt-get install docker.io iptables, start it (systemctl start docker, or dockerd as root), "
            "and be root or in the group docker"
        ) from error
    check_engine(client.version(), client.info())
    return client


def _knock(url: str) -> None:
    """Connect to the socket once, and close it: Docker's library leaves a refused connection open.

    Raises:
        OSError: nothing listens there, or this user may not connect.
    """
    path = url.removeprefix("unix://")
    if path != url:
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(_ASK_WITHIN_S)
            try:
                knocking.connect(path)
            except OSError as error:
                raise OSError(f"{path}: {error.strerror}") from error


def check_engine(version: dict[str, Any], info: dict[str, Any]) -> None:
    """Check what the daemon reports about itself.

    Raises:
        RuntimeUnavailableError: containers cannot be used with it.
    """
    api = tuple(int(part) for part in version["ApiVersion"].split("."))
    if api < API:
        raise RuntimeUnavailableError(
            f"Docker has API {version['ApiVersion']}; chaos needs {API[0]}.{API[1]} (Docker 20.10) or newer; upgrade Docker"
        )
    if info.get("OSType") != "linux":
        raise RuntimeUnavailableError(f"Docker runs {info.get('OSType')} containers; switch it to Linux containers")
    for option, why in (
        (_ROOTLESS, "its networks are not reachable from this machine"),
        (_REMAPPED, "users in containers are not this machine's"),
    ):
        if any(entry.startswith(option) for entry in info.get("SecurityOptions") or ()):
            raise RuntimeUnavailableError(
                f"Docker runs with {option.removeprefix('name=')}: {why}; use a daemon without it (DOCKER_HOST)"
            )


def image_name() -> str:
    """The image of every container: ``CHAOS_IMAGE``, or the one that `make image` builds."""
    return os.environ.get("CHAOS_IMAGE", IMAGE)


def check_image(client: Any) -> str:
    """Return the name of the image, which must exist: nothing is pulled in the middle of a run.

    Raises:
        RuntimeUnavailableError: it does not exist on this machine.
    """
    name = image_name()
    if not has_image(client, name):
        raise RuntimeUnavailableError(
            f"the image {name} does not exist here; build it: make image, in a clone of this project "
            "(on a public base image, CHAOS_BASE_IMAGE, where a registry can be reached; with debootstrap where none can)"
        )
    return name


def has_image(client: Any, name: str) -> bool:
    with asking(f"look for the image {name}"):
        try:
            client.images.get(name)
        except ImageNotFound:
            return False
        return True


def configuration(client: Any, name: str) -> Mapping[str, Any]:
    """Return the configuration of a user's image: what it runs, and how.

    Raises:
        RuntimeUnavailableError: it does not exist on this machine.
    """
    with asking(f"look for the image {name}"):
        try:
            found: Mapping[str, Any] = client.images.get(name).attrs["Config"]
        except ImageNotFound:
            raise RuntimeUnavailableError(
                f"the image {name} does not exist here, and nothing is pulled in the middle of a run; "
                f"docker pull {name}, or build it"
            ) from None
    return found


def choose_reaper(client: Any) -> str:
    """Always use our own sweep by label, and Testcontainers' reaper, Ryuk, if its image is on this machine.

    Returns:
        The choice, in words.
    """
    ryuk = testcontainers_config.hub_image_name_prefix + testcontainers_config.ryuk_image
    testcontainers_config.ryuk_disabled = testcontainers_config.ryuk_disabled or not has_image(client, ryuk)
    if testcontainers_config.ryuk_disabled:
        return f"sweep by label; docker pull {ryuk} adds Testcontainers' reaper"
    return f"Ryuk ({ryuk}) and sweep by label"


@contextmanager
def connected() -> Iterator[Any]:
    with closing(connect()) as client:
        yield client


@contextmanager
def asking(action: str) -> Iterator[None]:
    """Turn errors of Docker's library into one of ours.

    Args:
        action: completes the sentence "Docker could not …".

    Raises:
        RuntimeUnavailableError: Docker could not do it.
    """
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        raise RuntimeUnavailableError(f"Docker could not {action}: {error}") from error


# leftovers of sessions, found by their labels --------------------------------------------------------------------------


SESSION = "chaos.session"
OWNER = "chaos.owner"
_AT_ONCE = 6


def labels(session: str) -> dict[str, str]:
    """The labels of everything that a session makes."""
    owner = identify(os.getpid(), "owner")
    return {SESSION: session, OWNER: f"{owner.pid}:{owner.started}"}


def belongings(client: Any, session: str = "") -> list[str]:
    """List ``kind name`` of everything that a session has in Docker; all sessions by default."""
    return [f"{kind} {_name(thing)}" for kind, thing in _found(client, session)]


def sweep(client: Any, session: str) -> list[str]:
    """Remove everything of a session: containers first, several at once, then what they used.

    Returns:
        The result of `belongings` before. It still lists the things that could not be removed.
    """
    found = list(_found(client, session))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_remove_container, (thing for kind, thing in found if kind == "container")))
    for kind, thing in found:
        if kind != "container":
            _tolerated(thing.remove)
    return [f"{kind} {_name(thing)}" for kind, thing in found]


def leftovers(client: Any) -> list[str]:
    """Remove the things of sessions whose owner is gone; a session with a live owner, of any user, is left alone."""
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
    """Ignore that a thing is gone already, or in use elsewhere: `belongings` lists what is left."""
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
