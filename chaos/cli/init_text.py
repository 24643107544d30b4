"""Text of the file that `chaos init` writes: one pipeline, and four scenarios with comments that explain them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from chaos.scenario.expected import quoted

SPARK_SUBMIT = "spark-submit"
COMMAND = "command"
SCHEMA = "scenarios.schema.json"
"""File name of the JSON Schema, in the folder of a scenarios file."""
_WIDE = 110


@dataclass(frozen=True, slots=True)
class Declaration:
    """A pipeline, as its user describes it.

    Attributes:
        words: the arguments of a job, or the command.
        reads, writes: names of its topics in the file.
        group: the consumer group that holds its positions; "" if a job keeps them in its checkpoint.
        application: script or jar of a job, as a path from the folder of the file.
        main_class: main class of a jar.
    """

    kind: str
    words: tuple[str, ...]
    group: str
    environment: Mapping[str, str]
    reads: str
    writes: str
    application: str = ""
    main_class: str = ""


def text(declared: Declaration) -> str:
    """Return the text of a scenarios file."""
    is_job = declared.kind == SPARK_SUBMIT
    name, lines, own = ("job", _job(declared), _OF_JOBS) if is_job else ("program", _program(declared), _OF_PROGRAMS)
    pipeline = "".join(f"    {line}\n" for line in lines)
    topics = _TOPICS.replace("READS", _key(declared.reads)).replace("WRITES", _key(declared.writes))
    scenarios = (_FIRST + own).replace("NAME", name).replace("WRITES", declared.writes)
    return f"{_HEAD}{topics}{_PIPELINES}  {name}:\n{pipeline}{scenarios}"


def _key(name: str) -> str:
    """Quote a name that YAML would read as something else."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", name) else _quoted(name)


def _job(declared: Declaration) -> Iterator[str]:
    yield "kind: spark_submit"
    yield from _topics(declared)
    yield f"application: {_quoted(declared.application)}  # a path from the folder of this file"
    if declared.main_class:
        yield f"main_class: {_quoted(declared.main_class)}"
    yield from _listed("arguments", declared.words)
    if declared.group:
        yield f"positions: {{group: {_quoted(declared.group)}}}  # where it commits its positions"
    else:
        yield "positions: checkpoint  # where it keeps its positions"
    yield from _common(declared)
    yield "# transactions: false  # if its sink uses none, like Spark's own sink; then no fault may wait for their requests"
    yield "# configuration: {spark.executor.cores: 2}  # settings of Spark, if it needs some"


def _program(declared: Declaration) -> Iterator[str]:
    yield "kind: command"
    yield from _topics(declared)
    yield from _listed("run", declared.words)
    yield f"group: {_quoted(declared.group)}  # where it commits its positions"
    yield from _common(declared)
    yield "# transactions: false  # if it uses none; then no fault may wait for their requests"
    yield "# repeat: true  # if it ends at the end of the topic, and must be started again"


def _topics(declared: Declaration) -> Iterator[str]:
    yield f"reads: [{_key(declared.reads)}]"
    yield f"sink: {{topic: {_key(declared.writes)}}}"


def _common(declared: Declaration) -> Iterator[str]:
    if declared.environment:
        yield "environment:"
        yield from (f"  {_quoted(name)}: {_quoted(value)}" for name, value in declared.environment.items())
    yield "expected: source  # it copies each record; otherwise declare its rows in SQL or in Python:"
    view = quoted(declared.reads).replace("'", "''")  # between single quotes of YAML
    yield "# expected: {sql: 'SELECT key, upper(value) AS value, partition, offset FROM READS'}".replace("READS", view)


def _listed(key: str, words: Iterable[str]) -> Iterator[str]:
    quoted = [_quoted(word) for word in words]
    line = f"{key}: [{', '.join(quoted)}]"
    if len(line) <= _WIDE:
        yield line
        return
    yield f"{key}:"
    yield from (f"  - {word}" for word in quoted)


def _quoted(word: str) -> str:
    """Quote a text like JSON, which YAML reads as the same text."""
    return json.dumps(word, ensure_ascii=False)


_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA}
# Written by `chaos init`; it is yours now. Each scenario breaks something, and demands that the pipeline keeps its guarantee:
# every record of the source is in the sink once, in order, with the right value.
#
#   chaos plan                    shows what each scenario breaks, and when; starts nothing
#   pytest -m chaos               runs all scenarios
#   pytest -m "chaos and broker"  runs the scenarios with a tag
#   chaos faults                  lists everything that can be broken
#   chaos reference               explains every key, placeholder, trigger and target of this file
#
# By the first line, your editor knows the keys. After an upgrade: chaos schema > {SCHEMA}
version: 2

