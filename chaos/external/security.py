"""Translate the declared login into the options of librdkafka and of Kafka's Java clients.

==================  ====================================  ================================================================
declared            librdkafka                            Java (KIP-651: PEM)
==================  ====================================  ================================================================
tls                 security.protocol=SSL | SASL_SSL      the same
tls.ca              ssl.ca.location                       ssl.truststore.type=PEM, ssl.truststore.location
tls.certificate     ssl.certificate.location              ssl.keystore.type=PEM, ssl.keystore.certificate.chain (the text)
tls.key             ssl.key.location                      ssl.keystore.key (the text, PKCS#8)
verify_hostname     ssl.endpoint.identification           the same, "" for none
                    .algorithm=none
sasl                sasl.mechanism, .username, .password  sasl.mechanism, sasl.jaas.config
==================  ====================================  ================================================================
"""

import os
from collections.abc import Mapping
from pathlib import Path

from chaos.cluster.hooks import Secrets
from chaos.common.errors import RuntimeUnavailableError
from chaos.external.declaration import External, Sasl, Tls

_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_NO_TOPICS = {"allow.auto.create.topics": "false"}  # a consumer that asks for a topic just removed would make it again


class Hidden(dict[str, str]):
    """Options whose repr shows only names: pytest prints the arguments of every function that an error passed through."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name}: …' for name in self)}}}"


def librdkafka(external: External) -> Mapping[str, str]:
    """Return the options of every client that is built on librdkafka.

    Raises:
        RuntimeUnavailableError: a file or the password is missing.
    """
    return Hidden(_protocol(external) | _tls(external.tls) | _sasl(external.sasl) | external.librdkafka)


def java(external: External) -> Mapping[str, str]:
    """Return the options of every Java client; for Spark they are prefixed with ``kafka.``.

    Raises:
        RuntimeUnavailableError: a file or the password is missing.
    """
    shared = _NO_TOPICS | _protocol(external)
    return Hidden(shared | _java_tls(external.tls) | _java_sasl(external.sasl) | external.java)


def secrets(external: External) -> Secrets:
    """Return the values that hooks must not record: the variables that the file names, and the password of the login."""
    names = (*external.secrets, *((external.sasl.password_env,) if external.sasl else ()))
    found = (os.environ.get(name, "").strip() for name in names)
    return Secrets(tuple(value for value in found if value))


def _protocol(external: External) -> dict[str, str]:
    if external.is_plain:
        return {}
    return {"security.protocol": f"{'SASL_' if external.sasl else ''}{'SSL' if external.tls else 'PLAINTEXT'}"}


def _tls(tls: Tls | None) -> dict[str, str]:
    if tls is None:
        return {}
    files = {"ssl.ca.location": tls.ca, "ssl.certificate.location": tls.certificate, "ssl.key.location": tls.key}
    unchecked = {} if tls.verify_hostname else {"ssl.endpoint.identification.algorithm": "none"}
    return {name: str(_there(path)) for name, path in files.items() if path} | unchecked


def _java_tls(tls: Tls | None) -> dict[str, str]:
    if tls is None:
        return {}
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(_there(tls.ca))} if tls.ca else {}
    unchecked = {} if tls.verify_hostname else {"ssl.endpoint.identification.algorithm": ""}
    if not (tls.certificate and tls.key):
        return trusted | unchecked
    own = {"ssl.keystore.certificate.chain": _read(tls.certificate), "ssl.keystore.key": _read(tls.key)}
    return {**trusted, **unchecked, "ssl.keystore.type": "PEM", **own}


def _sasl(sasl: Sasl | None) -> dict[str, str]:
    if sasl is None:
        return {}
    return {"sasl.mechanism": sasl.mechanism, "sasl.username": sasl.username, "sasl.password": _password(sasl)}


def _java_sasl(sasl: Sasl | None) -> dict[str, str]:
    if sasl is None:
        return {}
    login = f'username="{_quoted(sasl.username)}" password="{_quoted(_password(sasl))}"'
    return {"sasl.mechanism": sasl.mechanism, "sasl.jaas.config": f"{_LOGIN[sasl.mechanism]} required {login};"}


def _quoted(text: str) -> str:
    """Escape a text for JAAS, which reads it between double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _password(sasl: Sasl) -> str:
    found = os.environ.get(sasl.password_env, "")
    if not found:
        raise RuntimeUnavailableError(
            f"there is no password for {sasl.username}: the variable {sasl.password_env} is not set; export it first"
        )
    return found


def _there(path: str) -> Path:
    if not Path(path).is_file():
        raise RuntimeUnavailableError(f"{path} is not a file; check tls: in the external file")
    return Path(path)


def _read(path: str) -> str:
    return _there(path).read_text(encoding="ascii")
