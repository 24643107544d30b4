"""Small scenarios files, and what is said of them."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.scenario.load import ScenarioFile, load_text
from tests.unit.wording import mistakes_in

TOPICS = "topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}\n"
"""At the end of a file, so that it moves no line."""
ONE_TOPIC = "topics: {datasource: {partitions: 3}}\n"
OF_TOPICS = "reads: [datasource], sink: {topic: datasink}"
"""At the end of a pipeline, so that it moves no column."""
ANY_FILE = "/bin/sh"
"""A file that is there, and as long on each machine: it moves no column of what is behind it."""
_JOB = f"kind: spark_submit, application: {ANY_FILE}, arguments: ['{{checkpoint}}']"
SQUARE = f"{{{_JOB}, positions: {{group: '{{sink}}-square'}}, python_workers: true, {OF_TOPICS}}}"
"""A job with a sink of its own, that commits its positions in its transactions."""
STOCK = f"{{{_JOB}, transactions: false, {OF_TOPICS}}}"
"""A job with Spark's stock sink."""
HEAD = f"""\
version: 2
scenarios:
  - name: a
    title: A
    pipeline: {SQUARE}
"""


def loaded(text: str, path: Path = Path("scenarios.yaml"), runtime: str = "") -> ScenarioFile:
    """A file of this text, with topics below it if it has scenarios and no topics."""
    if "scenarios:" in text and "\ntopics:" not in text:
        text += TOPICS if "datasink" in text or "pipeline: none" not in text else ONE_TOPIC
    return load_text(text, path, runtime)


def head(pipeline: str) -> str:
    """The head of a file with another pipeline; a ``{kind: …}`` without topics gets them at its end."""
    lacks = pipeline.startswith(("{kind: command", "{kind: spark_submit")) and "reads:" not in pipeline
    return HEAD.replace(SQUARE, f"{pipeline.removesuffix('}')}, {OF_TOPICS}}}" if lacks else pipeline)


def read(*lines: str) -> ScenarioFile:
    """One right scenario, with these lines added from line 6 on."""
    return loaded(HEAD + "".join(f"    {line}\n" for line in lines))


def errors_of(text: str) -> list[tuple[str, str]]:
    """Place and code of each error in a text; a snapshot has their messages."""
    with pytest.raises(ScenarioError) as caught:
        loaded(text)
    return mistakes_in(caught.value)


def errors_in(*lines: str) -> list[tuple[str, str]]:
    """The errors of one right scenario with these lines added from line 6 on."""
    return errors_of(HEAD + "".join(f"    {line}\n" for line in lines))


def errors_in_fault(fault: str) -> list[tuple[str, str]]:
    """The errors of one fault, which is in line 6, from column 14 on."""
    return errors_in(f"faults: [{fault}]")
