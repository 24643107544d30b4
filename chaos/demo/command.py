"""`chaos demo`: run two scenarios in a folder of their own, and explain them."""

from pathlib import Path

import typer

from chaos.demo import folder

_WRONG_USAGE, _INTERRUPTED = 2, 130


def main(into: Path) -> int:
    """Write the files, run both scenarios, and say what to look at next.

    Returns:
        The exit code: 0 both ended as expected, 1 one did not, 2 the folder cannot be used, 3 one is UNKNOWN, 130 interrupted.

    Raises:
        RuntimeUnavailableError: the system cannot run here, or a part of it cannot be fetched. No file is written then.
    """
    try:
        folder.check(into)
        from chaos.demo.stage import Stage  # noqa: PLC0415 - takes two seconds, which a refused folder need not cost

        stage = Stage(into)
        stage.require_machine()
        folder.write(into)
        return stage.run()
    except folder.DemoUsageError as error:
        typer.echo(f"chaos demo: {error}", err=True)
        return _WRONG_USAGE
    except KeyboardInterrupt:
        typer.echo(f"interrupted: all processes of the demo have ended; its files are in {into}")
        return _INTERRUPTED
