"""Hooks run without a shell, to their end or their deadline, and are recorded in the history."""

import traceback

import pytest

from chaos.cluster.hooks import BrokerHooks, Secrets, hook_words, run_hook
from chaos.common.errors import RuntimeUnavailableError

VALUES = {"broker": "kafka-1; touch x", "id": 1, "host": "kafka-1", "port": 9092}
SECRETS = Secrets(("hunter2", "hunter2secret"))


def test_a_name_stays_one_word_whatever_is_in_it():
    """Words are split before placeholders are filled in."""
    assert hook_words("kubectl delete 'pod {broker}' {broker} --port={port} {other}", VALUES) == (
        "kubectl",
        "delete",
        "pod kafka-1; touch x",
        "kafka-1; touch x",
        "--port=9092",
        "{other}",
    )


def test_no_shell_reads_a_hook(tmp_path):
    """A semicolon and a dollar sign have no special meaning."""
    ran = run_hook(f"echo {{broker}} $HOME > {tmp_path}/x", VALUES, 120)

    assert (ran.exit_code, ran.output) == (0, f"kafka-1; touch x $HOME > {tmp_path}/x")
    assert list(tmp_path.iterdir()) == []


def test_exit_code_and_output_are_kept():
    """Both go into the history; a failure is recorded, not raised."""
    ran = run_hook("sh -c 'echo out; echo err >&2; exit 3'", VALUES, 120)

    assert ran.facts == {
        "argv": ["sh", "-c", "echo out; echo err >&2; exit 3"],
        "exit_code": 3,
        "output": "out\nerr",
        "took_s": ran.took_s,
    }


def test_a_hook_has_a_deadline():
    """One that hangs must not delay the next heal."""
    with pytest.raises(RuntimeUnavailableError, match=r"did not end within 0\.2 s"):
        run_hook("sleep 60", VALUES, 0.2)


def test_secrets_are_hidden_in_arguments_and_output():
    """Wherever they are, and whole, although one is a part of the other."""
    ran = run_hook("sh -c 'echo \"login admin:$0 $1\"; echo ${0}x >&2' hunter2 hunter2secret", VALUES, 120, SECRETS)

    assert ran.argv[3:] == ("***", "***")
    assert ran.output == "login admin:*** ***\n***x"
    assert "hunter2" not in str(ran.facts)


def test_a_secret_that_the_cut_would_split_is_hidden():
    """Only the end of the output is kept, and half a secret would not be found in it."""
    ran = run_hook("sh -c 'echo hunter2; printf %0497d 7'", VALUES, 120, SECRETS)

    assert (len(ran.output), ran.output[:4]) == (500, "**\n0")


@pytest.mark.parametrize(
    ("text", "said"),
    [("hunter2 {id}", r"cannot start \*\*\*:"), ("sh -c 'sleep 60 # hunter2'", r"`sh -c sleep 60 # \*\*\* …`")],
)
def test_an_error_shows_no_secret(text, said):
    """Nor does its cause, which would have the whole command."""
    with pytest.raises(RuntimeUnavailableError, match=said) as caught:
        run_hook(text, VALUES, 0.2, SECRETS)

    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_what_holds_secrets_does_not_print_them():
    """An error that passes through pytest shows the arguments of every function on its way."""
    assert "hunter2" not in repr(BrokerHooks(None, {}, SECRETS))


def test_a_hook_that_cannot_be_started_is_reported():
    """With its first word."""
    with pytest.raises(RuntimeUnavailableError, match="cannot start no-such-program"):
        run_hook("no-such-program {id}", VALUES, 120)
