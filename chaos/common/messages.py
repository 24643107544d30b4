"""Reports of the framework's own processes, one JSON object per line on standard output.

Events, ``{"event": …}``, report an action of the process. Statements report an answer of its Kafka client (docs/adapters.md).
"""

import json
import sys
from typing import Any


def say(event: str, **value: Any) -> None:
    """Write one event, and flush it."""
    state(event=event, **value)


def state(**line: Any) -> None:
    """Write one line, its keys in this order, and flush it: the process may be killed at any moment."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
