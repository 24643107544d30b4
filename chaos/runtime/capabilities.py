"""Capabilities of a system and of a pipeline: a fault is possible if it has all that it needs.

Each runtime lists the capabilities of its systems (the external one takes them from its file, `chaos.external.declaration`),
and each declared pipeline its own. Whether a fault is possible is one comparison: ``fault.needs <= allowed``.
"""

from collections.abc import Mapping
from enum import StrEnum


class Capability(StrEnum):
    """One thing that a fault may need; the value completes the sentence "this needs …"."""

    # of the system
    KILL_BROKERS = "a way to kill brokers"
    PAUSE_BROKERS = "a way to pause brokers"
    BROKER_PROCESSES = "the processes of the brokers"
    BROKER_DISKS = "the disks of the brokers"
    BROKER_CONTAINERS = "brokers in containers"
    CLUSTER_STATE = "a cluster whose leaders, groups and topics may be changed"
    LINKS = "a proxy on the link"
    ALL_LINKS = "a proxy on every link between brokers"
    PLAIN_CONNECTIONS = "connections without TLS"
    EXECUTOR_PROCESSES = "the processes of the executors"
    PYTHON_PROCESSES = "the Python processes of the executors"
    SPARK_DAEMONS = "the processes of Spark's master and workers"
    SERVICES = "the processes of services beside Kafka"
    # of the pipeline
    PIPELINE = "a pipeline beside the loader"
    CONSUMER_GROUP = "a pipeline that keeps its position in a consumer group"
    GROUP_MEMBERS = "a pipeline whose consumer group has members"
    SPARK = "a pipeline that runs on Spark"
    CHECKPOINT = "a pipeline that has a checkpoint"
    PYTHON_WORKERS = "a sink that runs in Python workers"
    COMMITTING_TASKS = "a sink whose tasks commit"


OF_PIPELINES = frozenset(
    {
        Capability.PIPELINE,
        Capability.CONSUMER_GROUP,
        Capability.GROUP_MEMBERS,
        Capability.SPARK,
        Capability.CHECKPOINT,
        Capability.PYTHON_WORKERS,
        Capability.COMMITTING_TASKS,
    }
)
OF_SYSTEMS = frozenset(Capability) - OF_PIPELINES
OFFERED: Mapping[str, frozenset[Capability]] = {
    "local": OF_SYSTEMS - {Capability.BROKER_CONTAINERS},
    "containers": OF_SYSTEMS - {Capability.SERVICES},
}
"""Runtime -> the capabilities of its systems, for this framework's own runtimes."""
EXTERNAL = "external"
RUNTIMES = (*OFFERED, EXTERNAL)
"""Where a system can run; the first is the default."""
