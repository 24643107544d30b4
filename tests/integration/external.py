"""A cluster that is not ours, and a pytest that uses it, each a process of its own on addresses of its own."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.common import clock
from chaos.common.warden import SESSION_VARIABLE
from tests.integration.conftest import WORKER

ROOT = Path(__file__).parents[2]
THEIRS, OURS = f"127.{92 + 2 * WORKER}", f"127.{93 + 2 * WORKER}"
_PR_SET_PDEATHSIG = 1
OTHERS_TOPIC, OTHERS_GROUP = "orders", "billing"


@dataclass(frozen=True)
class Up:
    """A `chaos up` that runs."""

    process: subprocess.Popen
    log: Path

    @property
    def declaration(self):
        """The file that it wrote for others."""
        return next(self.log.parent.glob("runs/*-up/external.yaml"))

    @property
    def bootstrap(self):
        """Where its brokers are found by others."""
        line = next(line for line in said(self.log).splitlines() if line.startswith("Kafka "))
        return line.removeprefix("Kafka").replace(" ", "")


def start_up(folder):
    """Start it, and wait until it says how it is ended."""
    log = folder / "up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            (str(Path(sys.executable).with_name("chaos")), "up", "--runs", str(folder / "runs"), "--restart-after", "3"),
            env=environment(THEIRS),
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=_ends_with_us,  # noqa: PLW1509 - a test has one thread
        )
    clock.wait_until(lambda: "to end it" in said(log) or process.poll() is not None, within_s=300, reason="chaos up")
    assert process.poll() is None, said(log)
    return Up(process, log)


def _ends_with_us():
    """Whoever kills the tests ends `chaos up` too; and it hears Ctrl-C, though it is the child of a job in the background."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def play(declaration, folder, *arguments, scenarios=ROOT / "examples" / "external" / "scenarios.yaml", **variables):
    """Run scenarios on it in a pytest of its own; returns what it said, and its reports."""
    command = (sys.executable, "-m", "pytest", str(scenarios), "-m", "chaos", "-p", "no:cacheprovider", "--rootdir", str(ROOT))
    where = ("--chaos-runtime", "external", "--chaos-external", str(declaration), "--chaos-runs", str(folder / "played"))
    answer = subprocess.run(
        (*command, *where, "-c", str(ROOT / "pyproject.toml"), *arguments),
        env=environment(OURS) | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    (folder / "played.log").write_text(answer.stdout + answer.stderr, encoding="utf-8")
    found = sorted((folder / "played").glob("*/report.json"))
    return answer, [json.loads(path.read_text(encoding="utf-8")) for path in found]


def environment(net):
    """The environment of a process on other addresses, outside the sessions of these tests."""
    own = {**os.environ, "CHAOS_NET": net}
    own.pop(SESSION_VARIABLE, None)
    return own


def said(log):
    """All of it."""
    return log.read_text(encoding="utf-8")


def others(bootstrap):
    """Somebody else's topic, with a record in it, and their group, with a position."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "broker.address.family": "v4"})
    admin.create_topics([NewTopic(OTHERS_TOPIC, 1, 3)], operation_timeout=60)[OTHERS_TOPIC].result(90)
    producer = Producer({"bootstrap.servers": bootstrap, "broker.address.family": "v4"})
    producer.produce(OTHERS_TOPIC, b"an order")
    assert producer.flush(120) == 0
    settings = {"bootstrap.servers": bootstrap, "broker.address.family": "v4", "group.id": OTHERS_GROUP}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition(OTHERS_TOPIC, 0, 1)], asynchronous=False)


def inventory(bootstrap):
    """Topics and groups of the cluster, and the end of somebody else's topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "broker.address.family": "v4"})
    topics = set(admin.list_topics(timeout=60).topics)
    groups = {group.group_id for group in admin.list_consumer_groups(request_timeout=60).result(90).valid}
    settings = {"bootstrap.servers": bootstrap, "broker.address.family": "v4", "group.id": "inventory"}
    with closing(Consumer(settings)) as consumer:
        return topics, groups, consumer.get_watermark_offsets(TopicPartition(OTHERS_TOPIC, 0), timeout=60)


def end(up, number=signal.SIGINT):
    """Signal it, and return its exit code."""
    up.process.send_signal(number)
    return up.process.wait(300)


def survivors():
    """Whoever listens on its addresses, or names them on its command line."""
    named = [
        process
        for process in psutil.process_iter(["pid", "cmdline"])
        if f"{THEIRS}." in " ".join(process.info["cmdline"] or ())
    ]
    sockets = [one for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.ip.startswith(f"{THEIRS}.")]
    return [f"{one.info['pid']} {one.info['cmdline'][:3]}" for one in named] + [f"{one.pid} {one.laddr}" for one in sockets]
