"""Packages that a Spark job declares by their coordinates: jars from Maven Central, with all that they need.

They are fetched once, before a run, and their hashes are noted (`chaos.install.jar_folders`); then no network is needed.
Spark's own ``--packages`` uses the network at every start, also at a restart in the middle of a run, and ignores our mirror.

$CHAOS_CACHE/packages-<digest>/*.jar, jars.sha256
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, jar_folders, jars

_RECIPE = "1"

Echo = Callable[[str], None]


def ensure(coordinates: Sequence[str], ivy: jars.Ivy, echo: Echo) -> tuple[Path, ...]:
    """Return the jars of these packages, and fetch them if they are not in the cache.

    Args:
        coordinates: ``group:artifact:version`` each.

    Raises:
        RuntimeUnavailableError: there is no such package, or no network.
    """
    if not coordinates:
        return ()
    place = cache.folder()
    wanted = tuple(jars.Module(*one.split(":")) for one in coordinates)
    folder = place / f"packages-{cache.digest(_RECIPE, *sorted(map(str, wanted)))}"
    try:
        with cache.locked(place, echo):
            if not folder.is_dir():
                echo(f"fetching {', '.join(coordinates)} and their dependencies …")
                cache.make(folder, lambda half: _fetch(wanted, half, ivy))
            jar_folders.check(folder)
    except RuntimeUnavailableError as error:
        raise RuntimeUnavailableError(f"packages of the pipeline: {error}") from error
    return tuple(sorted(folder.glob("*.jar")))


def _fetch(wanted: tuple[jars.Module, ...], folder: Path, ivy: jars.Ivy) -> None:
    jars.resolve(wanted, folder, ivy)
    jar_folders.note(folder)
