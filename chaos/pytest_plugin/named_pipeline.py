"""The pipeline that a test names, in the scenarios files of its folder, and the ground of its run."""

from collections.abc import Mapping
from typing import Any

import pytest

from chaos.common.errors import ScenarioError
from chaos.pytest_plugin.scenario_file import EXTERNAL_SYSTEM, refusing
from chaos.pytest_plugin.selection import FILE, scenarios_files
from chaos.scenario.draft import Ground
from chaos.scenario.load import load
from chaos.scenario.system import SystemSpec
from chaos.scenario.topics import TopicSpec

_NO_FILE = (
    "there is no {file} in {folder} or above it, so {name!r} names no pipeline; "
    "declare it in the test, e.g. chaos.start(CommandPipeline(…))"
)


def declared(item: pytest.Item, pipeline: Any, system: SystemSpec | None) -> tuple[Any, SystemSpec, Mapping[str, TopicSpec]]:
    """Return the declaration of the pipeline, the system, and the topics of the file.

    Args:
        pipeline: its name, or a declaration.
        system: replaces the system of the file.

    Raises:
        ScenarioError: no file declares this name.
    """
    config, folder = item.config, item.path.parent
    files = [load(path) for path in scenarios_files(config, folder)]
    spec = system or (files[0].system if files else SystemSpec())
    if not isinstance(pipeline, str):
        return pipeline, spec, files[0].topics if files else {}
    if not files and pipeline != "none":
        raise ScenarioError(_NO_FILE.format(file=FILE, folder=folder, name=pipeline))
    file = next((file for file in files if pipeline in file.pipelines), files[0] if files else None)
    return ({"kind": "none"}, spec, {}) if file is None else (file.pipeline(pipeline), spec, file.topics)


def ground(item: pytest.Item, spec: SystemSpec) -> Ground:
    """Return what the run of a test stands on: folder, system and runtime."""
    return Ground(item.path.parent, spec, refusing(item.config), item.config.stash[EXTERNAL_SYSTEM])
