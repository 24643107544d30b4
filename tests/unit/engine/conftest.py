import pytest

from chaos.common.history import History


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.jsonl") as opened:
        yield opened
