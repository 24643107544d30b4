"""Every fault that can be declared, a file for each family. To add one: docs/adding-a-fault.md."""

from typing import Annotated, Any

from pydantic import Field

from chaos.faults.declared import broker, client, containers, network, partition, protocol, spark, storage
from chaos.faults.declared.base import LinkFault, ends_of
from chaos.grammar.targets import BrokerTarget

Fault = Annotated[
    broker.ChaseLeader
    | broker.KillBroker
    | broker.LogDirFull
    | broker.PauseBroker
    | broker.PowerLoss
    | broker.PreferLeader
    | broker.ReassignPartition
    | broker.RollingRestart
    | broker.TerminateBroker
    | broker.UncleanElection
    | client.CrashPipeline
    | client.DeleteGroupOffsets
    | client.HangingTransaction
    | client.PausePipeline
    | client.RebalanceStorm
    | client.ZombiePipeline
    | containers.Disconnect
    | containers.Freeze
    | containers.LimitCpu
    | containers.LimitDisk
    | containers.OutOfMemory
    | network.BlackholeLink
    | network.CutAfterBytes
    | network.CutLink
    | network.DelayLink
    | network.FlappingLink
    | network.ResetLink
    | network.SliceLink
    | network.ThrottleLink
    | partition.PartitionNetwork
    | protocol.DelayRequest
    | protocol.HoldRequests
    | protocol.LateRequest
    | protocol.LoseRequest
    | protocol.LoseResponse
    | spark.CrashExecutor
    | spark.CrashMaster
    | spark.CrashPythonDaemon
    | spark.CrashPythonWorker
    | spark.CrashWorker
    | spark.PauseExecutor
    | spark.PausePythonWorker
    | spark.ZombieExecutor
    | storage.CrashBeforeCommit
    | storage.DamageCheckpoint,
    Field(discriminator="kind"),
]


def broker_targets(fault: Any) -> list[BrokerTarget]:
    """The broker targets that a fault names."""
    if isinstance(fault, LinkFault):
        return ends_of(fault.link)
    if isinstance(fault, partition.PartitionNetwork):
        return fault.members
    target = getattr(fault, "target", None)
    return [target] if isinstance(target, BrokerTarget) else []
