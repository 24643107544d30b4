"""A Flink cluster for one job: a JobManager and two TaskManagers, each a process of its own that is started again when it ends.

python cluster.py --java JAVA --classes FOLDER:JARS --folder FOLDER [--forget] JOB WORD…

That is what Kubernetes or systemd would do for them. A JobManager that is started again goes on from the newest checkpoint,
unless it is told to forget: then it begins with an empty state, from the positions of the consumer group.
"""

import argparse
import logging
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

_LOG = logging.getLogger("cluster")
_MANAGERS = 2
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OPENED = (  # Flink 1.20 reaches into these on a JDK 17
    "java.base/java.lang",
    "java.base/java.net",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.time",
)


def main() -> None:
    """Run until SIGTERM; the JVMs end with this process."""
    words = _parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ports = [_free_port() for _ in range(3)]
    parts = {"jobmanager": partial(_job_manager, words, ports)}
    parts |= {f"taskmanager-{number}": partial(_task_manager, words, ports, number) for number in range(_MANAGERS)}
    running = {start().pid: name for name, start in parts.items()}
    try:
        while True:
            pid, status = os.wait()
            name = running.pop(pid)
            _LOG.info("%s ended with %s", name, os.waitstatus_to_exitcode(status))
            running[parts[name]().pid] = name
    finally:
        for pid in running:
            os.kill(pid, signal.SIGTERM)
        for pid in running:
            os.waitpid(pid, 0)


def _job_manager(words: argparse.Namespace, ports: list[int]) -> "subprocess.Popen[bytes]":
    checkpoints = Path(words.folder) / "checkpoints"
    settings = _common(ports) | {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": checkpoints.resolve().as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "1s",
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.process.size": "768m",
        "parallelism.default": "2",
    }
    newest = max(checkpoints.glob("*/chk-*/_metadata"), key=lambda file: file.stat().st_mtime, default=None)
    if newest is not None and not words.forget:
        settings["execution.state-recovery.path"] = newest.parent.resolve().as_uri()
    return _start(
        words,
        "jobmanager",
        "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint",
        settings,
        "--job-classname",
        words.job,
        *words.words,
    )


def _task_manager(words: argparse.Namespace, ports: list[int], number: int) -> "subprocess.Popen[bytes]":
    settings = _common(ports) | {
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.numberOfTaskSlots": "2",
        "taskmanager.cpu.cores": "2",
        "taskmanager.memory.framework.heap.size": "64m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
        "taskmanager.memory.task.heap.size": "128m",
        "taskmanager.memory.managed.size": "32m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
    }
    return _start(words, f"taskmanager-{number}", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", settings)


def _common(ports: list[int]) -> dict[str, str]:
    rpc, rest, blob = map(str, ports)
    return {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc,
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": rest,
        "blob.server.port": blob,
        "heartbeat.interval": "1s",
        "heartbeat.timeout": "6s",
    }


def _start(
    words: argparse.Namespace, name: str, program: str, settings: dict[str, str], *arguments: str
) -> "subprocess.Popen[bytes]":
    folder = Path(words.folder) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()), encoding="utf-8")
    opened = [option for package in _OPENED for option in ("--add-opens", f"{package}=ALL-UNNAMED")]
    jvm = [words.java, *_JVM, *opened, f"-Djava.io.tmpdir={folder}", "-cp", words.classes, program]
    own = ["--configDir", str(folder)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([*jvm, *own, *arguments], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--java", required=True)
    parser.add_argument("--classes", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--forget", action="store_true", help="begin with an empty state after a failure of the JobManager")
    parser.add_argument("job")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    main()
