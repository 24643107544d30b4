"""Variables of a program that runs under a process of ours, such as the supervisor.

Python reads some variables at its start: with the program's ``PYTHONPATH``, our own process would import another copy of this
framework, if one is there. So they have other names until the program is started.
"""

from collections.abc import Mapping

_OF_PYTHON = "PYTHON"
_HELD_BACK = "OF_PROGRAM_"


def held_back(environment: Mapping[str, str]) -> dict[str, str]:
    """Rename the variables that only the program may read, for the process that starts it."""
    return {f"{_HELD_BACK}{name}" if name.startswith(_OF_PYTHON) else name: value for name, value in environment.items()}


def of_program(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the program's variables under their own names."""
    own = {name: value for name, value in environment.items() if not name.startswith(_HELD_BACK)}
    return own | {name.removeprefix(_HELD_BACK): environment[name] for name in environment.keys() - own.keys()}
