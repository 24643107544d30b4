"""Copies a topic with faust-streaming, two records at a time; the work on one record takes long.

client.py BOOTSTRAP SOURCE SINK GROUP released|patched

With `patched` no position is committed past a record that is not finished.
"""

import asyncio
import sys

import faust
from faust.transport.consumer import Consumer
from faust.types import TP, StreamT

SLOW = b"100"
WORK_S = 25.0


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, commits = sys.argv[1:]
    app = faust.App(
        group,
        broker=f"kafka://{bootstrap.replace(',', ';')}",
        broker_commit_interval=0.5,
        broker_session_timeout=6.0,
        broker_heartbeat_interval=2.0,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
    )
    raw = {"key_serializer": "raw", "value_serializer": "raw"}
    orders, copies = app.topic(source, **raw), app.topic(sink, **raw)

    @app.agent(orders, concurrency=2)  # type: ignore[untyped-decorator] # faust has an environment of its own
    async def copy(stream: StreamT[bytes]) -> None:
        async for event in stream.events():
            if event.key == SLOW:
                await asyncio.sleep(WORK_S)
            await (await copies.send(key=event.key, value=event.value, partition=0))

    if commits == "patched":
        patch()
    faust.Worker(app, loglevel="INFO").execute_from_commandline()


def patch() -> None:
    """Compare the first finished record with the committed position, which is that of the next record."""
    released = Consumer._new_offset  # noqa: SLF001 - the defect is in there

    def new_offset(consumer: Consumer, tp: TP) -> int | None:
        finished, committed = consumer._acked[tp], consumer._committed_offset[tp]  # noqa: SLF001
        if finished and committed and min(finished) > committed:
            return None
        offset: int | None = released(consumer, tp)
        return offset

    Consumer._new_offset = new_offset  # noqa: SLF001


if __name__ == "__main__":
    main()
