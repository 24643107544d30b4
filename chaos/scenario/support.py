"""Which faults are possible: those whose needs are offered by the pipeline and by the system. All others are refused.

Both state what they offer as `Capability`: a declared pipeline in `chaos.scenario.model`, a system by its runtime. This is
checked when a file is read; a fault is never skipped later. On an external system, which was there before, more is checked:

* Of all links, only those of Spark's JVMs can be led through our proxies: a JVM can be told which address a name stands for
  (``jdk.net.hosts.file``). librdkafka cannot: it connects to the addresses that brokers advertise.
* Executors can be signalled if they run on this machine, brokers can be broken if hooks are declared that do it.
"""

from collections.abc import Collection, Iterator, Mapping

from chaos.contract.placeholders import names_in
from chaos.external.declaration import External
from chaos.faults.base import FaultBase, LinkFault, RequestsFault
from chaos.grammar.base import Location, Message, Problem, within
from chaos.grammar.targets import BrokerTarget, ExecutorTarget, LinkPattern, ServiceTarget
from chaos.grammar.triggers import OnRequest, Trigger
from chaos.install import spark_versions
from chaos.runtime.capabilities import OF_PIPELINES, OF_SYSTEMS, OFFERED, Capability
from chaos.scenario.model import Scenario, SystemSpec
from chaos.scenario.verifiers import PRECEDENCE

POSSIBLE_OUTSIDE = frozenset(
    {
        Capability.LINKS,
        Capability.PLAIN_CONNECTIONS,
        Capability.KILL_BROKERS,
        Capability.PAUSE_BROKERS,
        Capability.EXECUTOR_PROCESSES,
    }
)
"""What an external system can offer, if its declaration says so."""
_OF_SERVICES = frozenset({Capability.SERVICES})  # where there can be no services, these are refused: `unavailable`
_READS = frozenset({"Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"})
_WRITES = _READS | {"Produce", "InitProducerId"}
_OF_JVMS = ("spark", "pipeline")
_OF_SINK = ("transaction_coordinator", "group_coordinator")
_PREFIXED = ("{prefix}", "{source}", "{sink}")  # and every topic, whose names on the wire begin with the prefix

_NO_NETWORK = Message(
    "container-outside",
    "kind: container joins the network of a run, and only a system in containers has one; use --chaos-runtime containers, "
    "which needs Docker, or run the program itself: kind: command",
)
_LACKING: Mapping[Capability, Message] = {
    Capability.PIPELINE: Message(
        "no-pipeline-to-break",
        "there is no pipeline to break: only the loader is under test, and it must live to keep the ledger",
    ),
    Capability.CONSUMER_GROUP: Message(
        "no-group-to-break", "this pipeline does not keep its position in a consumer group, so there is no group to break"
    ),
    Capability.GROUP_MEMBERS: Message(
        "no-group-members",
        "this pipeline only stores its position in its group, which has no members, so nothing can be "
        "rebalanced; use it with kind: command",
    ),
    Capability.SPARK: Message("no-executors", "this pipeline does not run on Spark, so there is no executor to crash"),
    Capability.CHECKPOINT: Message(
        "no-checkpoint", "this pipeline has no checkpoint that is known; only a Spark job has one, without positions: none"
    ),
    Capability.PYTHON_WORKERS: Message(
        "no-python-workers",
        "this sink is not known to run in Python workers; if its tasks do, and commit there, declare python_workers: true",
    ),
    Capability.COMMITTING_TASKS: Message(
        "no-committing-tasks",
        "the tasks of this sink are not known to commit; if they do, in Python workers, declare "
        "python_workers: true, else write kind: damage_checkpoint, what: commit_deleted",
    ),
}
_NOT_OFFERED = Message(
    "not-offered-outside",
    "{kind} needs {needed}, and an external system does not offer that; possible are faults of the links of Spark's JVMs, "
    "crashes and pauses of the pipeline and of executors on this machine, and declared hooks",
)
_NO_HOOK = "a broker of an external system can only be {done} by your own command; declare it in its file: hooks: {{{example}}}"
_NOT_OFFERED_OUTSIDE: Mapping[Capability, Message] = {
    Capability.KILL_BROKERS: Message(
        "no-kill-hook", _NO_HOOK.format(done="killed", example='kill: "kubectl delete pod {broker}"')
    ),
    Capability.PAUSE_BROKERS: Message("no-pause-hook", _NO_HOOK.format(done="paused", example="pause: …, resume: …")),
    Capability.PYTHON_PROCESSES: Message(
        "no-python-processes", "{kind} finds processes by the addresses of a system of our own; write kind: crash_executor"
    ),
    Capability.PLAIN_CONNECTIONS: Message(
        "no-plain-connections", "{kind} is proved by a connection of our own without TLS, and this cluster requires TLS"
    ),
}
_ELSEWHERE = (
    "Spark's executors run elsewhere: {reason}; write executors: here in the external file if they run on this machine, "
    "or master: local[4]"
)
_LIBRDKAFKA = (
    "connections of {client} cannot be led through a proxy: it uses librdkafka, which connects to the addresses that brokers "
    "advertise; only Spark's own JVMs can be told otherwise"
)


