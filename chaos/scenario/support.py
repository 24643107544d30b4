"""Which faults are possible: those that need nothing that the pipeline or the system lacks; all others are refused.

Both state what they have as `Capability`: a declared pipeline (`chaos.scenario.pipelines`), and a system by its runtime. A file
is checked when it is read, never skipped later. On a system that is already there more has to be asked:

* of links, only those of Spark's JVMs can be led through proxies of ours: a JVM can be told where a name leads
  (``jdk.net.hosts.file``). librdkafka cannot: it connects to where brokers say that they are;
* executors can be signalled where they run on this machine, brokers where hooks are declared that do it.
"""

from collections.abc import Iterator, Mapping

from chaos.external.declaration import External
from chaos.faults.base import FaultBase, LinkFault, RequestsFault
from chaos.grammar.base import Location
from chaos.grammar.targets import BrokerTarget, ExecutorTarget, LinkPattern
from chaos.grammar.triggers import OnRequest, Trigger
from chaos.runtime.capabilities import CONTAINERS, LOCAL, OF_PIPELINES, Capability
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import CommandPipeline, SparkSquarePipeline

Wrong = tuple[Location, str]
EXTERNAL = "external"
RUNTIMES = ("local", "containers", EXTERNAL)
ALLOWED: Mapping[str, frozenset[Capability]] = {"local": LOCAL, "containers": CONTAINERS}
POSSIBLE_OUTSIDE = frozenset(
    {
        Capability.LINKS,
        Capability.PLAIN_CONNECTIONS,
        Capability.KILL_BROKERS,
        Capability.PAUSE_BROKERS,
        Capability.EXECUTOR_PROCESSES,
    }
)
"""What an external system may have, if its file says so."""
_READS = frozenset({"Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"})
_WRITES = _READS | {"Produce", "InitProducerId"}
_OF_JVMS = ("spark", "pipeline")
_OF_SINK = ("transaction_coordinator", "group_coordinator")
_PREFIXED = "{prefix}"

_LACKING: Mapping[Capability, str] = {
    Capability.PIPELINE: "there is no pipeline to break: the loader alone is under test, and it keeps the ledger",
    Capability.CONSUMER_GROUP: "this pipeline keeps its position in no consumer group: there is no group to break",
    Capability.SPARK: "this pipeline does not run on Spark: there is no executor to crash",
    Capability.CHECKPOINT: "this pipeline does not run on Spark: it has no checkpoint",
    Capability.PYTHON_WORKERS: "Spark's stock sink runs in the JVM: there is no Python worker",
    Capability.COMMITTING_TASKS: "the stock sink commits nothing; write kind: damage_checkpoint, what: commit_deleted",
}
_POSSIBLE = "faults of the links of Spark's JVMs, crashes and pauses of the pipeline and of executors here, and declared hooks"
_NOT_OURS = f"{{kind}} needs {{what}}, and on this system these are not ours; from outside: {_POSSIBLE}"
_NO_HOOK = "a broker that is not ours cannot be {done} by us; declare how, in the external file: hooks: {{{words}}}"
_LACKING_OUTSIDE: Mapping[Capability, str] = {
    Capability.KILL_BROKERS: _NO_HOOK.format(done="killed", words='kill: "kubectl delete pod {broker}"'),
    Capability.PAUSE_BROKERS: _NO_HOOK.format(done="paused", words="pause: …, resume: …"),
    Capability.PYTHON_PROCESSES: "{kind} finds its victims by the addresses of a system of ours; write kind: crash_executor",
    Capability.PLAIN_CONNECTIONS: "{kind} is proved by a connection of our own in plain text, and this cluster wants TLS",
}
_ELSEWHERE = (
    "Spark's executors run elsewhere: {what}; write executors: here in the external file if they run on this machine, "
    "or master: local[4]"
)
_LIBRDKAFKA = (
    "connections of {who} cannot be led through a proxy: it is librdkafka, which connects to where brokers say that they are; "
    "only Spark's own JVMs can be told otherwise"
)


def faults_of(scenario: Scenario) -> Iterator[tuple[Location, FaultBase]]:
    """Every fault that is declared, those by chance too, with its place in the scenario."""
    yield from ((("faults", number), fault) for number, fault in enumerate(scenario.faults))
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        yield ("random", "pick", number, "fault"), pick.fault


def impossible(scenario: Scenario, runtime: str) -> Iterator[Wrong]:
    """Every fault that is not possible with this pipeline, or on a system of this runtime, with its place in the scenario.

    Args:
        runtime: one of `RUNTIMES`; "" when the file is only read. What is possible on an external system is a question of its
            own file: `impossible_outside`.
    """
    for place, fault in faults_of(scenario):
        lacking = fault.needs & OF_PIPELINES - scenario.pipeline.capabilities
        if lacking:
            yield (*place, "target" if hasattr(fault, "target") else "kind"), _LACKING[_first(lacking)]
        absent = fault.needs - OF_PIPELINES - ALLOWED.get(runtime, CONTAINERS)
        if absent:
            message = f"{fault.kind} is possible in containers only: it needs {_first(absent)}; here {fault.without}"
            yield (*place, "kind"), f"{message}; or use --chaos-runtime containers"


