"""No pipeline: the loader alone is under test."""

from typing import ClassVar, Literal

from chaos.scenario.pipelines.base import Kind


class NoPipeline(Kind):
    """``pipeline: none``: only the loader is under test, and its ledger judges the source topic."""

    client: ClassVar[str] = "loader"
    reads: ClassVar[tuple[str, ...]] = ()
    sink: ClassVar[None] = None
    group: ClassVar[str] = ""
    delivery: ClassVar[None] = None
    expected: ClassVar[None] = None
    rows_per_record: ClassVar[None] = None
    timers: ClassVar[bool] = False
    identity: ClassVar[None] = None
    keeps_headers: ClassVar[bool] = True  # nothing could change them
    transactional_ids: ClassVar[tuple[str, ...]] = ()
    transactions: ClassVar[bool] = False

    kind: Literal["none"]
