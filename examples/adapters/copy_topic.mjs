// Copies a topic in transactions, and prints what its client tells it: the contract of docs/adapters.md in Node.js.
//
//     npm ci && node copy_topic.mjs BOOTSTRAP SOURCE SINK GROUP

import { Kafka, logLevel } from "kafkajs";

const [bootstrap, source, sink, group] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500 });
const producer = kafka.producer({ transactionalId: group, idempotent: true, maxInFlightRequests: 1 });
let number = 0;

// One line, in one piece.
const say = (statement) => process.stdout.write(JSON.stringify(statement) + "\n");

// An error ends the program, and whoever started it starts it again.
const end = (error) => {
  console.error(error);
  process.exit(1);
};

// The records of one partition and its position, in one transaction. If that fails nothing is told, so the outcome is unknown.
async function copy({ topic, partition, messages }) {
  const name = ++number;
  say({ got: messages.map((message) => [topic, partition, Number(message.offset)]) });
  say({ begin: name, ids: messages.map((message) => message.key.toString()) });
  const transaction = await producer.transaction();
  const rows = messages.map(({ key, value }) => ({ key, value, partition }));
  await transaction.send({ topic: sink, messages: rows });
  const offset = (BigInt(messages.at(-1).offset) + 1n).toString();
  await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions: [{ partition, offset }] }] });
  await transaction.commit();
  say({ told: "committed", transaction: name });
}

// kafkajs finds the offsets itself, so they are null.
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  const partitions = payload.memberAssignment[source] ?? [];
  if (partitions.length > 0) say({ start: partitions.map((partition) => [source, partition, null]) });
});

await producer.connect();
await consumer.connect();
await consumer.subscribe({ topic: source, fromBeginning: true });
await consumer.run({
  autoCommit: false,
  eachBatch: async ({ batch }) => {
    if (batch.messages.length > 0) await copy(batch).catch(end);
  },
});
say({ event: "started" });
