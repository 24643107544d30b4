import pytest

from pipelines.pace import due


@pytest.mark.parametrize(
    ("elapsed_s", "expected"),
    [(0.0, 1), (0.24, 1), (0.25, 2), (1.0, 5), (24.75, 100), (1000.0, 100)],
)
def test_records_fall_due_at_the_rate(elapsed_s: float, expected: int) -> None:
    """The first at once, then one every 1/rate seconds, and never more than there are."""
    assert due(100, 4.0, elapsed_s) == expected
