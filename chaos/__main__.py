"""`python -m chaos`, for environments in which another package has the command `chaos`."""

from chaos.cli.main import main

if __name__ == "__main__":
    main()
