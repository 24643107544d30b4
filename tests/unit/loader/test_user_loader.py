"""A loader of the user's own: its lines become a ledger, and what is not understood, or dies, is told in the last line."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.contract.base import Endpoints, Topic, Topics
from chaos.loader import user_loader
from chaos.loader.declaration import UserLoader
from chaos.loader.user_loader import Ledger, StatementError
from tests.unit.wording import keep, named

ENDS_WITHIN_S = 120.0


def lines(*said: Mapping[str, object]) -> list[bytes]:
    """As a loader prints them."""
    return [json.dumps(one).encode() + b"\n" for one in said]


def kept(*texts: bytes, records: int = 9) -> list[list[str]]:
    """The ledger of a topic of three partitions, without its header."""
    into = io.StringIO()
    ledger = Ledger(into, 3, records)
    ledger.read(texts)
    ledger.close()
    return list(csv.reader(io.StringIO(into.getvalue())))[1:]


def test_every_outcome_is_taken_down() -> None:
    """Ids count what was sent; a name is a text or a number, and may come again when it was answered."""
    said = [
        {"sent": "a"},
        {"sent": 7, "by": "second"},
        {"sent": 7},
        {"ok": 7, "partition": 2, "offset": 118},
        {"fail": "a", "error": "too\nlarge"},
        {"sent": "a"},
        {"ok": "a", "partition": 0, "offset": None},
    ]

    assert kept(*lines(*said), b"\n") == [
        ["2", "ok", "2", "118", "7", ""],
        ["0", "fail", "", "", "a", "too large"],
        ["3", "ok", "0", "", "a", ""],
        ["1", "unknown", "", "", "7", ""],
    ]


def test_half_a_line_of_a_loader_that_was_killed() -> None:
    """Records that it sent before have an unknown outcome."""
    assert kept(*lines({"sent": 1}), b'{"ok": 1, "part') == [["0", "unknown", "", "", "1", ""]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"Loading 20000 orders", "Loading 20000 orders; expected one of"),
        (b'{"ok": 1, "part', '{"ok": 1, "part; expected one of'),
        (b'["sent", 1]', "expected one of"),
        (b'{"event": "loaded", "records": 9}', "expected one of"),
        (b'{"acked": 1}', "standard error"),
        (b'{"sent": null}', "expected a text or a number as ID"),
        (b'{"sent": true}', "expected a text or a number as ID"),
        (b'{"sent": 2, "key": "a"}', 'expected {"sent": ID}'),
        (b'{"ok": 2, "partition": 0, "offset": 1}', 'the line {"sent": "2"} before it'),
        (b'{"sent": 1}', "'1' was sent before"),
        (b'{"ok": 1}', 'expected {"ok": ID, "partition": P, "offset": O}'),
        (b'{"ok": 1, "partition": 0}', 'expected {"ok": ID, "partition": P, "offset": O}'),
        (b'{"ok": 1, "partition": "0", "offset": 3}', 'expected {"ok": ID, "partition": P, "offset": O}'),
        (b'{"ok": 1, "partition": 0, "offset": -1}', "with null for an offset"),
        (b'{"ok": 1, "partition": 3, "offset": 0}', "from 0 to 2"),
        (b'{"fail": 1, "error": 7}', 'expected {"fail": ID, "error": "why"}'),
    ],
)
def test_a_line_that_is_not_understood(text: bytes, expected: str) -> None:
    """Its number, its text, and what was expected."""
    with pytest.raises(StatementError, match="line 2 ") as caught:
        kept(*lines({"sent": 1}), text + b"\n")
    keep(str(caught.value))
    assert expected in str(caught.value)


def test_more_records_than_are_declared() -> None:
    """A run would be over before they have passed."""
    with pytest.raises(StatementError, match="at most the 1 records") as caught:
        kept(*lines({"sent": 1}, {"sent": 2}), records=1)
    keep(str(caught.value))


def run(script: str, folder: Path, records: int = 2) -> tuple[int, str, list[str], Path]:
    """Run a loader that is written in Python; exit code, output, lines of its errors, and the ledger."""
    ledger = folder / "ledger.csv"
    words = user_loader.command([sys.executable, "-c", script], records, 3, ledger)
    ended = subprocess.run(words, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)
    return ended.returncode, ended.stdout, ended.stderr.splitlines(), ledger


SENDS = 'print(\'{"sent": 1}\', flush=True); print(\'{"ok": 1, "partition": 0, "offset": 0}\', flush=True); '


def test_a_loader_that_ends_well(tmp_path: Path) -> None:
    """How many it has sent is told, and how many were refused."""
    code, output, _, ledger = run(SENDS + 'print(\'{"sent": 2}\\n{"fail": 2, "error": "no"}\')', tmp_path)

    assert (code, json.loads(output)) == (0, {"event": "loaded", "records": 2, "refused": 1})
    assert ledger.read_text(encoding="utf-8").splitlines()[1:] == ["0,ok,0,0,1,", "1,fail,,,2,no"]


@pytest.mark.parametrize(
    ("script", "name"),
    [
        pytest.param(SENDS + "raise KeyError('amount')", "KeyError: 'amount'", id="raises"),
        pytest.param(SENDS + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", id="killed"),
    ],
)
def test_a_loader_that_dies(script: str, name: str, tmp_path: Path) -> None:
    """The ledger is whole as far as it came; its end is told by the last line of the log."""
    code, output, errors, ledger = run(script, tmp_path)

    assert code == 1
    named(errors[-1], name)
    assert json.loads(output) == {"event": "loaded", "records": 1, "failed": True}
    assert ledger.read_text(encoding="utf-8").splitlines()[1:] == ["0,ok,0,0,1,"]


def test_a_loader_whose_line_is_not_understood(tmp_path: Path) -> None:
    """It is ended at once, and there is no ledger: half of one would accuse records that were sent later."""
    code, output, errors, ledger = run(SENDS + "print('loaded 1', flush=True); import time; time.sleep(600)", tmp_path)

    assert (code, output) == (1, "")
    assert all(name in errors[-1] for name in ("line 3 ", "loaded 1"))
    keep(errors[-1])
    assert not ledger.exists()


def test_a_loader_that_cannot_be_started(tmp_path: Path) -> None:
    """No such program."""
    words = user_loader.command(["no-such-program"], 1, 3, tmp_path / "ledger.csv")

    ended = subprocess.run(words, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "[Errno 2] No such file or directory: 'no-such-program'" in keep(ended.stderr)


@pytest.mark.parametrize("obeys", [True, False])
def test_a_loader_that_is_told_to_stop(obeys: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """SIGTERM is handed on, and one that does not end then is killed, with what it holds open; the ledger is whole."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    deaf = "" if obeys else "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    script = f"{deaf}{SENDS}print('ready', file=__import__('sys').stderr, flush=True); import time; time.sleep(600)"
    words = user_loader.command([sys.executable, "-c", script], 2, 3, tmp_path / "ledger.csv")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=ENDS_WITHIN_S)

    assert (process.returncode, json.loads(output)) == (0, {"event": "loaded", "records": 1})
    assert (tmp_path / "ledger.csv").exists()


