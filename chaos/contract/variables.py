"""Variables of a program that runs under a process of ours, such as the supervisor.

Python reads some variables at its start: with the program's ``PYTHONPATH``, our own process would import another copy of this
framework, if one is there. Those are held back under other names until the program is started.
"""

from collections.abc import Mapping

_OF_PYTHON = "PYTHON"
_HELD_BACK = "OF_PROGRAM_"


def held_back(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program, as the process that starts it may have them."""
    return {f"{_HELD_BACK}{name}" if name.startswith(_OF_PYTHON) else name: value for name, value in environment.items()}


def of_program(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the program itself, from those of the process that starts it."""
    own = {name: value for name, value in environment.items() if not name.startswith(_HELD_BACK)}
    return own | {name.removeprefix(_HELD_BACK): environment[name] for name in environment.keys() - own.keys()}
