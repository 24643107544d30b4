"""The key of a twin: it differs for different versions of pipeline, workload and system."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from chaos.cluster.system import System
from chaos.engine.run_plan import RunPlan
from chaos.engine.twin_plan import refused
from chaos.install import cache
from chaos.loader.declaration import FillSource

_FORMAT = "1"  # of the kept files, and of the key
_BETWEEN = re.compile(r"[,:;=\s]")


def key_of(plan: RunPlan, system: System) -> str:
    """Return a key that differs for different versions of pipeline, workload and system.

    Raises:
        InconclusiveError: a file that the pipeline needs cannot be read.
    """
    scenario = plan.scenario
    rows = [one.rows for one in plan.loaders if isinstance(one, FillSource) and one.rows is not None]
    without_rows: Any = {"rows": True, "also": {"__all__": {"rows"}}}
    workload = scenario.workload.model_dump(mode="json", by_alias=True, exclude=without_rows)
    told = {
        "format": _FORMAT,
        "pipeline": scenario.pipeline.model_dump(mode="json", by_alias=True),
        "topics": {name: scenario.topics[name].model_dump(mode="json") for name in scenario.used},
        "into": scenario.source,
        "isolation": scenario.isolation,
        "workload": workload,
        "system": plan.spec.model_dump(mode="json"),
        "versions": {name: version for name, version in system.versions().items() if name != "os"},
    }
    try:
        parts = {str(path): _digest(path) for path in sorted(set(_files(plan)))}
        sent = [_digest(one) for one in rows]
    except OSError as error:
        raise refused(f"{error.filename}, a part of the pipeline, cannot be read ({error.strerror})") from error
    return cache.digest(json.dumps(told | {"files": parts, "rows": sent}, sort_keys=True))


def _files(plan: RunPlan) -> Iterator[Path]:
    """Yield the pipeline's files: those that its declaration or a service's names, modules beside a script, and `files`."""
    pipeline = plan.scenario.pipeline
    declared: Any = pipeline.expected  # a twin
    runs_in = pipeline.runs_in
    of_services = (word for one in plan.spec.services.values() for word in (*one.run, *one.environment.values()))
    texts = (*(text.text for text in pipeline.texts.values()), *pipeline.paths)
    for word in chain.from_iterable(map(_BETWEEN.split, (*texts, *of_services))):
        path = os.path.join(runs_in, word)  # noqa: PTH118 - these three take any text
        if os.path.isabs(path) and os.path.isfile(path):  # noqa: PTH113, PTH117
            yield Path(path)
            yield from _modules(Path(path).parent) if path.endswith(".py") else ()
        elif word and os.path.isabs(path) and os.path.isdir(path):  # noqa: PTH112, PTH117
            yield from _modules(Path(path))
    for named in map(Path, declared.files):
        yield from (path for path in named.rglob("*") if path.is_file()) if named.is_dir() else (named,)


def _modules(beside: Path) -> Iterator[Path]:
    """Yield the Python modules that a script of this folder can import from there."""
    yield from beside.glob("*.py")
    for package in beside.glob("*/__init__.py"):
        yield from package.parent.rglob("*.py")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