def _first(capabilities: frozenset[Capability]) -> Capability:
    return next(capability for capability in Capability if capability in capabilities)


def impossible_outside(scenario: Scenario, external: External) -> Iterator[Wrong]:
    """Every part of a scenario that cannot be done to this external system, with its place in the scenario."""
    yield from _names(scenario)
    if "atomicity" in scenario.verify and not external.is_plain:
        yield (
            ("verify", scenario.verify.index("atomicity")),
            "atomicity reads record batches over a plain connection, and this cluster wants TLS or a login",
        )
    for place, fault in faults_of(scenario):
        for key, message in (*_fault(scenario, fault, external), *_trigger(scenario, fault.when, external)):
            yield (*place, *key), message


def _names(scenario: Scenario) -> Iterator[Wrong]:
    """A pipeline whose names are its own must put the prefix in front of them."""
    pipeline = scenario.pipeline
    if not isinstance(pipeline, CommandPipeline):
        return
    if not pipeline.group.startswith(_PREFIXED):
        yield ("pipeline", "group"), f"on a cluster that others use, names begin with its prefix: {_PREFIXED}{pipeline.group}"
    for number, name in enumerate(pipeline.transactional_ids):
        if not name.startswith(_PREFIXED):
            yield (
                ("pipeline", "transactional_ids", number),
                f"on a cluster that others use, names begin with its prefix: {_PREFIXED}{name}",
            )


def _fault(scenario: Scenario, fault: FaultBase, external: External) -> Iterator[Wrong]:
    absent = fault.needs - OF_PIPELINES - external.capabilities
    if any(target.role == "controller" for target in fault.broker_targets):
        yield ("kind",), "a cluster that is not ours does not tell its clients which broker is its controller; aim at a leader"
    if isinstance(fault, LinkFault):
        yield from _link(scenario, fault, external)
    if Capability.EXECUTOR_PROCESSES in absent:
        yield ("kind",), _no_executors(external)
    elif absent:
        message = _LACKING_OUTSIDE.get(_first(absent), _NOT_OURS)
        yield ("kind",), message.replace("{kind}", fault.kind).replace("{what}", _first(absent))
    target = getattr(fault, "target", None)
    if isinstance(target, ExecutorTarget) and target.number and not absent:
        yield ("target",), f"the workers are not ours and have no number; write executor(any), not {target}"


def _no_executors(external: External) -> str:
    if external.spark.is_local:
        return f"{external.spark.master} has no executor beside its driver; write kind: crash_pipeline"
    return _ELSEWHERE.format(what="we cannot signal them")


def _link(scenario: Scenario, fault: LinkFault, external: External) -> Iterator[Wrong]:
    message = _not_led(scenario, fault.link, external)
    if message:
        yield ("link",), message
    if isinstance(fault, RequestsFault):
        yield from ((("request",), wrong) for wrong in _request(scenario, fault.request, external))


def _trigger(scenario: Scenario, when: Trigger, external: External) -> Iterator[Wrong]:
    if not isinstance(when, OnRequest):
        return
    message = _not_led(scenario, when.link or LinkPattern("pipeline", "*"), external)
    if message:
        yield ("when", "link") if when.link else ("when", "request"), message
    yield from ((("when", "request"), wrong) for wrong in _request(scenario, when.request, external))


def _not_led(scenario: Scenario, link: LinkPattern, external: External) -> str:
    """Why nothing of this link passes a proxy of ours; nothing when it does."""
    if link.left not in _OF_JVMS or link.both_ways:
        if link.left in ("loader", "app"):
            return _LIBRDKAFKA.format(who=f"the client {link.left}")
        return f"{link} is more than the links of Spark's JVMs, and the others have no proxy of ours; write spark->…"
    if not isinstance(scenario.pipeline, SparkSquarePipeline):
        return _LIBRDKAFKA.format(who=f"the pipeline {scenario.pipeline.kind}")
    if not external.spark.is_here:
        return _ELSEWHERE.format(what="our proxies listen on loopback addresses of this machine")
    if scenario.pipeline.delivery == "exactly_once" and _of_sink(link.right):
        return f"only the sink talks to {link.right} as such, and {_LIBRDKAFKA.format(who='the exactly-once sink')}"
    return ""


def _of_sink(end: str | BrokerTarget) -> bool:
    """Whether a broker is meant because of what the sink sends there."""
    return isinstance(end, BrokerTarget) and (end.topic == "datasink" or end.role in _OF_SINK)


def _request(scenario: Scenario, api: str, external: External) -> Iterator[str]:
    """A request that no JVM sends, or that nobody can read on the wire."""
    if external.tls is not None:
        yield "requests cannot be told apart under TLS"
        return
    pipeline = scenario.pipeline
    writes = isinstance(pipeline, SparkSquarePipeline) and pipeline.delivery == "at_least_once"
    if isinstance(pipeline, SparkSquarePipeline) and api not in (_WRITES if writes else _READS):
        yield f"Spark's JVMs send no {api} here, the sink's librdkafka does: {_LIBRDKAFKA.format(who='the sink')}"
