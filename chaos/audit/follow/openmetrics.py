"""What a follower has found, as OpenMetrics text: made by hand, for it is a few lines, and served on loopback.

The format is that of https://prometheus.io/docs/specs/om/open_metrics_spec/: each family has its TYPE, perhaps its UNIT, and
its HELP before its samples, a counter's samples end with ``_total``, and ``# EOF`` ends all.
"""

import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Literal

from chaos.audit.logs import AuditUsageError

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PLACE = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+)):(\d{1,5})")
_LAST_PORT = 65_535
_REQUEST_WITHIN_S = 10.0

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name.

    Attributes:
        name: without ``_total``; it ends with the unit, if there is one.
        samples: labels, none for a family of one sample -> value.
    """

    name: str
    kind: Literal["counter", "gauge"]
    says: str
    samples: Mapping[Labels, float] = field(default_factory=dict)
    unit: str = ""


def text(families: Sequence[Family]) -> str:
    """An exposition of all of them."""
    return "".join(f"{line}\n" for family in families for line in _lines(family)) + "# EOF\n"


def _lines(family: Family) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.kind}"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {_escaped(family.says)}"
    sample = f"{family.name}_total" if family.kind == "counter" else family.name
    for labels, value in family.samples.items():
        told = ",".join(f'{name}="{_escaped(one)}"' for name, one in labels)
        yield f"{sample}{{{told}}} {value:.15g}" if told else f"{sample} {value:.15g}"


def _escaped(told: str) -> str:
    return told.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# served --------------------------------------------------------------------------------------------------------------------


def place(given: str) -> tuple[str, int]:
    """``127.0.0.1:9464``: where it is served.

    Raises:
        AuditUsageError: that is not an address of this machine alone, with a port.
    """
    found = _PLACE.fullmatch(given)
    host, port = (found[1] or found[2], int(found[3])) if found else ("", _LAST_PORT + 1)
    try:
        is_ours = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_ours = False
    if not is_ours or port > _LAST_PORT:
        raise AuditUsageError(f"--metrics {given}: an address of loopback and a port are needed, 127.0.0.1:9464 for example")
    return host, port


class Page:
    """The text that is served now."""

    def __init__(self) -> None:
        self.content = text(()).encode()


@contextmanager
def served(given: str, page: Page) -> Iterator[str]:
    """Answer every GET with the page while the block runs; yields its URL.

    Raises:
        AuditUsageError: the address cannot be had.
    """
    address = place(given)

    class Answer(BaseHTTPRequestHandler):
        timeout = _REQUEST_WITHIN_S

        def do_GET(self) -> None:
            content = page.content
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
            """Requests are not worth a line."""

    try:
        server = _Server(address, Answer)
    except OSError as error:
        raise AuditUsageError(f"--metrics {given}: {error.strerror or error}") from None
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True)
    thread.start()
    try:
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        yield f"http://{host}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join(_REQUEST_WITHIN_S)
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], answer: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, answer)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle of an answer is its own affair."""
