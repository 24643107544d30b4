"""Running totals as they may stand in any repository: how much each customer has ordered, kept in a compacted topic.

python3 totals.py --kafka BOOTSTRAP --source ORDERS --totals TOPIC --group GROUP --transactional-id ID

An order is JSON, `{"amount": 12}`, its key is the customer. The totals that a batch of orders changes are written to the
topic in one transaction with the positions of the orders, so the topic is the state: it is read when partitions are
assigned, before the first order of them. The total of a customer is in the partition of its orders, so both topics need as
many partitions. A transaction that the client demands to abort is aborted, and its orders are read again; any other error
ends the program, and whoever started it starts it again.

`--snapshot` says when totals are written, and only the first is right:

``in-the-transaction``  with the positions
``before-the-commit``   by a producer without transactions, before the positions are committed
``after-the-commit``    by the same, afterwards
``never-read``          with the positions, and the totals begin at zero at each start
``kept-over-an-abort``  with the positions; totals in memory are changed before that, and an abort does not put them back
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, wait

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SILENCE_S = 5.0
WITHIN_S = 30.0
SEND_WITHIN_S = 10.0


class Totals:
    """One consumer, one producer, and the totals of the partitions that the consumer has."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Nothing is connected yet."""
        self.options = options
        self.in_transaction = options.snapshot in {"in-the-transaction", "never-read", "kept-over-an-abort"}
        kafka = {"bootstrap.servers": options.kafka}
        self.consumer = Consumer(
            {
                **kafka,
                "group.id": options.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": options.session_timeout_ms,
            }
        )
        identity = {"transactional.id": options.transactional_id} if self.in_transaction else {"enable.idempotence": True}
        self.producer = Producer({**kafka, **identity})
        self.totals: dict[int, dict[bytes, int]] = {}
        self.orders: list[Message] = []
        self.caller = ThreadPoolExecutor(1)

    def run(self) -> None:
        """Until it is ended."""
        if self.in_transaction:
            self.producer.init_transactions(WITHIN_S)  # ends what an instance before this one has left open
        self.consumer.subscribe([self.options.source], on_assign=self.restore, on_revoke=self.forget)
        while True:
            order = self.consumer.poll(SILENCE_S)
            if order is not None:
                if order.error():
                    raise KafkaException(order.error())
                self.orders.append(order)
            if self.orders and (order is None or len(self.orders) == self.options.batch_orders):
                self.write(self.changed())

    def restore(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Read the totals of these partitions; their positions are asked for afterwards, so they are not older."""
        self.orders.clear()
        for place in partitions:
            self.totals[place.partition] = {} if self.options.snapshot == "never-read" else self.stored(place.partition)

    def forget(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop the totals of these partitions; their next owner reads uncommitted records again."""
        self.orders.clear()
        for place in partitions:
            self.totals.pop(place.partition, None)

    def stored(self, partition: int) -> dict[bytes, int]:
        """The last total of each customer, up to what is the end of the partition now: open transactions are waited for."""
        reader = Consumer(
            {
                "bootstrap.servers": self.options.kafka,
                "group.id": f"{self.options.group}-restores",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        totals: dict[bytes, int] = {}
        place = TopicPartition(self.options.totals, partition, OFFSET_BEGINNING)
        _, end = reader.get_watermark_offsets(place, WITHIN_S)
        reader.assign([place])
        while True:
            row = reader.poll(WITHIN_S)
            if row is None:
                raise TimeoutError(f"{self.options.totals}-{partition} was not read to its end, {end}, within {WITHIN_S:g} s")
            if not row.error():
                totals[row.key()] = json.loads(row.value())["total"]
            elif row.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the name that the library gives it
                raise KafkaException(row.error())
            elif row.offset() >= end:
                reader.close()
                return totals

    def changed(self) -> dict[int, dict[bytes, int]]:
        """The new totals of the customers in this batch, by partition."""
        new: dict[int, dict[bytes, int]] = defaultdict(dict)
        for order in self.orders:
            known, of_partition = self.totals[order.partition()], new[order.partition()]
            so_far = of_partition.get(order.key(), known.get(order.key(), 0))
            of_partition[order.key()] = so_far + json.loads(order.value())["amount"]
        return new

    def write(self, new: dict[int, dict[bytes, int]]) -> None:
        """Write totals and positions, in the order that was asked for."""
        ends = {(order.topic(), order.partition()): order.offset() + 1 for order in self.orders}
        positions = [TopicPartition(*place, end) for place, end in ends.items()]
        if self.options.snapshot == "kept-over-an-abort":
            self.remember(new)
        if self.in_transaction:
            if not self.transacted(new, positions):
                self.read_again()
                return
        elif self.options.snapshot == "before-the-commit":
            self.send(new)
            self.producer.flush()
            self.consumer.commit(offsets=positions, asynchronous=False)
        else:
            self.consumer.commit(offsets=positions, asynchronous=False)
            self.send(new)
            self.producer.flush()
        self.remember(new)
        self.orders.clear()

    def transacted(self, new: dict[int, dict[bytes, int]], positions: list[TopicPartition]) -> bool:
        """Write totals and positions in one transaction; False if it had to be aborted, as when a row was refused."""
        self.producer.begin_transaction()
        try:
            self.send(new)
            self.send_positions(positions)
            self.producer.commit_transaction(WITHIN_S)
        except KafkaException as raised:
            if not raised.args[0].txn_requires_abort():
                raise
            self.producer.abort_transaction(WITHIN_S)
            return False
        return True

    def remember(self, new: dict[int, dict[bytes, int]]) -> None:
        for partition, totals in new.items():
            self.totals[partition].update(totals)

    def read_again(self) -> None:
        """Go back to the first order of each partition in the batch."""
        first = {(order.topic(), order.partition()): order.offset() for order in reversed(self.orders)}
        for place, offset in first.items():
            self.consumer.seek(TopicPartition(*place, offset))
        self.orders.clear()

    def send_positions(self, positions: list[TopicPartition]) -> None:
        """Add them to the transaction.

        When the coordinator of the group was restarted, librdkafka 2.16 may never come back from this call, whatever its limit
        (docs/findings/send-offsets-hangs.md of this repository): then the program ends at once, and its successor goes on.
        """
        member = self.consumer.consumer_group_metadata()
        sent = self.caller.submit(self.producer.send_offsets_to_transaction, positions, member, SEND_WITHIN_S)
        if not wait([sent], SEND_WITHIN_S + 1).done:
            sys.stderr.write("the positions could not be sent\n")
            os._exit(1)
        sent.result()

    def send(self, new: dict[int, dict[bytes, int]]) -> None:
        for partition, totals in new.items():
            for customer, total in totals.items():
                value = json.dumps({"total": total}, separators=(",", ":"))
                self.producer.produce(self.options.totals, key=customer, value=value, partition=partition)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="keep the totals of customers")
    for name in ("kafka", "source", "totals", "group", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    ways = ["in-the-transaction", "before-the-commit", "after-the-commit", "never-read", "kept-over-an-abort"]
    parser.add_argument("--snapshot", choices=ways, default="in-the-transaction")
    parser.add_argument("--batch-orders", type=int, default=50)
    parser.add_argument("--session-timeout-ms", type=int, default=10_000)
    return parser.parse_args()


if __name__ == "__main__":
    Totals(parsed()).run()
