"""Words of a scenario that other packages add: kinds of faults, verifiers, generators and readers."""

from collections.abc import Collection, Iterable, Mapping

from chaos.common import plugins
from chaos.common.errors import PluginError
from chaos.faults.registry import FAULTS
from chaos.faults.registry import PLUGINS as _FAULTS
from chaos.loader.generators import PLUGINS as _GENERATORS
from chaos.scenario.sinks.reader import READERS as _READERS
from chaos.scenario.verifiers import NAMES
from chaos.scenario.verifiers import PLUGINS as _VERIFIERS

plugins.require(_FAULTS, _VERIFIERS, _GENERATORS, _READERS)


def brought(
    kinds: Collection[str], verifiers: Collection[str], generators: Collection[str], readers: Collection[str]
) -> Mapping[str, Mapping[str, str]]:
    """Return entry point group -> word -> the package that added it."""
    return {
        _FAULTS.group: _FAULTS.used(kinds),
        _VERIFIERS.group: _VERIFIERS.used(verifiers),
        _GENERATORS.group: _GENERATORS.used(generators),
        _READERS.group: _READERS.used(readers),
    }


def require(words: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse faults and verifiers of a package that is not installed here.

    Output of generators and readers is in the folder of the run, which needs neither to be judged again.

    Args:
        words: what `brought` has returned when the scenario ran.

    Raises:
        PluginError: it names the word and its package.
    """
    known: Iterable[tuple[str, Collection[str]]] = ((_FAULTS.group, FAULTS), (_VERIFIERS.group, NAMES))
    for group, there in known:
        for word, origin in words.get(group, {}).items():
            if word not in there:
                raise PluginError(f"{word!r} came from {origin}, which is not installed here: install it to judge this run")
