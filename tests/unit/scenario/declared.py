"""Small scenarios files, and what is said of them."""

from pathlib import Path
from typing import Any, get_args

import pytest

from chaos.common.errors import ScenarioError
from chaos.scenario.load import ScenarioFile, load_text

_JOB = f"kind: spark_submit, application: {Path(__file__)}, arguments: ['{{checkpoint}}']"
SQUARE = f"{{{_JOB}, positions: {{group: '{{sink}}-square'}}, python_workers: true}}"
"""A job with a sink of its own, that commits its positions in its transactions."""
STOCK = f"{{{_JOB}, transactions: false}}"
"""A job with Spark's stock sink."""
HEAD = f"""\
version: 2
scenarios:
  - name: a
    title: A
    pipeline: {SQUARE}
"""


def read(*lines: str) -> ScenarioFile:
    """One right scenario, with these lines added from line 6 on."""
    return load_text(HEAD + "".join(f"    {line}\n" for line in lines), Path("scenarios.yaml"))


def errors_of(text: str) -> list[str]:
    """The lines of the error that a text is answered with."""
    with pytest.raises(ScenarioError) as caught:
        load_text(text, Path("scenarios.yaml"))
    return str(caught.value).splitlines()


def errors_in(*lines: str) -> list[str]:
    """The same for one right scenario with these lines added from line 6 on."""
    return errors_of(HEAD + "".join(f"    {line}\n" for line in lines))


def kinds(union: Any) -> str:
    """All kinds of faults or pipelines, as an error lists them."""
    members = get_args(get_args(union)[0])
    return f"there are: {', '.join(get_args(model.model_fields['kind'].annotation)[0] for model in members)}"


def errors_in_fault(fault: str) -> list[str]:
    """The same for one fault: line 6, from column 14 on."""
    return errors_in(f"faults: [{fault}]")
