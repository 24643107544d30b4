"""Pipelines that are images: a container on the network of the run, without any file of this machine.

A script for any ``sh`` supervises the program of the image, with the reports of `chaos.contract.supervisor`: the image need not
have Python. There is one copy.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from chaos.contract import clients
from chaos.contract.base import Command, Image
from chaos.contract.placeholders import substituted
from chaos.scenario.pipelines.base import Site, Word
from chaos.scenario.pipelines.in_group import ProgramInGroup, Variables
from chaos.scenario.pipelines.program import Restarts
from chaos.scenario.texts import Template

SUPERVISES = r"""
restarts=$1 says_started=$2; shift 2
died=0 stopped= child=
say() { printf '\n{"supervisor": "%s"%s}\n' "$1" "$2"; }
trap 'stopped=1; kill -TERM "$child" 2>/dev/null' TERM
while [ -z "$stopped" ]; do
    "$@" &
    child=$!
    if [ "$died" -gt 0 ]; then say restarted ", \"copy\": 0, \"pid\": $child, \"restarts\": $died"
    elif [ "$says_started" = no ]; then say started ", \"copies\": 1, \"pids\": [$child]"; fi
    wait "$child"; code=$?
    while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
    [ -z "$stopped" ] || break
    [ "$code" -le 128 ] || code=$((128 - code))
    say ended ", \"copy\": 0, \"code\": $code"
    if [ "$code" = 0 ]; then
        while [ -z "$stopped" ]; do sleep 1; done
    elif [ "$died" -ge "$restarts" ]; then
        say stopped ", \"why\": \"copy 0 died $((died + 1)) times\""
        exit 1
    fi
    died=$((died + 1))
    sleep 1
done
say stopped
"""


class ContainerPipeline(ProgramInGroup):
    """An image that reads topics and writes one: a container on the network of the run (``--chaos-runtime containers``).

    It sees no folder of this machine, so the image must contain everything that the pipeline needs, and an ``sh``. The image
    must be on this machine, and decides the user.
    """

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = ("bootstrap", "source", "sink", "prefix", "suffix", "instance")
    joins_network: ClassVar[bool] = True

    kind: Literal["container"]
    image: Word
    """the name of the image, which is never pulled."""
    command: tuple[Annotated[Word, Template()], ...] = ()
    """arguments of the image's entrypoint, word by word; the default is those of the image."""
    restarts: Restarts = 3
    """the number of times that the entrypoint is run again, in the same container, after it has ended with an error."""
    environment: Variables = Field(default_factory=dict)
    """environment variables of the container."""

    def process(self, site: Site, instance: int) -> Command:
        known = self.names(site.tools, site.topics) | {"bootstrap": site.endpoints.kafka, "instance": str(instance)}
        says = "yes" if self.says_started else "no"
        image = Image(self.image, around=("sh", "-c", SUPERVISES, "sh", str(self.restarts), says))
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        return Command(
            tuple(substituted(word, known) for word in self.command),
            {**environment, **clients.option_variables(site.endpoints)},
            has_events=self.says_started,
            image=image,
        )
