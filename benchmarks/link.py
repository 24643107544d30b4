"""Measure the cost of a link: a direct connection, stock Toxiproxy, and Toxiproxy with its kafka toxics.

    .venv/bin/python benchmarks/link.py [rounds]

The ways take short turns within one run, so that a machine that becomes slower does so for all of them, and each turn is
compared with stock's turn beside it. The load and the sink are in Go (`toxiproxy/linkbench`); load, sink and Toxiproxy share
the machine's cores. What a busy machine disturbs least is the processor time that Toxiproxy itself uses for a request.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaos.common import processes
from chaos.common.clock import wait_until
from chaos.install import cache, go_build
from chaos.install.proxy import SOURCES

_ROUNDS = 13
_SECONDS = 0.35  # 13 rounds of 3 ways and 3 loads take about a minute
_API = "127.0.0.1:18474"
_LOADS = {"64 KiB": ("bytes", 2), "ping-pong": ("pings", 4), "pipelined": ("pipeline", 4)}  # mode of linkbench, connections
_WAYS = ("direct", "stock", "kafka")
_TOXICS = {"stock": (), "kafka": ("kafka",)}
_STREAMS = ("upstream", "downstream")


@dataclass(frozen=True, slots=True)
class Measured:
    """One load over one way, once."""

    requests_per_s: float
    bytes_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # of Toxiproxy, for a request


def main() -> None:
    """Measure, and print medians, their ratio to stock, and what they add to the 99th percentile."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server, bench = _build(folder, "."), _build(folder, "./linkbench")
        sink = stack.enter_context(_started(bench, "sink")).stdout
        address = sink.readline().strip() if sink else ""
        host, port = _API.split(":")
        proxy = psutil.Process(stack.enter_context(_started(server, "-host", host, "-port", port)).pid)
        wait_until(lambda: _call("/version"), within_s=10, reason="Toxiproxy answers", ignore=(OSError,))
        addresses = {"direct": address, **{way: _proxy(way, address) for way in _TOXICS}}
        measured = _measure(bench, proxy, addresses, rounds)
    _print(measured)


def _build(folder: Path, package: str) -> Path:
    """A command of the Go module, built with the project's own toolchain."""
    place = cache.folder()
    go = go_build.find_go(place, print)
    target = folder / (package.removeprefix("./").strip(".") or "toxiproxy")
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw"}
    environment = {"GOPATH": str(place / "go-path"), **os.environ, **settings}
    argv = (str(go), "build", "-trimpath", "-o", str(target), package)
    answer = processes.run(argv, within_s=300, cwd=SOURCES, env=environment)
    if answer.returncode:
        sys.exit(answer.stderr)
    return target


@contextmanager
def _started(program: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    argv = (str(program), *arguments)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _call(path: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"http://{_API}{path}", data), timeout=10) as answer:
        return bytes(answer.read())


def _proxy(way: str, upstream: str) -> str:
    """The address of a new proxy with the toxics of a way."""
    made = json.loads(_call("/proxies", {"name": way, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": True}))
    for kind in _TOXICS[way]:
        for stream in _STREAMS:
            toxic = {"name": f"{kind}_{stream}", "type": kind, "stream": stream}
            _call(f"/proxies/{way}/toxics", toxic | {"attributes": {"link": way, "stream": stream}})
    return str(made["listen"])


def _measure(
    bench: Path, proxy: psutil.Process, addresses: dict[str, str], rounds: int
) -> dict[tuple[str, str], list[Measured]]:
    """By load and way, one measurement a round; every second round goes through the ways backwards."""
    measured: dict[tuple[str, str], list[Measured]] = {(load, way): [] for load in _LOADS for way in _WAYS}
    for turn in range(rounds):
        for load, (mode, connections) in _LOADS.items():
            for way in _WAYS[:: -1 if turn % 2 else 1]:
                argv = (str(bench), "load", "-mode", mode, "-connections", str(connections), "-seconds", str(_SECONDS))
                before = _cpu_s(proxy)
                answer = processes.run((*argv, addresses[way]), within_s=60)
                if answer.returncode:
                    sys.exit(f"{load} over {way}: {answer.stderr}")
                said = json.loads(answer.stdout)
                cpu_us = (_cpu_s(proxy) - before) / (said["requests_per_s"] * _SECONDS) * 1e6
                measured[load, way].append(Measured(**said, cpu_us=cpu_us))
    return measured


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _print(measured: dict[tuple[str, str], list[Measured]]) -> None:
    print("load       way             MB/s  requests/s  of stock   p50 ms   p99 ms  added p99 ms   CPU µs  of stock")
    for load in _LOADS:
        stock = measured[load, "stock"]
        for way in _WAYS:
            here = measured[load, way]
            pairs = list(zip(here, stock, strict=True))  # what the machine did in a round befell both
            rate = statistics.median(one.requests_per_s / other.requests_per_s for one, other in pairs)
            added = statistics.median(one.p99_ms - other.p99_ms for one, other in pairs)
            cpu = statistics.median(one.cpu_us / other.cpu_us for one, other in pairs)
            middle = {name: statistics.median(getattr(one, name) for one in here) for name in Measured.__slots__}
            print(
                f"{load:10} {way:12} {middle['bytes_per_s'] / 1e6:7.0f} {middle['requests_per_s']:11.0f} {rate:9.3f} "
                f"{middle['p50_ms']:8.3f} {middle['p99_ms']:8.3f} {added:13.3f} {middle['cpu_us']:8.1f} {cpu:9.3f}"
            )


if __name__ == "__main__":
    main()
