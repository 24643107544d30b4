"""Checks of Docker before a run: each returns its result in words, or raises an error with the command that mends it.

Without a daemon (`daemon`) the other checks (`CHECKS`) cannot run.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docker.errors import ContainerError

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, preflight
from chaos.runtime.docker import engine, runtime
from chaos.runtime.docker import network as docker_network
from chaos.runtime.docker.engine import asking, connected

_GIB = 1 << 30
_SHOWN = 2
_TRIES = '"$0" -version >/dev/null 2>&1 && "$1" -c "import confluent_kafka, pyarrow, pyspark" && command -v ip >/dev/null'


def daemon() -> str:
    """The daemon answers, and containers can be used with it."""
    with connected() as client:
        version = client.version()
    return f"Docker {version['Version']}, API {version['ApiVersion']}"


def memory() -> str:
    """The daemon's machine has enough memory for the whole system."""
    with connected() as client:
        total_gib = client.info()["MemTotal"] / _GIB
    if total_gib < preflight.MEMORY_GIB:
        raise RuntimeUnavailableError(
            f"Docker's machine has {total_gib:.1f} GiB of memory, the system needs {preflight.MEMORY_GIB:g} GiB; give it more"
        )
    return f"{total_gib:.1f} GiB"


def disk() -> str:
    """The folder of Docker's containers has room."""
    with connected() as client:
        root = Path(client.info()["DockerRootDir"])
    if not root.exists():
        raise RuntimeUnavailableError(
            f"Docker keeps its containers in {root}, which is not on this machine; set DOCKER_HOST to this machine's daemon"
        )
    preflight.check_disk(root)
    return f"{shutil.disk_usage(root).free / _GIB:.0f} GiB in {root}"


def network() -> str:
    """Addresses are free for the network of a run; no port of this machine is needed."""
    net = next(docker_network.free_now(), None)
    if net is None:
        raise RuntimeUnavailableError("no network is free for a run; remove unused ones: docker network prune")
    return f"{net}.0.0/16 is free"


def image() -> str:
    with connected() as client:
        return engine.check_image(client)


def container() -> str:
    """This machine's Java and Python, which are mounted, run in a container of the image, and so does `ip`."""
    java = preflight.find_java()
    shared = runtime.read_only(java, cache.folder())
    with connected() as client, asking("start a container"):
        name = engine.check_image(client)
        try:
            client.containers.run(
                name,
                ["sh", "-c", _TRIES, str(java), sys.executable],
                volumes={str(path): {"bind": str(path), "mode": "ro"} for path in shared},
                user=f"{os.getuid()}:{os.getgid()}",
                labels=engine.labels("doctor"),
                network_mode="none",
                remove=True,
            )
        except ContainerError as error:
            raise RuntimeUnavailableError(
                f"this machine's Java and Python do not run in {name}: {error.stderr.decode().strip() or error}; "
                "it needs a C library as new as this machine's: CHAOS_BASE_IMAGE=<such an image> make image"
            ) from error
    return "Java, Python and ip run in it"


def reaper() -> str:
    """Name the programs that remove the containers of a killed run."""
    with connected() as client:
        return engine.choose_reaper(client)


def leftovers() -> str:
    """List the things with our labels now: they belong to a running run, or the next run removes them."""
    with connected() as client:
        left = engine.belongings(client)
    return f"{len(left)}: {', '.join(left[:_SHOWN])}, …" if left else "none"


CHECKS: Mapping[str, Callable[[], str]] = {
    "memory": memory,
    "disk": disk,
    "network": network,
    "image": image,
    "container": container,
    "reaper": reaper,
    "leftovers": leftovers,
}
