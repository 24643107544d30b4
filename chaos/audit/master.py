"""`--spark-master`: the Spark that reads and judges."""

import socket
from contextlib import suppress

from chaos.audit.logs import ASK_S, AuditUsageError
from chaos.common.errors import InconclusiveError
from chaos.judging import spark_session

_STANDALONE = "spark://"
_LAST_PORT = 65_535


def require_master(master: str) -> None:
    """Ask a standalone master for a connection: Spark itself would try for a minute and print three stack traces.

    Raises:
        AuditUsageError: it is not the URL of a master, or a standalone master's URL without a port.
        InconclusiveError: nothing answers at any of its addresses.
    """
    if not spark_session.is_master(master):
        raise AuditUsageError(f"--spark-master {master}: must be local[N], local[*], {_STANDALONE}HOST:PORT, yarn or k8s://…")
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT:
            raise AuditUsageError(f"--spark-master {master}: {_STANDALONE}HOST:PORT is needed")
        with suppress(OSError, UnicodeError), socket.create_connection((host.strip("[]"), int(port)), ASK_S):
            return
    raise InconclusiveError(f"--spark-master {master} does not answer within {ASK_S:g} s: is it up, and reachable?")
