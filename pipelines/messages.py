"""How a process of a pipeline speaks: one JSON object per line on standard output, ``{"event": …}``."""

import json
import sys
from typing import Any


def say(event: str, **value: Any) -> None:
    """Say it now."""
    sys.stdout.write(json.dumps({"event": event, **value}) + "\n")
    sys.stdout.flush()
