"""Further options of clients, TLS and SASL above all: handed from process to process in the environment.

A command line can be read by everybody on the machine, and these hold passwords.
"""

import json
import os
from collections.abc import Mapping

from pipelines.base import Endpoints

_LIBRDKAFKA = "KAFKA_CLIENT_OPTIONS"
_JAVA = "KAFKA_JAVA_CLIENT_OPTIONS"
_SPARK = "SPARK_APPLICATION_OPTIONS"


def variables(endpoints: Endpoints) -> dict[str, str]:
    """The environment of a process whose clients need them: JSON objects of texts; nothing when there are none."""
    given = {_LIBRDKAFKA: endpoints.options, _JAVA: endpoints.java, _SPARK: endpoints.spark_options}
    return {name: json.dumps(dict(options)) for name, options in given.items() if options}


def librdkafka() -> dict[str, str]:
    """Those that this process was given for librdkafka clients."""
    return _given(_LIBRDKAFKA)


def java() -> dict[str, str]:
    """Those that this process was given for Java clients."""
    return _given(_JAVA)


def spark() -> dict[str, str]:
    """Those that this process was given for its Spark application."""
    return _given(_SPARK)


def for_spark(options: Mapping[str, str]) -> dict[str, str]:
    """As options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in options.items()}


def _given(variable: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(os.environ.get(variable, "{}"))
    return found