def faults_of(scenario: Scenario) -> Iterator[tuple[Location, FaultBase]]:
    """Every declared fault, including those that may be drawn by chance, with its location in the scenario."""
    yield from ((("faults", number), fault) for number, fault in enumerate(scenario.faults))
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        yield ("random", "pick", number, "fault"), pick.fault


def impossible(scenario: Scenario, runtime: str) -> Iterator[Problem]:
    """Every fault that is not possible with this pipeline, or on a system of this runtime, with its location in the scenario.

    Args:
        runtime: one of `RUNTIMES`; "" if the file is only read. What is possible on an external system depends on its
            declaration: `impossible_outside`.
    """
    if runtime and runtime != "containers":
        yield from _outside_of_containers(scenario)
    for place, fault in faults_of(scenario):
        lacking = fault.needs & OF_PIPELINES - scenario.pipeline.capabilities
        if lacking:
            yield (*place, "target" if hasattr(fault, "target") else "kind"), _LACKING[_first(lacking)]
        absent = fault.needs - OF_PIPELINES - _OF_SERVICES - OFFERED.get(runtime, OF_SYSTEMS)
        if absent:
            reason = f"{fault.kind} is possible in containers only: it needs {_first(absent)}"
            text = f"{reason}; here {fault.without}; or use --chaos-runtime containers"
            yield (*place, "kind"), Message("containers-only", text)


def _outside_of_containers(scenario: Scenario) -> Iterator[Problem]:
    if scenario.pipeline.joins_network:
        yield ("pipeline", "kind"), _NO_NETWORK


def unavailable(system: SystemSpec, runtime: str) -> Iterator[Problem]:
    """What this runtime cannot offer of a declared system, with its location there."""
    if runtime == "containers" and system.services:
        text = "services are on loopback addresses of this machine, which containers do not reach; run it locally"
        yield ("services",), Message("services-in-containers", text)
    ours = spark_versions.here()
    if runtime == "containers" and system.spark.version != ours:
        text = f"containers run the Spark of this environment, {ours}, and no other; leave it out, or run it locally"
        yield ("spark", "version"), Message("spark-of-containers", text)


def _first(capabilities: frozenset[Capability]) -> Capability:
    return next(capability for capability in Capability if capability in capabilities)


def impossible_outside(scenario: Scenario, external: External, services: Collection[str]) -> Iterator[Problem]:
    """Every part of a scenario that cannot be done to this external system, with its location in the scenario.

    Args:
        services: the names of those that its system of our own would have.
    """
    yield from _outside_of_containers(scenario)
    yield from _names(scenario)
    yield from _services_in_texts(scenario, services)
    for name, reason in _unasked(external).items():
        if isinstance(scenario.expect, Mapping) and name in scenario.expect:
            text = f"a result of {name!r} is expected, and it is not asked here: {reason}"
            yield ("expect", name), Message("expected-not-asked-outside", text)
    for place, fault in faults_of(scenario):
        yield from within(place, _fault(scenario, fault, external))
        yield from within(place, _trigger(scenario, fault.when, external))


_INTERNAL = "it reads __consumer_offsets, which a cluster that others use seldom allows"
_CLOCKS = "it compares times of brokers and of this machine, whose clocks may differ"
_PLAIN = "it asks brokers over a plain connection, and this cluster requires TLS or a login"


def for_external(scenario: Scenario, external: External) -> Scenario:
    """The scenario without the verifiers that have nothing to judge on this external system."""
    for name, reason in _unasked(external).items():
        scenario = scenario.without([name], reason)
    return scenario


def _unasked(external: External) -> Mapping[str, str]:
    """Verifiers, each with the reason why it is not asked there."""
    of_plain = {} if external.is_plain else dict.fromkeys(("atomicity", "hanging"), _PLAIN)
    return {"commits": _INTERNAL, PRECEDENCE: _CLOCKS} | of_plain


def _names(scenario: Scenario) -> Iterator[Problem]:
    """Names that a program chooses itself and that do not begin with the prefix."""
    pipeline = scenario.pipeline
    names = {pipeline.GROUP: pipeline.group} if pipeline.group else {}
    names |= {("transactional_ids", number): name for number, name in enumerate(pipeline.transactional_ids)}
    for place, name in names.items():
        if not name.startswith((*_PREFIXED, *(f"{{{topic}}}" for topic in scenario.topics))):
            text = f"on a shared cluster, names must begin with its prefix; write {_PREFIXED[0]}{name}"
            yield ("pipeline", *place), Message("name-without-prefix", text)


