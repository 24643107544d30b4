import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit import wording

_MISTAKE = re.compile(r"(\d+:\d+|[a-z_][\w., -]*) [a-z0-9]+(-[a-z0-9]+)+")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Compare the texts that a test was told with its snapshot, unless it has failed already."""
    wording.told.clear()
    result = yield
    if wording.told:
        text = "\n".join(wording.told)
        folders = {pyfuncitem.funcargs.get("tmp_path"): "<tmp_path>", Path(__file__).parents[2]: "<root>", Path.cwd(): "<root>"}
        for folder, name in folders.items():
            text = text.replace(str(folder), name) if folder else text
        assert text == pyfuncitem._request.getfixturevalue("snapshot")
    return result


def pytest_make_parametrize_id(val: object) -> str | None:
    """``6:17 name-taken`` for mistakes that a test expects: a snapshot keeps its name when another case comes before it."""
    mistakes = val if isinstance(val, list) else [val]
    pairs = [" ".join(one) for one in mistakes if isinstance(one, tuple) and all(isinstance(part, str) for part in one)]
    is_one = len(pairs) == len(mistakes) and all(_MISTAKE.fullmatch(pair) for pair in pairs)
    return ", ".join(pairs) if pairs and is_one else None
