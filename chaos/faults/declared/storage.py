"""Faults of what Spark keeps on disk: the checkpoint of its query.

::

    checkpoint/offsets/N    the batch is planned; written before its tasks start
    checkpoint/commits/N    the batch is done; written after its last task ended, so after the sink's commits
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from chaos.faults.declared.base import FaultBase
from chaos.grammar.units import Seconds, spoken_seconds

Damage = Literal["commit_deleted", "offsets_torn", "lost", "older_copy"]


class CheckpointFault(FaultBase):
    """A fault of the checkpoint; the pipeline dies with it and is started again."""

    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    @property
    def restarted(self) -> str:
        """When it comes back, in words."""
        return f"restarted after {spoken_seconds(self.restart_after_s)}"


class DamageCheckpoint(CheckpointFault):
    """The pipeline dies, and its checkpoint is damaged before it is started again.

    ==============  ==================================================================================================
    commit_deleted  the last batch that was done is not known to be done: Spark plans it again with the same range
    offsets_torn    the newest plan is cut in its middle: Spark refuses to start, until the batch is removed (`repair`)
    lost            there is none: Spark begins at the start of the source
    older_copy      copied at the trigger, put back ``restore_after`` that: Spark plans old batches again
    ==============  ==================================================================================================
    """

    kind: Literal["damage_checkpoint"]
    what_: Damage = Field(alias="what")
    repair: Literal["none", "batch_removed"] = "none"
    restore_after_s: Seconds = Field(alias="restore_after", default=0.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        repaired = ", the torn batch removed" if self.repair == "batch_removed" else ""
        restored = f", put back {spoken_seconds(self.restore_after_s)} later" if self.restore_after_s else ""
        return f"damage_checkpoint {self.what_}{restored}{repaired}, {self.restarted}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.what_ == "older_copy" and not self.restore_after_s:
            raise ValueError("a copy that is put back at once is not older: write restore_after: 4s")
        if self.what_ != "older_copy" and self.restore_after_s:
            raise ValueError(f"restore_after belongs to what: older_copy; {self.what_} has no copy")
        if self.what_ != "offsets_torn" and self.repair != "none":
            raise ValueError(f"repair belongs to what: offsets_torn; Spark starts by itself after {self.what_}")
        return self


class CrashBeforeCommit(CheckpointFault):
    """The driver dies when the sink has committed all of a batch and its checkpoint does not say so.

    Exact on any machine: the driver is frozen in the middle of a batch, the tasks commit without it, and it is killed.
    """

    kind: Literal["crash_before_commit"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_before_commit, {self.restarted}"
