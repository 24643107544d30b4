"""Copies a topic with FastStream; a record whose handler fails is rejected, and handlers have little time at the end.

client.py BOOTSTRAP SOURCE SINK GROUP
"""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

WORK_S = 3.0


async def main() -> None:
    """Until it is told to end."""
    bootstrap, source, sink, group = sys.argv[1:]
    broker = KafkaBroker(bootstrap.split(","), acks="all", graceful_timeout=0.01)

    @broker.subscriber(  # type: ignore[untyped-decorator] # FastStream has an environment of its own
        source, group_id=group, ack_policy=AckPolicy.REJECT_ON_ERROR, auto_offset_reset="earliest"
    )
    async def copy(message: KafkaMessage) -> None:
        await asyncio.sleep(WORK_S)
        await broker.publish(message.body, topic=sink, key=message.raw_message.key, partition=0)

    await FastStream(broker).run()


if __name__ == "__main__":
    asyncio.run(main())