def _services_in_texts(scenario: Scenario, services: Collection[str]) -> Iterator[Problem]:
    """Services in the texts of a pipeline, which would be left as they are."""
    for place, (text, _) in scenario.pipeline.texts.items():
        if named := sorted({*names_in(text)} & {*services}):
            where = "is a service, which only a system of our own has links to; here, write its address"
            yield ("pipeline", *place), Message("service-outside", f"{{{named[0]}}} {where}")


def _fault(scenario: Scenario, fault: FaultBase, external: External) -> Iterator[Problem]:
    absent = fault.needs - OF_PIPELINES - external.capabilities
    if any(target.role == "controller" for target in fault.broker_targets):
        text = "an external cluster does not tell its clients which broker is the controller; aim at a leader"
        yield ("kind",), Message("controller-outside", text)
    if isinstance(fault, LinkFault):
        yield from _link(scenario, fault, external)
    if Capability.EXECUTOR_PROCESSES in absent:
        yield ("kind",), _why_no_executors(external)
    elif absent:
        message = _NOT_OFFERED_OUTSIDE.get(_first(absent), _NOT_OFFERED)
        yield ("kind",), Message(message.code, message.replace("{kind}", fault.kind).replace("{needed}", _first(absent)))
    target = getattr(fault, "target", None)
    if isinstance(target, ExecutorTarget) and target.number and not absent:
        text = f"workers of an external system have no numbers here; write executor(any) instead of {target}"
        yield ("target",), Message("numbered-worker-outside", text)


def _why_no_executors(external: External) -> Message:
    """Why there is no executor whose process can be signalled."""
    if external.spark.is_local:
        text = f"{external.spark.master} has no executor beside its driver; write kind: crash_pipeline"
        return Message("no-executor-beside-driver", text)
    return Message("executors-elsewhere", _ELSEWHERE.format(reason="we cannot signal them"))


def _link(scenario: Scenario, fault: LinkFault, external: External) -> Iterator[Problem]:
    if isinstance(fault.link.right, ServiceTarget):
        text = f"{fault.link.right} is a part of a system of our own, and an external one has no links to it"
        yield ("link",), Message("service-link-outside", text)
    elif message := _not_led(scenario, fault.link, external):
        yield ("link",), message
    if isinstance(fault, RequestsFault):
        yield from ((("request",), message) for message in _request(scenario, fault.request, external))


def _trigger(scenario: Scenario, when: Trigger, external: External) -> Iterator[Problem]:
    if not isinstance(when, OnRequest):
        return
    if message := _not_led(scenario, when.link or LinkPattern("pipeline", "*"), external):
        yield ("when", "link" if when.link else "request"), message
    yield from ((("when", "request"), message) for message in _request(scenario, when.request, external))


def _not_led(scenario: Scenario, link: LinkPattern, external: External) -> Message | None:
    """Why this link does not lead through our proxies; None if it does."""
    if link.left not in _OF_JVMS or link.both_ways:
        if link.left in ("loader", "app"):
            return _by_librdkafka(f"the client {link.left}")
        text = f"{link} is more than the links of Spark's JVMs, and no other links lead through a proxy; write spark->…"
        return Message("link-beyond-jvms", text)
    if Capability.SPARK not in scenario.pipeline.capabilities:
        return _by_librdkafka(f"the pipeline {scenario.pipeline.kind}")
    if not external.spark.is_here:
        text = _ELSEWHERE.format(reason="our proxies listen on loopback addresses of this machine")
        return Message("jvms-elsewhere", text)
    if Capability.PYTHON_WORKERS in scenario.pipeline.capabilities and _of_sink(link.right, scenario.sink):
        text = f"only the sink connects to {link.right} in this role, and {_LIBRDKAFKA.format(client='a sink in Python')}"
        return Message("link-of-python-sink", text)
    return None


def _by_librdkafka(client: str) -> Message:
    return Message("link-of-librdkafka", _LIBRDKAFKA.format(client=client))


def _of_sink(end: str | BrokerTarget | ServiceTarget, sink: str) -> bool:
    """Whether a broker has this role because of what the sink sends to it."""
    return isinstance(end, BrokerTarget) and (end.topic == sink or end.role in _OF_SINK)


def _request(scenario: Scenario, api: str, external: External) -> Iterator[Message]:
    """A request that no JVM sends, or that cannot be read on the wire."""
    if external.tls is not None:
        text = "requests cannot be told apart under TLS; break whole connections instead, e.g. kind: cut_link"
        yield Message("request-under-tls", text)
        return
    pipeline = scenario.pipeline
    if Capability.SPARK not in pipeline.capabilities:
        return
    if Capability.PYTHON_WORKERS in pipeline.capabilities and api not in _READS:
        text = f"Spark's JVMs do not send {api} here, the sink does, and {_LIBRDKAFKA.format(client='a sink in Python')}"
        yield Message("request-of-python-sink", text)
    elif not pipeline.transactions and api not in _WRITES:
        text = f"a job without transactions reads and writes, and sends no {api} for that"
        yield Message("request-of-transactions", text)
