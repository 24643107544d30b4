"""A program as it may stand in any repository: it writes a receipt for each order, and knows nothing of a test.

python3 receipts.py BOOTSTRAP SOURCE SINK GROUP --store before|after

With ``after`` its positions are committed once the receipts are acknowledged. With ``before`` they are committed as soon as the
orders were read, as ``enable.auto.commit`` and many handlers do it: what was read and not yet written is lost if it dies then.
"""

import argparse
from threading import Event

from confluent_kafka import Consumer, KafkaException, Message, Producer

BATCH = 100
_TAKES_S = 0.004  # the work for an order


def main() -> None:
    """Work until it is ended."""
    arguments = _parsed()
    kafka = {"bootstrap.servers": arguments.bootstrap}
    member = {"group.id": arguments.group, "session.timeout.ms": 6000, "auto.offset.reset": "earliest"}
    consumer = Consumer({**kafka, **member, "enable.auto.commit": False})
    producer = Producer({**kafka, "enable.idempotence": True})
    consumer.subscribe([arguments.source])
    while True:
        orders = consumer.consume(BATCH, timeout=0.5)
        if not orders:
            continue
        if arguments.store == "before":
            consumer.commit(asynchronous=False)
        _handle(orders, producer, arguments.sink)
        if arguments.store == "after":
            consumer.commit(asynchronous=False)


def _handle(orders: list[Message], producer: Producer, sink: str) -> None:
    """Write the receipts, and return when all are acknowledged."""
    for order in orders:
        if order.error():
            raise KafkaException(order.error())
        Event().wait(_TAKES_S)
        producer.produce(sink, order.value(), order.key(), order.partition())
        producer.poll(0)
    if producer.flush(60):
        raise KafkaException("receipts were not acknowledged")


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="write a receipt for each order")
    for name in ("bootstrap", "source", "sink", "group"):
        parser.add_argument(name)
    parser.add_argument(
        "--store", choices=("before", "after"), required=True, help="positions, and then the receipts, or after"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