def test_a_loader_has_its_own_folder_and_variables(tmp_path: Path) -> None:
    """A relative path of its command begins there; the values may have placeholders, and ours are not replaced by them."""
    loader = UserLoader(
        ("cat", "{orders}"), 1, 1.0, 7, {}, {"TOPIC": "{orders}", "KAFKA_CLIENT_OPTIONS": "mine"}, str(tmp_path / "shop")
    )
    topics = Topics((Topic("orders-x", 3),), "", names={"orders": "orders-x"})
    (tmp_path / "shop").mkdir()
    said = '{"sent": 1}\n{"ok": 1, "partition": 0, "offset": 0}\n'
    (tmp_path / "shop" / "orders-x").write_text(said, encoding="utf-8")

    command = loader.command(Endpoints("link:9092", "broker:9092", options={"a": "b"}), topics, tmp_path)
    ended = subprocess.run(command.argv, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)

    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"event": "loaded", "records": 1})
    assert command.env["TOPIC"] == "orders-x"
    assert command.env["KAFKA_CLIENT_OPTIONS"] != "mine"


def test_the_path_of_a_loader_in_python_is_its_own(tmp_path: Path) -> None:
    """The process that keeps its ledger would import another copy of this framework, if one is there."""
    (tmp_path / "chaos").mkdir()
    (tmp_path / "chaos" / "__init__.py").write_text("raise ImportError('this is the shop')", encoding="utf-8")
    (tmp_path / "shop.py").write_text("SENT = '{\"sent\": 1}'", encoding="utf-8")
    loader = UserLoader((sys.executable, "-c", "import shop; print(shop.SENT)"), 1, 1.0, 7, {}, {"PYTHONPATH": str(tmp_path)})

    command = loader.command(Endpoints("link:9092", "broker:9092"), Topics((Topic("orders-x", 3),), ""), tmp_path)
    environment = {**os.environ, **command.env}
    ended = subprocess.run(command.argv, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False, env=environment)

    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"event": "loaded", "records": 1}), ended.stderr


def test_what_the_words_stand_for() -> None:
    """The topic by its name and as the source, the loader's link, how many, how fast, and from what seed."""
    words = ("{python}", "{project}/a.py", "{bootstrap}", "{orders}", "{source}", "{records}", "{rate}", "{seed}", "{java}")
    loader = UserLoader(words[:1] + words[2:], 20, 2.5, 7, {"java": "/jdk/bin/java", "kafka_tools": "/kafka/*"})
    topics = Topics((Topic("orders-x", 4),), "", suffix="x", names={"orders": "orders-x"})

    command = loader.command(Endpoints("link:9092", "broker:9092", options={"a": "b"}), topics, Path("/run"))

    given = dict(zip(command.argv[3::2], command.argv[4::2], strict=True))
    expected = [sys.executable, "link:9092", "orders-x", "orders-x", "20", "2.5", "7", "/jdk/bin/java"]
    assert json.loads(given.pop("--words")) == expected
    assert given == {"--records": "20", "--partitions": "4", "--ledger": "/run/ledger.csv"}
    assert command.env.keys() == {"KAFKA_CLIENT_OPTIONS"}
    assert loader.transactional_ids(topics) == ()
