"""Which line of a log tells the error: what programs of several languages leave behind when they fail."""

from pathlib import Path

import pytest

from chaos.engine.error_lines import last_errors, last_line

PYTHON = """\
2026-11-28 17:00:00 INFO worker: 200 records
Traceback (most recent call last):
  File "/app/worker.py", line 7, in <module>
    main()
confluent_kafka.cimpl.KafkaException: KafkaError{code=_FENCED,val=-144,str="zombie"}
2026-11-28 17:00:01 INFO worker: closing consumer
bye
"""
CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 'amount'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
mylib.Refused: no amount in row 17
Exiting.
"""
JAVA = """\
[main] ERROR org.apache.kafka.streams.KafkaStreams - stream-client closed
Exception in thread "main" java.lang.IllegalStateException: topology failed
\tat com.acme.Main.main(Main.java:9)
Caused by: org.apache.kafka.common.errors.RecordTooLargeException: 2 MB
\t... 4 more
[shutdown] INFO com.acme.Main - stopped
"""
NODE = """\
node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'kafkajs' imported from /app/copy.mjs
    at packageResolve (node:internal/modules/esm/resolve:873:9) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v20.20.2
"""
LIBRDKAFKA = """\
%4|1795887001.1|CONFWARN|rdkafka#producer-1| a setting
%3|1795887002.4|FAIL|rdkafka#producer-1| [thrd:broker-1]: Connect to ipv4#127.0.0.1:1 failed: Connection refused
%6|1795887003.4|INFO|rdkafka#producer-1| goes on
"""
LOGGED = """\
17:00:00.1 ERROR [poll] partition 3: UNKNOWN_MEMBER_ID
17:00:00.2 WARN  [poll] retry after Error
17:00:00.3 INFO  [main] ERROR count is 1
"""


def log(folder: Path, text: str) -> Path:
    place = folder / "pipeline.log"
    place.write_text(text, encoding="utf-8")
    return place


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (PYTHON, 'confluent_kafka.cimpl.KafkaException: KafkaError{code=_FENCED,val=-144,str="zombie"}'),
        (CHAINED, "mylib.Refused: no amount in row 17"),
        (NODE, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'kafkajs' imported from /app/copy.mjs"),
        (JAVA, "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: 2 MB"),
        (
            LIBRDKAFKA,
            "%3|1795887002.4|FAIL|rdkafka#producer-1| [thrd:broker-1]: Connect to ipv4#127.0.0.1:1 failed: Connection refused",
        ),
        (LOGGED, "17:00:00.1 ERROR [poll] partition 3: UNKNOWN_MEMBER_ID"),
        (
            "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nexit status 2\n",
            "panic: runtime error: index out of range",
        ),
        ("thread 'main' panicked at src/main.rs:4:5:\nno broker\n", "thread 'main' panicked at src/main.rs:4:5:"),
        (
            '{"level":"error","msg":"no coordinator"}\n{"level":"info","msg":"bye"}\n',
            '{"level":"error","msg":"no coordinator"}',
        ),
        ("ts=1 level=fatal msg=full\nts=2 level=info msg=bye\n", "ts=1 level=fatal msg=full"),
        ("error: unknown option --group\nusage: a b\n", "error: unknown option --group"),
        ("\tat Frame.of(A.java:1)\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("[2026] CRITICAL app: out of disk\r\nbye\r\n", "[2026] CRITICAL app: out of disk"),
    ],
)
def test_an_error_is_found_wherever_it_is_told(tmp_path: Path, text: str, error: str) -> None:
    """Programs go on after it, or say good-bye."""
    assert last_errors(log(tmp_path, text)) == [error]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "started\n200 records\nbye\n",
        "INFO 0 errors so far\n",
        "26/11/28 17:00:00 WARN TaskSetManager: Lost task (ERROR of a worker)\n",
        '{"event": "fenced", "level": "error"}\n',  # what a program reports is no line of its log
        "%5|1795887003.4|NOTICE|rdkafka| an ERROR that is none\n",
        "no Traceback here\n  indented\n",
        "\tat com.acme.Error.main(Error.java:1)\n",
    ],
)
def test_other_lines_are_no_errors(tmp_path: Path, text: str) -> None:
    """A level that comes first decides, and a word in a sentence is no level."""
    assert last_errors(log(tmp_path, text)) == []


def test_there_may_be_no_log(tmp_path: Path) -> None:
    """A program that was never started."""
    assert (last_errors(tmp_path / "a.log"), last_line(tmp_path / "a.log")) == ([], "")


def test_the_last_ones_are_told_in_their_order_and_once(tmp_path: Path) -> None:
    """A client says the same again and again."""
    lines = ["ERROR a", "ERROR b", "ERROR c", "ERROR b", "ERROR c", "bye"]

    assert last_errors(log(tmp_path, "\n".join(lines)), 2) == ["ERROR b", "ERROR c"]


def test_a_line_is_shortened(tmp_path: Path) -> None:
    """It becomes a part of a message of one line."""
    (told,) = last_errors(log(tmp_path, f"ERROR {'x' * 5000}\n"))

    assert len(told) == 300
