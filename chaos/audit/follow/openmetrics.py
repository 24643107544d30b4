"""Serve the metrics of a follower as OpenMetrics text on loopback, with prometheus_client."""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest

from chaos.audit.logs import AuditUsageError

_PLACE = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+)):(\d{1,5})")
_LAST_PORT = 65_535
_END_WITHIN_S = 10.0
_ACCEPT = "application/openmetrics-text"


class Page:
    """The metric families that are served now, as a collector of prometheus_client."""

    def __init__(self, families: Sequence[Metric] = ()) -> None:
        self.families = families

    def collect(self) -> Sequence[Metric]:
        return self.families

    def text(self) -> bytes:
        """Render all families as OpenMetrics text."""
        written: bytes = generate_latest(self)  # type: ignore[no-untyped-call] # the library has no types there
        return written


def place(given: str) -> tuple[str, int]:
    """Parse the address of the server, such as ``127.0.0.1:9464``.

    Raises:
        AuditUsageError: it is not a loopback address with a port.
    """
    found = _PLACE.fullmatch(given)
    host, port = (found[1] or found[2], int(found[3])) if found else ("", _LAST_PORT + 1)
    try:
        is_ours = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_ours = False
    if not is_ours or port > _LAST_PORT:
        raise AuditUsageError(f"--metrics {given}: must be a loopback address and a port, such as 127.0.0.1:9464")
    return host, port


@contextmanager
def served(given: str, page: Page) -> Iterator[str]:
    """Answer every GET with the page, as OpenMetrics whatever the client accepts, while the block runs; yields its URL.

    Raises:
        AuditUsageError: the address is in use, or cannot be bound.
    """
    host, port = place(given)
    registry = CollectorRegistry()
    registry.register(page)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise AuditUsageError(f"--metrics {given}: {error.strerror or error}") from None
    negotiates = make_wsgi_app(registry)
    server.set_app(lambda environ, start: negotiates({**environ, "HTTP_ACCEPT": _ACCEPT}, start))
    server.handle_error = _say_nothing  # type: ignore[method-assign] # its class is local to start_http_server
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join(_END_WITHIN_S)
        server.server_close()


def _say_nothing(request: Any, client_address: Any) -> None:
    """Print nothing for a client that disconnects in the middle of an answer."""
