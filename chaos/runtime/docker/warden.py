"""The warden of a session in containers: when the harness has ended, containers and networks go as well as processes."""

import sys
from pathlib import Path

from chaos.common import warden
from chaos.common.errors import RuntimeUnavailableError
from chaos.runtime.docker import cleanup, engine


def main() -> None:
    """Wait for the harness to end, then sweep; what Docker keeps from us the next session finds."""
    path = Path(sys.argv[1])
    sys.stdin.buffer.read()
    try:
        with engine.connected() as client:
            cleanup.sweep(client, path.stem)
    except RuntimeUnavailableError as error:
        sys.stderr.write(f"chaos: {error}\n")
    warden.sweep(path)


if __name__ == "__main__":
    main()
