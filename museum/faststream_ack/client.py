"""Copies a topic with FastStream; a record is acknowledged when its handler has ended.

client.py BOOTSTRAP SOURCE SINK GROUP
"""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker, KafkaMessage

WORK_S = 1.0


async def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group = sys.argv[1:]
    broker = KafkaBroker(bootstrap)

    @broker.subscriber(  # type: ignore[untyped-decorator] # FastStream has an environment of its own
        source,
        group_id=group,
        ack_policy=AckPolicy.ACK,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        session_timeout_ms=6000,
    )
    async def copy(message: KafkaMessage) -> None:
        await asyncio.sleep(WORK_S)
        await broker.publish(message.body, topic=sink, key=message.raw_message.key(), partition=0)

    await FastStream(broker).run()


if __name__ == "__main__":
    asyncio.run(main())
