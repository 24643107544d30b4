"""Where the logs of an audit are: in a cluster, by an address or by a file, or in a folder where they were landed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.audit.logs import AuditUsageError, Topics
from chaos.common.errors import InconclusiveError, RuntimeUnavailableError

_ROUTINGS = ("same", "any")


@dataclass(frozen=True, slots=True)
class Where:
    """Options that say where the logs are; an empty text for one that was not given.

    Attributes:
        external: the file that declares the cluster (docs/external.md), in place of `bootstrap`.
        landed: folder or URL of the logs; empty if they are in a cluster.
        landing: folder or URL where the logs are landed and kept; empty for a temporary folder.
    """

    bootstrap: str = ""
    external: str = ""
    landed: str = ""
    landing: str = ""

    def check(self, needed: Mapping[str, object], beside: Mapping[str, object], folders: str, topics: str) -> None:
        """Raise AuditUsageError unless the logs are in one place.

        Args:
            needed: options that a cluster needs, with their values.
            beside: options that make no sense with folders.
            folders, topics: names of both for messages.
        """
        if self.external and self.bootstrap:
            raise AuditUsageError(f"--external and --bootstrap: {self.external} has the addresses; leave out --bootstrap")
        cluster = {"--external": self.external} if self.external else {"--bootstrap": self.bootstrap}
        all_needed = {**cluster, **needed}
        given = [name for name, value in {**all_needed, **beside, "--landing": self.landing}.items() if value]
        missing = [name for name, value in all_needed.items() if not value]
        if self.landed and given:
            raise AuditUsageError(f"--landed and {', '.join(given)}: name either {folders} or {topics}")
        if not self.landed and missing:
            raise AuditUsageError(f"missing: {', '.join(missing)}{f'; or --landed for {folders}' if folders else ''}")

    def connected(self, topics: Topics) -> Topics | None:
        """Add to the topics how to reach them, from the brokers of a declared cluster; None if they were landed.

        Raises:
            ScenarioError: the file of the cluster is wrong.
            InconclusiveError: no broker of that cluster answers, or none accepts the login.
        """
        if self.landed:
            return None
        if not self.external:
            return replace(topics, bootstrap=self.bootstrap)
        from chaos.external import declaration, discovery  # noqa: PLC0415 - the system and its declaration, which only this needs

        external = declaration.load(Path(self.external))
        try:
            cluster = discovery.look(external)
        except RuntimeUnavailableError as error:
            raise InconclusiveError(str(error)) from error
        groups = f"{external.prefix}audit"
        return replace(topics, bootstrap=cluster.bootstrap, librdkafka=cluster.options, java=cluster.java, groups=groups)


def check_routing(routing: str, source: Sequence[str], sink: Sequence[str]) -> None:
    """Raise AuditUsageError unless each topic is named once, and each source has its sink."""
    if routing not in _ROUTINGS:
        raise AuditUsageError(f"--routing {routing}: must be {' or '.join(_ROUTINGS)}")
    for name, topics in (("--source", source), ("--sink", sink)):
        twice = sorted(topic for topic in set(topics) if topics.count(topic) > 1)
        if twice:
            raise AuditUsageError(f"{name} {twice[0]}: is named twice")
    both = sorted(set(source) & set(sink))
    if both:
        raise AuditUsageError(
            f"--source and --sink {both[0]}: a topic cannot be compared with itself; name the one that is written"
        )
    sources, sinks = len(source), len(sink)
    if routing == "same" and sources != sinks and 0 not in {sources, sinks}:
        given = f"{sources} of --source and {sinks} of --sink"
        raise AuditUsageError(
            f"{given}: name as many of both, because the n-th sink answers the n-th source, or add --routing any"
        )
