"""The command line: `chaos parts`, `chaos plan`, `chaos schema`, `chaos judge`."""

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


def main() -> None:
    app()
