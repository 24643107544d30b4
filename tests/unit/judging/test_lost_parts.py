"""The landed transactions of a run are judged as a whole, or not at all."""

import shutil

import pytest

from chaos.common.errors import InconclusiveError
from chaos.judging.accounts import accounted
from verifiers.transactions import logs


@pytest.mark.parametrize("lost", list(logs.SCHEMAS))
def test_a_part_of_the_logs_that_was_lost(tmp_path, lost):
    """Also one that tells what the proxies have seen: without it a run would look like one that nobody listened to."""
    rows = {"extents": (logs.Extent(logs.STATES, 0, 0, 0, 0),)}
    logs.write(tmp_path, logs.Logs.of(**{name: logs.table(name, rows.get(name, ())) for name in logs.SCHEMAS}))
    accounted(tmp_path)
    shutil.rmtree(tmp_path / lost)

    with pytest.raises(InconclusiveError, match=f"{lost} is "):
        accounted(tmp_path)
