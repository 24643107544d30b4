"""`chaos audit follow`: audit a live pipeline as it grows (`chaos.audit.follow.matching` says how rows are judged).

Two consumers read source and sink, read_committed, from assigned partitions: they join no group, and commit nothing. A thread
asks the brokers for the ends of the logs, again and again::

    asked      the follower marks the rows read so far; then the thread reads the ends, first the sink's, then the source's
    settled    the source is read to its end: the records of all marked rows were there before that
    seen       the sink is read to its end: a row that is missing now was missing when the ends were read

The follower judges only by ends that it has reached, so brokers that do not answer, or a follower that is behind, delay
findings, and falsify none. Reading goes on where it stopped: librdkafka reconnects by itself, and the state file (``--state``)
holds positions and outstanding records of one moment.

To end, the follower reads the ends once more, and fixes them: all before them must be read, judged and answered. It reads on
for a while (``--settle``), because the pipeline is always a little behind; rows written meanwhile may answer records from after
the ends. Records without an answer by then are pending, and so UNKNOWN.

A topic that is deleted and created again has another id. Its offsets mean other records, so following ends there, and rows
that were read since the last answer of the brokers are not judged.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from threading import Event

from confluent_kafka import KafkaException

from chaos.audit.follow import openmetrics, report
from chaos.audit.follow.gaps import End
from chaos.audit.follow.matching import Follow
from chaos.audit.follow.options import Plan, seconds
from chaos.audit.follow.progress import Echo, Progress
from chaos.audit.follow.reading import Brokers, Ends, Questions, Reader, place
from chaos.audit.follow.report import Moment, Numbers
from chaos.audit.follow.rows import SIDES, Mark, Side
from chaos.audit.follow.state_file import SavedState
from chaos.audit.logs import ASK_S, AuditUsageError
from chaos.common import clock, signals
from chaos.common.errors import InconclusiveError
from chaos.report.formatting import number
from verifiers.base import Finding

_AHEAD = 200_000  # rows of one side that are held while the other side is read: limits the memory for a long history
_SAVE_EVERY_S = 10.0
_SHARE = 10  # saving takes at most a tenth of the time
_COUNT_EVERY_MS = 500
_END_WITHIN_S = 15.0  # least time for the brokers to give the ends of the logs
_PLACES_SHOWN = 4
_OTHER: Mapping[Side, Side] = {"source": "sink", "sink": "source"}


def run(plan: Plan, echo: Echo) -> tuple[tuple[Finding, ...], int]:
    """Follow until the time is over or a signal arrives; return the findings, and the number of records read.

    Raises:
        AuditUsageError: it is not possible: no such topic, the state of another pipeline, an address in use.
        InconclusiveError: no broker answers at the begin, or reading is not authorized.
    """
    settings = {**plan.topics.librdkafka, "bootstrap.servers": plan.topics.bootstrap}
    with ExitStack() as stack:
        page = openmetrics.Page()
        if plan.options.metrics:
            echo(f"metrics: {stack.enter_context(openmetrics.served(plan.options.metrics, page))}")
        brokers = stack.enter_context(closing(Brokers(plan.topics, settings)))
        with _answering(plan.topics.bootstrap):
            first, cluster = brokers.ends(Mark(0, {})), brokers.cluster()
        kept = SavedState(plan, cluster, first.ids)
        follow = kept.load()
        begun = follow is not None
        follow = follow or Follow(plan.asked)
        with _answering(plan.topics.bootstrap):
            if not begun:
                _begin(follow, first, plan)
            _doubt_compacted(follow, first, brokers)
        readers: dict[Side, Reader] = {}
        for side in ("source", "sink"):
            readers[side] = stack.enter_context(closing(Reader(side, settings, plan)))
        live = _Live(plan, follow, readers, brokers, first, page, kept, echo)
        live.go_on(begun=begun)
        with signals.heard_twice() as (stop, at_once):
            live.until(stop)
            live.end(at_once if stop.is_set() else stop)
        return live.result()


@contextmanager
def _answering(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        reason = error.args[0].str()
        raise InconclusiveError(
            f"{bootstrap} does not answer within {ASK_S:g} s ({reason}): is it up, and reachable?"
        ) from error


def _begin(follow: Follow, first: Ends, plan: Plan) -> None:
    """Begin at the begin of both logs, or at their ends, and note as doubts the records that are gone by then.

    Records of open transactions count as before the begin: a pipeline that reads uncommitted may have written their rows.
    """
    now = plan.options.begin == "now"
    for side in SIDES:
        for partition, ends in first.ends[side].items():
            end = ends.hw if side == "source" else ends.lso
            follow.begin(side, partition, end if now else ends.low)
            topic, own = place(first.numbers[side], partition)
            if ends.low and not now:
                follow.doubt(side, str(partition), f"partition {own} of {topic} begins at offset {ends.low}")
            elif end and now and side == "source":
                follow.doubt(side, str(partition), f"partition {own} of {topic} is followed from offset {end}")


def _doubt_compacted(follow: Follow, first: Ends, brokers: Brokers) -> None:
    """Note compaction as a doubt, also when a saved state goes on: it may have been switched on since."""
    for side in SIDES:
        why = brokers.compacted(first.numbers[side])
        if why:
            follow.doubt(side, "compacted", f"the {side} {why}")


class _Saving:
    """Save the state now and then."""

    def __init__(self, kept: SavedState, say: Echo, now_ms: int) -> None:
        self._kept, self._say = kept, say
        self._due_ms = now_ms + round(1000 * _SAVE_EVERY_S)

    def begin(self, follow: Follow) -> None:
        """Save for the first time.

        Raises:
            AuditUsageError: the file cannot be written.
        """
        self._kept.save(follow)

    def save_if_due(self, follow: Follow, now_ms: int) -> None:
        if now_ms >= self._due_ms:
            self.save(follow)
            took_ms = clock.now_ms() - now_ms
            self._due_ms = now_ms + max(round(1000 * _SAVE_EVERY_S), _SHARE * took_ms)  # a large lag takes long to save

    def save(self, follow: Follow) -> None:
        """Save; a failure is printed only, because a later attempt may succeed."""
        try:
            self._kept.save(follow)
        except AuditUsageError as error:
            self._say(str(error))


class _Live:
    """Read, judge and report, in one thread."""

    def __init__(
        self,
        plan: Plan,
        follow: Follow,
        readers: Mapping[Side, Reader],
        brokers: Brokers,
        first: Ends,
        page: openmetrics.Page,
        kept: SavedState,
        echo: Echo,
    ) -> None:
        self._plan, self._follow, self._readers = plan, follow, readers
        began_ms = clock.now_ms()
        self._progress = Progress(plan.options, follow.counts, page, echo, began_ms)
        self._say = self._progress.say
        self._questions, self._saving = Questions(brokers, self._say, began_ms), _Saving(kept, self._say, began_ms)
        self._last = first
        self._settles: Ends | None = None
        self._sees: Ends | None = None
        self._gave: dict[Side, int] = {"source": 1, "sink": 1}
        self._counted_ms = 0
        self._ends_ms = began_ms + round(1000 * seconds("--for", plan.options.lasts)) if plan.options.lasts else None
        self._unreached, self._broken_off = "", ""

    def go_on(self, *, begun: bool) -> None:
        """Print what is followed, and begin to read at the current positions.

        Raises:
            AuditUsageError: the state file cannot be written.
        """
        asked, at = self._follow.asked, self._follow.at
        for side, reader in self._readers.items():
            self._follow_new_partitions(side, self._last)
            reader.assign(self._last.numbers[side], at[side])
        names = " → ".join(", ".join(those) for those in (self._plan.topics.sources, self._plan.topics.sinks))
        where = (
            f"going on with {self._plan.options.state}"
            if begun
            else f"from the {self._plan.options.begin}".replace("the now", "now")
        )
        self._saving.begin(self._follow)
        window = f"{number(asked.window)} answered rows are remembered ({number(8 * asked.window)} bytes)"
        self._say(f"following {names} {where}, by {asked.compared}; overdue after {asked.overdue_ms / 1000:g} s; {window}")

    def until(self, stop: Event) -> None:
        """Follow until the event is set, the time is over, or following breaks off."""
        while not (stop.is_set() or self._broken_off) and (self._ends_ms is None or clock.now_ms() < self._ends_ms):
            self._read()
            self._ask()
            now_ms = clock.now_ms()
            if self._progress.is_due(now_ms):
                self._progress.tell(self._moment(now_ms), now_ms)
            self._saving.save_if_due(self._follow, now_ms)

    def end(self, at_once: Event) -> None:
        """Fix the ends of both logs, wait until all before them is judged and answered, and report once more.

        The wait ends after ``--settle``, or at a signal; records without an answer are UNKNOWN then.
        """
        began_ms, settle = clock.now_ms(), self._plan.options.settle
        settle_ms, fixed = round(1000 * seconds("--settle", settle)), None
        until_ms = began_ms + max(settle_ms, round(1000 * _END_WITHIN_S))
        self._questions.hurry(_COUNT_EVERY_MS)
        while not (at_once.is_set() or self._broken_off) and clock.now_ms() < until_ms:
            self._read()
            self._ask()
            if fixed is None and self._last.asked_ms >= began_ms:
                fixed, until_ms = self._last, clock.now_ms() + settle_ms
                self._follow.gaps.end = End({number: one.hw for number, one in fixed.ends["source"].items()})
                if self._follow.outstanding:
                    self._say(f"ending: waiting up to {settle} for rows of records that were read; another signal ends at once")
            if fixed is not None and self._is_over(fixed):
                break
        self._close(fixed, waited=clock.now_ms() >= until_ms)
        now_ms = clock.now_ms()
        self._progress.tell(self._moment(now_ms), now_ms)
        self._saving.save(self._follow)

    def _is_over(self, fixed: Ends) -> bool:
        """Whether all before the fixed ends is read, judged, and answered or found missing."""
        if self._follow.gaps.seen_ms < fixed.asked_ms or fixed.unread(self._follow):
            return False
        now_ms = clock.now_ms()
        if self._follow.outstanding and now_ms < self._counted_ms + _COUNT_EVERY_MS:
            return False  # counting outstanding records takes time
        self._counted_ms = now_ms
        return not self._follow.standing().pending

    def _close(self, fixed: Ends | None, *, waited: bool) -> None:
        """Decide which parts of the logs were not judged, and which records are certainly lost although not overdue."""
        if self._broken_off:
            return
        if fixed is None:
            why = f" ({self._questions.silent_why})" if self._questions.silent_why else ""
            self._unreached = f"the logs were not read to their ends: the brokers did not give the ends in time{why}"
        else:
            unread = fixed.unread(self._follow)
            held = [(side, one) for side, one in unread if self._is_held(side, one, fixed)]
            self._unreached = _why_unread(unread, held, self._last.numbers)
            was_seen = waited and self._follow.gaps.seen_ms >= fixed.asked_ms
            hidden = frozenset(one for side, one in held if side == "sink")
            ends = {number: one.hw for number, one in fixed.ends["source"].items()}
            self._follow.gaps.end = End(ends, fixed.positions if was_seen else None, hidden)
        if self._unreached:
            self._say(f"UNKNOWN: {self._unreached}")

    def _is_held(self, side: Side, partition: int, fixed: Ends) -> bool:
        """Whether a transaction that was open when the ends were fixed is still open, so that nobody reads beyond it."""
        last = self._last.ends[side].get(partition)
        return last is not None and last.lso <= self._follow.at[side].get(partition, 0) < fixed.ends[side][partition].hw

    def result(self) -> tuple[tuple[Finding, ...], int]:
        found = report.findings(self._moment(clock.now_ms()))
        counts = self._follow.counts
        self._progress.tell_longest_stall()
        return found, counts.source + counts.sink

    # reading -----------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read both sides; a side that is far ahead waits while the other one has records."""
        ahead: dict[Side, int] = {"source": len(self._follow.outstanding), "sink": len(self._follow.odd)}
        for side in SIDES:
            waits = ahead[side] >= _AHEAD and self._gave[_OTHER[side]]
            try:
                self._gave[side] = 0 if waits else self._readers[side].read(self._follow)
            except InconclusiveError as error:
                if not self._follow.counts.source + self._follow.counts.sink:
                    raise
                self._break_off(str(error))  # earlier findings stay

    def _break_off(self, why: str) -> None:
        self._broken_off = why
        self._say(f"UNKNOWN, following ends: {why}")

    def _ask(self) -> None:
        found = self._questions.answer()
        if found is not None:
            self._answered(found)
        self._questions.ask(self._follow)

    def _answered(self, found: Ends) -> None:
        anew = [topic for topic, id_ in found.ids.items() if self._last.ids.get(topic) != id_]
        if anew:
            self._break_off(f"{', '.join(anew)} was deleted and created again: records not read before that were not compared")
            return
        self._judge(found.mark)
        before, self._last = self._last, found
        self._settles, self._sees = self._settles or found, self._sees or found
        for side, reader in self._readers.items():
            self._put_back(side, reader, found)
            self._doubt_cut(side, before, found)

    def _judge(self, mark: Mark) -> None:
        """Judge by what was read before the last question, whose answer showed that the topics are still the same."""
        to = self._questions.read_to
        if self._settles and all(to.get(one, 0) >= ends.hw for one, ends in self._settles.ends["source"].items()):
            self._follow.settle(self._settles.mark, clock.now_ms())
            self._settles = None
        if self._sees and all(mark.offsets.get(one, 0) >= ends.lso for one, ends in self._sees.ends["sink"].items()):
            self._follow.seen(self._sees.asked_ms, self._sees.positions)
            self._sees = None

    def _put_back(self, side: Side, reader: Reader, found: Ends) -> None:
        """Move the offset in partitions that lost it at either end, and read new partitions from their begin."""
        lost, is_new = set(reader.lost), self._follow_new_partitions(side, found)
        for partition in lost:
            at, ends = self._follow.at[side][partition], found.ends[side][partition]
            topic, own = place(found.numbers[side], partition)
            if at < ends.low:
                gone = f"{number(ends.low - at)} offsets of partition {own} of {topic}"
                why = f"{gone} were removed before they were read, from offset {at} on"
                self._reset(side, partition, ends.low, why)
            elif partition in reader.rewritten and at <= ends.hw:
                why = f"partition {own} of {topic} was truncated before offset {at}, and written again"
                self._reset(side, partition, at, why, cut=0)
            elif at > ends.hw:
                why = f"partition {own} of {topic} was truncated to offset {ends.hw}, after it was read to {at}"
                self._reset(side, partition, ends.hw, why, cut=0 if partition in reader.rewritten else None)
        if lost or is_new:
            reader.assign(found.numbers[side], self._follow.at[side])

    def _doubt_cut(self, side: Side, before: Ends, found: Ends) -> None:
        """Note a truncated log: the pipeline may have read records of it that were not read here."""
        for partition, ends in found.ends[side].items():
            ended, at = before.ends[side].get(partition, ends).hw, self._follow.at[side][partition]
            if at <= ends.hw < ended:
                topic, own = place(found.numbers[side], partition)
                self._reset(side, partition, at, f"partition {own} of {topic} was truncated to offset {ends.hw}, from {ended}")
                if side == "source":
                    self._follow.doubts.skip(partition, ended - ends.hw)

    def _reset(self, side: Side, partition: int, offset: int, why: str, cut: int | None = None) -> None:
        self._follow.reset(side, partition, offset, why, cut=cut)
        self._settles = self._sees = None  # their ends may never be reached
        self._say(f"UNKNOWN from now on: {why}")

    def _follow_new_partitions(self, side: Side, found: Ends) -> bool:
        new = found.ends[side].keys() - self._follow.at[side].keys()
        for partition in sorted(new):
            low = found.ends[side][partition].low
            self._follow.begin(side, partition, low)
            if low:
                topic, own = place(found.numbers[side], partition)
                why = f"the new partition {own} of {topic} begins at offset {low}"
                self._follow.doubt(side, str(partition), why)
                self._say(f"UNKNOWN from now on: {why}")
        return bool(new)

    # reporting ---------------------------------------------------------------------------------------------------------

    def _moment(self, now_ms: int) -> Moment:
        at, ends = self._follow.at, self._last.ends
        behind: dict[Side, int] = {
            "source": sum(max(0, one.hw - at["source"].get(number, 0)) for number, one in ends["source"].items()),
            "sink": sum(max(0, one.lso - at["sink"].get(number, 0)) for number, one in ends["sink"].items()),
        }
        standing = self._follow.standing()
        silent_s = self._questions.silent_s(now_ms)
        moment = Moment(self._follow, standing, self._last.numbers, behind, 0.0, silent_s, self._unreached, self._broken_off)
        return self._progress.stall.timed(moment, now_ms)


def _why_unread(unread: list[tuple[Side, int]], held: list[tuple[Side, int]], numbers: Mapping[Side, Numbers]) -> str:
    def named(those: list[tuple[Side, int]]) -> str:
        places = [place(numbers[side], one) for side, one in those[:_PLACES_SHOWN]]
        more = f" and {len(those) - _PLACES_SHOWN} more" if len(those) > _PLACES_SHOWN else ""
        return ", ".join(f"partition {own} of {topic}" for topic, own in places) + more

    others = [one for one in unread if one not in held]
    reasons = (
        f"a transaction is open in {named(held)}: its records, and those after it, were not read" if held else "",
        f"the logs were not read to their ends in {named(others)}" if others else "",
    )
    return "; ".join(filter(None, reasons))
