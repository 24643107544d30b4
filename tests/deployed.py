"""Pipelines as a run has them, for tests that ask what is started and where positions are."""

from typing import Any

from chaos.scenario.pipelines import CommandPipeline, ContainerPipeline, SparkSubmitPipeline
from chaos.scenario.pipelines.base import Tools
from chaos.scenario.pipelines.deployed import Deployed

_COPIES: dict[str, Any] = {"reads": ["datasource"], "sink": {"topic": "datasink"}}


def command(run: tuple[str, ...], group: str = "", tools: Tools | None = None, **keys: Any) -> Deployed:
    """A command; without a group it has no positions."""
    keys |= {"group": group} if group else {"positions": "none"}
    return Deployed(CommandPipeline(kind="command", run=run, **_COPIES | keys), tools or Tools())


def container(words: tuple[str, ...], group: str, image: str, **keys: Any) -> Deployed:
    return Deployed(ContainerPipeline(kind="container", command=words, group=group, image=image, **_COPIES | keys))


def job(application: str, arguments: tuple[str, ...], tools: Tools | None = None, **keys: Any) -> Deployed:
    """A Spark job; one that is given no place for its checkpoint has one all the same."""
    valid = SparkSubmitPipeline(
        kind="spark_submit", application=application, arguments=("{checkpoint}", *arguments), **_COPIES | keys
    )
    return Deployed(valid.model_copy(update={"arguments": arguments}), tools or Tools())