"""
_TOPICS = """\
topics:
  # Every run creates its own topics, whose names begin with these, and removes them at its end.
  READS: {partitions: 3}
  WRITES: {partitions: 3}

"""
_PIPELINES = """\
pipelines:
  # The pipeline under test. {source} is the topic that it reads, {sink} the one that it writes, {bootstrap} the address of
  # Kafka; a run fills them in. The pipeline runs in the folder of its run, so a file of this repository is {project}/…, where
  # {project} is the folder of this file.
"""
_FIRST = """
scenarios:
  # Nothing is broken. If this is not VALID, mend the program or its declaration above first, before you read another result.
  - name: baseline
    title: "Nothing is broken: every record arrives once, in order"
    tags: [smoke]
    pipeline: NAME
    workload: {records: 16000, rate: 2000/s}
    expect: valid

  # kill_broker: kills the broker that leads partition 0 of the sink when 30 % of the records are there; it is back 5 s later.
  # Shows whether acknowledged rows are on the other brokers too, and whether rows in flight are sent again, but only once.
  - name: sink-leader-killed
    title: "The leader of a sink partition dies; every record arrives once"
    tags: [broker]
    pipeline: NAME
    workload: {records: 16000, rate: 2000/s}
    faults:
      - {kind: kill_broker, target: "leader(WRITES, 0)", when: {progress: 30%}, restart_after: 5s}
    expect: valid
"""
_OF_JOBS = """
  # crash_pipeline: kills the driver, and starts it again. It repeats the batch that its checkpoint does not have as done.
  # Shows whether the sink recognizes the rows of that batch that it has. Spark's stock Kafka sink does not, so the run may end
  # INVALID; the next scenario explains what that means.
  - name: driver-killed
    title: "The driver is killed and started again: every record arrives once"
    tags: [driver]
    pipeline: NAME
    workload: {records: 16000, rate: 2000/s}
    faults:
      - {kind: crash_pipeline, when: {progress: 40%}}
    expect: valid

  # crash_executor, at one exact request: the proxy holds the answer to the fifth Produce until all executors are dead. Its rows
  # are in the sink, and Spark runs their tasks again. Shows whether the sink writes these rows a second time.
  # Spark's stock Kafka sink does: the run ends INVALID, and names each record that is there twice. That is a finding about the
  # job, not an error in this file. If you know and accept duplicates, declare them; then each run must find them:
  #   expect: {duplicates: {duplicate: some}, ordering: {inversion: some}}
  - name: executors-killed-before-acknowledgement
    title: "All executors die before the answer; every record arrives once"
    tags: [executor, protocol]
    pipeline: NAME
    workload: {records: 16000, rate: 2000/s}
    faults:
      - {kind: crash_executor, target: executor(all), when: {request: Produce, nth: 5, at: response}}
    expect: valid
"""
_OF_PROGRAMS = """
  # crash_pipeline: kills all its processes with SIGKILL, and starts them again from the position that they had committed.
  # Shows whether output and position are committed together, in one transaction. If they are not, the run may end INVALID,
  # and names each record that is there twice. That is a finding about the program, not an error in this file. If you know and
  # accept duplicates, declare them; then each run must find them:
  #   expect: {duplicates: {duplicate: some}, ordering: {inversion: some}}
  - name: program-killed
    title: "The program is killed and started again: every record arrives once"
    tags: [client]
    pipeline: NAME
    workload: {records: 16000, rate: 2000/s}
    faults:
      - {kind: crash_pipeline, when: {progress: 40%}}
    recovery_slo: 90s  # a group waits for a dead member until its session ends, by default 45 s
    expect: valid

  # lose_response, at one exact request: the broker carries out the fifth Produce, and its answer is lost with the connection.
  # The producer sends the same rows again. Shows whether the producer is idempotent, so that the broker recognizes these rows:
  # with enable.idempotence=false they are there twice.
  - name: acknowledgement-lost
    title: "Rows are written and their answer is lost; every record arrives once"
    tags: [protocol]
    pipeline: NAME
    workload: {records: 16000, rate: 2000/s}
    faults:
      - {kind: lose_response, when: {request: Produce, nth: 5}}
    expect: valid
"""
