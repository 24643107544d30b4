"""What can be done to a system that is already there, from outside: everything else is refused when the file is read.

possible                                   because
=========================================  =================================================================================
crash, pause, zombie of the pipeline       its process and its checkpoint are ours
crash and pause of executors               where they run on this machine
faults of links ``spark->…``, and of the   a JVM can be told where a name leads (``jdk.net.hosts.file``): to our own proxies.
requests that Spark's JVMs send there      librdkafka cannot: it connects to where brokers say that they are
kill_broker, pause_broker                  where hooks are declared that do it
=========================================  =================================================================================
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from chaos.common.errors import ScenarioError
from chaos.external.declaration import External
from chaos.faults.declared import Fault, broker_targets
from chaos.faults.declared.base import LinkFault
from chaos.faults.declared.broker import KillBroker, PauseBroker
from chaos.faults.declared.client import CrashPipeline, PausePipeline, ZombiePipeline
from chaos.faults.declared.network import CutAfterBytes, ResetLink, SliceLink, ThrottleLink
from chaos.faults.declared.protocol import FrameFault, HoldRequests
from chaos.faults.declared.spark import CrashExecutor, ExecutorFault, PauseExecutor
from chaos.faults.declared.storage import CheckpointFault
from chaos.grammar.targets import BrokerTarget, LinkPattern
from chaos.grammar.triggers import Moment, OnRequest
from chaos.grammar.yaml_source import parse, place_of
from chaos.scenario.load import ScenarioFile
from chaos.scenario.matrix import expand
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import CommandPipeline, SparkSquarePipeline
from chaos.scenario.runtimes import faults_of

Wrong = tuple[tuple[str | int, ...], str]
_OF_PIPELINE = (CrashPipeline, PausePipeline, ZombiePipeline, CheckpointFault)
_OF_EXECUTORS = (CrashExecutor, PauseExecutor)
_OF_FRAMES = (FrameFault, HoldRequests)
POSSIBLE = (*_OF_PIPELINE, *_OF_EXECUTORS, *_OF_FRAMES, LinkFault, KillBroker, PauseBroker)  # with the right targets
_WITHIN_CONNECTIONS = (ResetLink, ThrottleLink, SliceLink, CutAfterBytes)
_READS = frozenset({"Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"})
_WRITES = _READS | {"Produce", "InitProducerId"}
_OF_JVMS = ("spark", "pipeline")
_OF_SINK = ("transaction_coordinator", "group_coordinator")
_PREFIXED = "{prefix}"

_NOT_OURS = "{kind} is done to the cluster's own processes, disks or network, which are not ours; from outside: {possible}"
_POSSIBLE = "faults of the links of Spark's JVMs, crashes and pauses of the pipeline and of executors here, and declared hooks"
_NO_HOOK = "a broker that is not ours cannot be {done} by us; declare how, in the external file: hooks: {{{words}}}"
_ELSEWHERE = (
    "Spark's executors run elsewhere: {what}; write executors: here in the external file if they run on this machine, "
    "or master: local[4]"
)
_LIBRDKAFKA = (
    "connections of {who} cannot be led through a proxy: it is librdkafka, which connects to where brokers say that they are; "
    "only Spark's own JVMs can be told otherwise"
)


def refused(file: ScenarioFile, names: Collection[str], external: External) -> ScenarioError | None:
    """What cannot be done from outside, of the scenarios with these names: one line for each, with its place in the file."""
    tree = expand(parse(file.path.read_text(encoding="utf-8")))
    wanted = {number: scenario for number, scenario in enumerate(file.scenarios) if scenario.name in names}
    placed = {
        (place_of(tree, ("scenarios", number, *location)), f"{scenario.name}: {message}")
        for number, scenario in wanted.items()
        for location, message in impossible(scenario, external)
    }
    return ScenarioError(_lines(placed, file.path)) if placed else None


def _lines(placed: set[tuple[Any, str]], path: Path) -> str:
    return "\n".join(f"{path}:{place}: {message}" for place, message in sorted(placed))


def impossible(scenario: Scenario, external: External) -> Iterator[Wrong]:
    """Every part of a scenario that cannot be done to this system, with its place in the scenario."""
    yield from _names(scenario)
    if "atomicity" in scenario.verify and not external.is_plain:
        yield (
            ("verify", scenario.verify.index("atomicity")),
            "atomicity reads record batches over a plain connection, and this cluster wants TLS or a login",
        )
    for place, fault in faults_of(scenario):
        for key, message in (*_fault(scenario, fault, external), *_moment(scenario, fault.when, external)):
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


def _fault(scenario: Scenario, fault: Fault, external: External) -> Iterator[Wrong]:
    if any(target.role == "controller" for target in broker_targets(fault)):
        yield ("kind",), "who controls a cluster that is not ours is not told to its clients; aim at a leader, or a coordinator"
    if isinstance(fault, LinkFault):
        yield from _link(scenario, fault, external)
    elif isinstance(fault, KillBroker | PauseBroker):
        yield from _hook(fault, external)
    elif isinstance(fault, ExecutorFault):
        yield from _executor(fault, fault.kind, external)
    elif not isinstance(fault, (*_OF_PIPELINE, *_OF_FRAMES)):
        yield ("kind",), _NOT_OURS.format(kind=fault.kind, possible=_POSSIBLE)


def _hook(fault: KillBroker | PauseBroker, external: External) -> Iterator[Wrong]:
    if isinstance(fault, KillBroker) and external.hooks.kill is None:
        yield ("kind",), _NO_HOOK.format(done="killed", words='kill: "kubectl delete pod {broker}"')
    if isinstance(fault, PauseBroker) and external.hooks.pause is None:
        yield ("kind",), _NO_HOOK.format(done="paused", words="pause: …, resume: …")


def _executor(fault: ExecutorFault, kind: str, external: External) -> Iterator[Wrong]:
    if not isinstance(fault, _OF_EXECUTORS):
        yield ("kind",), f"{kind} finds its victims by the addresses of a system of ours; write kind: crash_executor"
    elif external.spark.is_local:
        yield ("kind",), f"{external.spark.master} has no executor beside its driver; write kind: crash_pipeline"
    elif not external.spark.is_here:
        yield ("kind",), _ELSEWHERE.format(what="we cannot signal them")
    elif fault.target.number:
        yield ("target",), f"the workers are not ours and have no number; write executor(any), not {fault.target}"


def _link(scenario: Scenario, fault: LinkFault, external: External) -> Iterator[Wrong]:
    message = _not_led(scenario, fault.link, external)
    if message:
        yield ("link",), message
    if isinstance(fault, _WITHIN_CONNECTIONS) and external.tls is not None:
        yield ("kind",), f"{fault.kind} is proved by a connection of our own in plain text, and this cluster wants TLS"
    if isinstance(fault, HoldRequests):
        yield from ((("request",), wrong) for wrong in _request(scenario, fault.request, external))


def _moment(scenario: Scenario, when: Moment, external: External) -> Iterator[Wrong]:
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
