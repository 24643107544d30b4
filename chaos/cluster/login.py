"""A connection to a broker over TLS and with a password, for requests that no client sends (`chaos.cluster.protocol`).

The options are those of librdkafka, from `chaos.external.security`. The login is that of KIP-43 and KIP-152: SaslHandshake
names the mechanism, and SaslAuthenticate carries its messages; those of PLAIN and SCRAM come from kafka-python.
"""

import socket
import ssl
import warnings
from collections.abc import Mapping
from typing import Any

from chaos.cluster.addresses import Address
from chaos.cluster.protocol import ERROR_CODES, answer_to

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.net.sasl.plain import SaslMechanismPlain
    from kafka.net.sasl.scram import SaslMechanismScram
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

_MECHANISMS = {"PLAIN": SaslMechanismPlain, "SCRAM-SHA-256": SaslMechanismScram, "SCRAM-SHA-512": SaslMechanismScram}
_NAMES = {code: name for name, code in ERROR_CODES.items()}


def connect(address: Address, options: Mapping[str, str], within_s: float) -> socket.socket:
    """Connect and log in; the time limit also holds for every answer on the connection.

    Raises:
        OSError: no connection, an untrusted certificate (ssl.SSLError), or a refused login (PermissionError).
    """
    connection = socket.create_connection(address, timeout=within_s)
    try:
        protocol = options.get("security.protocol", "PLAINTEXT").upper()
        if protocol.endswith("SSL"):
            connection = _context(options).wrap_socket(connection, server_hostname=address[0])
        if protocol.startswith("SASL_"):
            _log_in(connection, options)
    except BaseException:
        connection.close()
        raise
    return connection


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
    if options.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if options.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = options.get("ssl.certificate.location")
    if certificate:
        context.load_cert_chain(certificate, options.get("ssl.key.location"), options.get("ssl.key.password"))
    return context


def _log_in(connection: socket.socket, options: Mapping[str, str]) -> None:
    name = options.get("sasl.mechanism", "")
    if name not in _MECHANISMS:
        raise PermissionError(f"chaos does not support the mechanism {name or 'GSSAPI'}; use one of {', '.join(_MECHANISMS)}")
    credentials = {"sasl_plain_username": options["sasl.username"], "sasl_plain_password": options["sasl.password"]}
    mechanism: Any = _MECHANISMS[name](sasl_mechanism=name, **credentials)
    _let_in(answer_to(connection, SaslHandshakeRequest(version=1, mechanism=name)), options)
    while not mechanism.is_done():
        answer = answer_to(connection, SaslAuthenticateRequest(version=0, auth_bytes=mechanism.auth_bytes()))
        _let_in(answer, options)
        mechanism.receive(bytes(answer.auth_bytes))


def _let_in(answer: Any, options: Mapping[str, str]) -> None:
    if answer.error_code:
        code = int(answer.error_code)
        reason = getattr(answer, "error_message", None) or _NAMES.get(code, str(code))
        raise PermissionError(f"the login of {options['sasl.username']} was refused: {reason}")
