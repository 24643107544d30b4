"""What a follower prints and measures while it follows: progress, anomalies, stalls, metrics."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from chaos.audit.follow import openmetrics, report
from chaos.audit.follow.options import Following, seconds
from chaos.audit.follow.report import STALL_S, Moment
from chaos.audit.follow.rows import Counts
from chaos.common import clock, files
from chaos.report.formatting import number

Echo = Callable[[str], None]


class Stall:
    """How long the sink has not grown although there is a lag.

    Attributes:
        longest_s: the longest stall that was told.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._lag_ms = self._began_ms = 0

    def timed(self, now: Moment, now_ms: int) -> Moment:
        """Return the moment with the length of its stall."""
        self._lag_ms = (self._lag_ms or now_ms) if now.lag else 0
        return replace(now, stall_s=(now_ms - max(self._lag_ms, now.follow.grew_ms)) / 1000 if now.lag else 0.0)

    def news(self, now: Moment) -> str:
        """Say that a stall began or ended since the last call; empty if neither."""
        self.longest_s = max(self.longest_s, now.stall_s)
        if now.stall_s >= STALL_S and not self._began_ms:
            self._began_ms = clock.now_ms() - round(1000 * now.stall_s)
            return f"stall: the sink has not grown for {now.stall_s:.0f} s, with a lag of {number(now.lag)} records"
        if now.stall_s < STALL_S and self._began_ms:
            lasted_s = (max(now.follow.grew_ms, self._began_ms) - self._began_ms) / 1000
            self._began_ms = 0
            return f"the sink grows again, after {lasted_s:.0f} s"
        return ""


class Progress:
    """Print lines with their time, and publish the metrics."""

    def __init__(self, options: Following, counts: Counts, page: openmetrics.Page, echo: Echo, now_ms: int) -> None:
        self._metrics_file, self._every_ms = options.metrics_file, 1000 * seconds("--every", options.every)
        self._before, self._gaps = replace(counts), 0
        self._page, self._echo = page, echo
        self._told_ms = now_ms
        self.stall = Stall()

    def say(self, told: str) -> None:
        self._echo(f"{clock.now_utc():%H:%M:%SZ}  {told}")

    def is_due(self, now_ms: int) -> bool:
        return now_ms - self._told_ms >= self._every_ms

    def tell(self, now: Moment, now_ms: int) -> None:
        """Print how far the follower is, and what was found since the last call; this empties the news."""
        self._told_ms = now_ms
        stall = self.stall.news(now)
        if stall:
            self.say(stall)
        for told in report.news(now, self._before, now.follow.anomalies.news):
            self.say(told)
        if now.standing.gaps > self._gaps and now.standing.first:
            self.say(report.gap(now, now.standing.first[0], now.standing.gaps))
        self._gaps, self._before = now.standing.gaps, replace(now.follow.counts)
        now.follow.anomalies.news.clear()
        self.say(report.line(now))
        self._publish(now)

    def _publish(self, now: Moment) -> None:
        self._page.families = report.metrics(now)
        if self._metrics_file:
            try:
                files.write_bytes_atomically(Path(self._metrics_file), self._page.text())
            except OSError as error:
                self.say(f"--metrics-file {self._metrics_file}: cannot be written: {error.strerror}")

    def tell_longest_stall(self) -> None:
        if self.stall.longest_s >= STALL_S:
            self.say(f"the longest stall was {self.stall.longest_s:.0f} s")
