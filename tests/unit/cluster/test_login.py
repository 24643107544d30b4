"""A connection of ours over TLS and with a password, to a broker that speaks as Kafka's protocol guide says."""

import shutil
import socket
import ssl
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from chaos.cluster.login import connect
from tests.unit.wording import raised

ALICE = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
REFUSED = 58  # SASL_AUTHENTICATION_FAILED
WITHIN_S = 60


@contextmanager
def broker(context=None, error=0):
    """Answers SaslHandshake v1, and SaslAuthenticate v0 with this error; yields its address and what was said."""

    def serve():
        connection, _ = server.accept()
        with (
            context.wrap_socket(connection, server_side=True) if context else connection as ours,
            ours.makefile("rb") as stream,
        ):
            said = []
            while head := stream.read(4):
                request = stream.read(struct.unpack(">i", head)[0])
                api, _, correlation, client = struct.unpack_from(">hhih", request)
                said.append((api, request[10 + client :]))
                none = struct.pack(">hi", -1, 0)  # no message, no bytes
                answer = struct.pack(">h", 0) + struct.pack(">i", 0) if api == 17 else struct.pack(">h", error) + none
                ours.sendall(struct.pack(">ii", 4 + len(answer), correlation) + answer)
            return said

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(WITHIN_S)
        yield server.getsockname(), pool.submit(serve)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate for ``localhost`` that signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    command = (shutil.which("openssl") or "openssl", *words.split(), "-keyout", "key.pem", "-out", "ca.pem")
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=folder)
    return folder


def served(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


def test_plain_says_the_name_and_the_password():
    with broker() as (address, said):
        connect(address, ALICE | {"security.protocol": "SASL_PLAINTEXT"}, WITHIN_S).close()

    handshake, login = said.result(WITHIN_S)
    assert handshake == (17, struct.pack(">h", 5) + b"PLAIN")
    assert login == (36, struct.pack(">i", 18) + b"\0".join((b"alice", b"alice", b"secret")))


def test_a_login_that_is_refused_says_whose_it_is_and_not_the_password():
    with broker(error=REFUSED) as (address, _), pytest.raises(PermissionError) as caught:
        connect(address, ALICE | {"security.protocol": "SASL_PLAINTEXT"}, WITHIN_S)

    assert str(caught.value).startswith("the login of alice was refused: ")
    assert "secret" not in str(caught.value)


def test_a_mechanism_that_is_not_known_is_told():
    with broker() as (address, _), raised(PermissionError, "GSSAPI", "PLAIN"):
        connect(address, ALICE | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}, WITHIN_S)


def test_tls_trusts_the_authority_that_was_named_and_no_other(authority):
    options = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(authority / "ca.pem")}
    with broker(served(authority)) as ((_, port), said):
        connect(("localhost", port), ALICE | options, WITHIN_S).close()
    assert len(said.result(WITHIN_S)) == 2

    for host, wrong in (("localhost", {"security.protocol": "SSL"}), ("127.0.0.1", options)):
        with broker(served(authority)) as ((_, port), _), pytest.raises(ssl.SSLCertVerificationError):
            connect((host, port), wrong, WITHIN_S)

    unchecked = options | {"ssl.endpoint.identification.algorithm": "none"}
    with broker(served(authority)) as (address, said):
        connect(address, ALICE | unchecked, WITHIN_S).close()
    assert len(said.result(WITHIN_S)) == 2
