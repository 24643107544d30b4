"""Pipelines under test, as a scenarios file declares them: any command, image or Spark job, or the loader alone.

A kind of pipeline is one class in one file here: its keys, its capabilities, its checks, and how it runs. A new kind is a new
file, and a line below. `chaos.scenario.declared` resolves names and parameters.
"""

from collections.abc import Mapping
from typing import Annotated, get_args

from pydantic import Field

from chaos.scenario.pipelines.base import Kind
from chaos.scenario.pipelines.command import CommandPipeline
from chaos.scenario.pipelines.container import ContainerPipeline
from chaos.scenario.pipelines.none import NoPipeline
from chaos.scenario.pipelines.spark_submit import InGroup, SparkSubmitPipeline

Pipeline = Annotated[
    NoPipeline | CommandPipeline | ContainerPipeline | SparkSubmitPipeline,
    Field(discriminator="kind"),
]
KINDS: Mapping[str, type[Kind]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(Pipeline)[0])
}
"""All kinds by name."""

__all__ = ["KINDS", "CommandPipeline", "ContainerPipeline", "InGroup", "NoPipeline", "Pipeline", "SparkSubmitPipeline"]
