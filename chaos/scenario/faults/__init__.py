"""Every fault that can be declared, a file for each family. To add one: docs/adding-a-fault.md."""

from typing import Annotated, Any

from pydantic import Field

from chaos.scenario.faults import broker, client, network, protocol, spark
from chaos.scenario.faults.base import LinkFault, ends_of
from chaos.scenario.targets import BrokerTarget

Fault = Annotated[
    broker.KillBroker
    | broker.PauseBroker
    | client.CrashPipeline
    | client.PausePipeline
    | client.ZombiePipeline
    | network.BlackholeLink
    | network.CutLink
    | network.DelayLink
    | protocol.DelayRequest
    | protocol.HoldRequests
    | protocol.LateRequest
    | protocol.LoseRequest
    | protocol.LoseResponse
    | spark.CrashExecutor,
    Field(discriminator="kind"),
]


def broker_targets(fault: Any) -> list[BrokerTarget]:
    """The broker targets that a fault names."""
    if isinstance(fault, LinkFault):
        return ends_of(fault.link)
    target = getattr(fault, "target", None)
    return [target] if isinstance(target, BrokerTarget) else []
