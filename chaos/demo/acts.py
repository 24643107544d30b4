"""The two scenarios of the demo: a correct program, then a wrong one, under the same fault.

The second scenario also declares `expect: valid`, so it ends red, like a reader's own scenario that finds a defect. With its
counts declared it would be a control, and green; a first demo should not need that concept.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.common.events import FaultHealed, FaultInjected, FaultProved, FaultStepBegan, FaultTriggered, PhaseBegan
from chaos.common.history import Event
from chaos.report import terminal
from chaos.report.failure_text import describe
from chaos.report.formatting import facts, number
from chaos.report.model import Report
from verifiers.base import Finding, Verdict

Labelled = Iterator[tuple[str, str]]

INTRODUCTION = (
    "Two small programs copy a Kafka topic, 100 records at a time. Both are killed at the same step: the rows of a batch are "
    "in the log, and the position behind it is not stored yet. One program is correct, and the other one is not."
)
SYSTEM = (
    "three Kafka brokers, with a proxy on every connection, on loopback addresses of this machine; they end with the demo. "
    "Allow two minutes."
)


@dataclass(frozen=True, slots=True)
class Act:
    """One scenario of the demo.

    Attributes:
        setting: label -> what a reader must know before it begins.
        steps: phase, or ``fault`` and its step -> its explanation; ``{}`` is the fault's proof. Other phases print nothing.
        verdict, found: the expected verdict, and the expected number of anomalies of each verifier.
        lesson: explains the expected outcome.
    """

    scenario: str
    setting: Mapping[str, str]
    steps: Mapping[str, str]
    verdict: Verdict
    found: Mapping[str, int]
    lesson: Callable[[Report], Labelled]

    @property
    def expects(self) -> str:
        """Name the expected outcome: ``INVALID with duplicates 100, ordering 99``."""
        counts = ", ".join(f"{name} {count}" for name, count in self.found.items())
        return f"{self.verdict.name}{f' with {counts}' if counts else ''}"

    def is_as_expected(self, report: Report) -> bool:
        return report.verdict is self.verdict and found(report) == self.found

    def told(self, event: Event) -> str:
        """Explain an event; "" to print nothing. Failures are printed as in every run."""
        match event.value:
            case PhaseBegan(phase=phase):
                return self.steps.get(phase, "")
            case FaultTriggered() | FaultInjected() | FaultHealed(effective=True):
                return self.steps[f"fault {event.value.f}"]
            case FaultProved(effective=True, proof=proof):
                return self.steps["fault prove"].format(facts(proof))
            case FaultStepBegan():
                return ""
            case _:
                return terminal.told(event)


def found(report: Report) -> dict[str, int]:
    """Map each verifier to the number of anomalies that it found in the output, if any."""
    return {finding.verifier: finding.count for finding in _of_output(report) if finding.count}


def _of_output(report: Report) -> Sequence[Finding]:
    return [finding for finding in report.findings if finding.subject == report.output]


def _lesson_of_transactions(report: Report) -> Labelled:
    aborted = sum(finding.counts.get("aborted", 0) for finding in _of_output(report) if finding.verifier == "atomicity")
    yield "means", "Each word is a verifier, and the number counts its anomalies: no row is there twice, none is lost, …"
    yield (
        "why",
        (
            "The killed program left a transaction open. Its successor has the same transactional.id, so Kafka aborted it: its "
            f"{number(aborted)} rows are in the log, and no reader of committed data sees them. The batch was copied again."
        ),
    )
    yield "worth", "A run is VALID only if its fault has a proof, and every record was compared."


def _lesson_of_steps(report: Report) -> Labelled:
    yield (
        "means",
        (
            "duplicates 100: a batch is in the output twice. ordering 99: all but the last of its second copies come after a "
            "row that should follow them. gaps 0: nothing is lost."
        ),
    )
    examples = (example for finding in _of_output(report) if finding.verifier == "duplicates" for example in finding.examples)
    for example in list(examples)[:1]:
        yield "record", describe(report, example)
    yield (
        "why",
        (
            "The rows were written, and the position was not stored. So the successor began at the old position, and wrote the "
            "batch again. To Kafka it is another producer, so enable.idempotence=true did not help."
        ),
    )
    yield "mend it", "Make both steps one transaction, as copy_in_transactions.py does. Then this scenario ends VALID, too."


ACTS = (
    Act(
        scenario="killed-in-a-transaction",
        setting={
            "program": "copy_in_transactions.py: the rows of a batch and the position behind it are one Kafka transaction.",
            "promise": "Killed in the middle of a batch, it still copies every record once, in order.",
            "fault": (
                "SIGKILL while the answer to the fifth Produce is on the wire: the brokers have written the rows of a batch, "
                "and the program does not know it. A second later it is started again."
            ),
        },
        steps={
            "set_up": "Set up: the run gets topics of its own.",
            "steady": (
                "Steady: a loader writes 3 000 records, 300 a second, and notes which ones the brokers acknowledge. "
                "The program begins to copy. Nothing is broken before its output flows."
            ),
            "inject": "Inject: the output flows. The proxy reads Kafka's protocol, and waits for the fifth Produce.",
            "fault trigger": (
                "Its answer comes, and the proxy holds it. Why now: 100 rows are in the log, and the position behind them "
                "is not stored. A kill at a random time would seldom hit this step."
            ),
            "fault inject": "The program is killed.",
            "fault prove": "Proof that this had an effect, its processes are gone: {}. Without a proof the run is UNKNOWN.",
            "fault heal": "The program is started again, and begins at the last position that was stored.",
            "heal": "Heal: nothing is broken any more, and the output must grow again.",
            "drain": "Drain: the program copies the remaining records.",
            "observe": "Observe: both topics are read to their ends, by Spark, which starts now.",
            "judge": "Judge: Spark compares input and output, record by record.",
        },
        verdict=Verdict.VALID,
        found={},
        lesson=_lesson_of_transactions,
    ),
    Act(
        scenario="killed-between-two-steps",
        setting={
            "program": "copy_in_steps.py: it writes the rows of a batch, and then it commits the position. No transaction.",
            "promise": "It copies every record once, in order, as the first program does.",
            "fault": "SIGKILL while the answer to the fifth Produce is on the wire, as before.",
        },
        steps={
            "set_up": "Set up.",
            "steady": "Steady: the same records for the other program.",
            "inject": "Inject: the proxy waits for the fifth Produce.",
            "fault trigger": (
                "Its answer comes, and the proxy holds it. Again 100 rows are in the log, and the position behind them is "
                "not stored; but this time every reader sees the rows."
            ),
            "fault inject": "The program is killed.",
            "fault prove": "Proof, its processes are gone: {}.",
            "fault heal": "The program is started again, and begins at the last position that was stored.",
            "heal": "Heal.",
            "drain": "Drain.",
            "observe": "Observe.",
            "judge": "Judge.",
        },
        verdict=Verdict.INVALID,
        found={"duplicates": 100, "ordering": 99},
        lesson=_lesson_of_steps,
    ),
)
