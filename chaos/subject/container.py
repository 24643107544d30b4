"""A pipeline that is an image of the user's: a container on the network of the run, with nothing of this machine in it.

What the image runs is supervised as a command is (`chaos.subject.supervisor`, whose reports these are), but by a script for
any ``sh``: the image need not have Python. There is one copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.subject import clients
from chaos.subject.base import Command, Endpoints, Image, Topics
from chaos.subject.command import InGroup
from chaos.subject.placeholders import substituted

PLACEHOLDERS = ("bootstrap", "source", "sink", "prefix", "suffix", "instance")
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


@dataclass(frozen=True, slots=True)
class ContainerPipeline(InGroup):
    """The pipeline; what it runs is given to the entrypoint of the image, or empty for what the image has itself.

    Attributes:
        image: its name; it must be on this machine.
        restarts: how often it is started again after it has ended with an error.
        environment: variables, whose values may have placeholders.
        says_started: whether it reports ``started`` itself, when it is ready and not only begun.
    """

    image: str = ""
    restarts: int = 3
    environment: Mapping[str, str] = field(default_factory=dict)
    says_started: bool = False

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path, instance: int = 1) -> Command:  # noqa: ARG002 - no folder
        known = self.known(topics) | {"bootstrap": endpoints.kafka, "instance": str(instance)}
        says = "yes" if self.says_started else "no"
        image = Image(self.image, around=("sh", "-c", SUPERVISES, "sh", str(self.restarts), says))
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        return Command(
            tuple(substituted(word, known) for word in self.run),
            {**environment, **clients.option_variables(endpoints)},
            has_events=self.says_started,
            image=image,
        )
