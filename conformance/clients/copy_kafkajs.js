// Copies a topic in transactions with kafkajs; see README.md beside this folder.

const { Kafka, logLevel } = require("kafkajs");

const RECORDS = 200;
const { BOOTSTRAP, SOURCE, SINK, GROUP, TRANSACTIONAL_ID } = process.env;
const kafka = new Kafka({
  brokers: BOOTSTRAP.split(","),
  logLevel: logLevel.ERROR,
  requestTimeout: 10_000,
});
const consumer = kafka.consumer({ groupId: GROUP, sessionTimeout: 6_000, heartbeatInterval: 1_000 });
const producer = kafka.producer({
  transactionalId: TRANSACTIONAL_ID,
  idempotent: true,
  maxInFlightRequests: 1,
  transactionTimeout: 20_000,
});
let number = 0;

// One line, in one piece.
const say = (statement) => process.stdout.write(JSON.stringify(statement) + "\n");

// An error that cannot be handled ends the program, and whoever started it starts it again.
const end = (error) => {
  console.error(error);
  process.exit(1);
};

// Writes the records of one partition and their position in one transaction. Returns false if it was aborted.
async function copied(topic, partition, messages) {
  const name = ++number;
  say({ got: messages.map((message) => [topic, partition, Number(message.offset)]) });
  say({ begin: name, ids: messages.map((message) => message.key.toString()) });
  const transaction = await producer.transaction();
  try {
    const rows = messages.map(({ key, value }) => ({ key, value, partition }));
    await transaction.send({ topic: SINK, messages: rows });
    const offset = (BigInt(messages.at(-1).offset) + 1n).toString();
    const topics = [{ topic, partitions: [{ partition, offset }] }];
    await transaction.sendOffsets({ consumerGroupId: GROUP, topics });
    await transaction.commit();
  } catch (error) {
    console.error(error);
    await transaction.abort();
    say({ told: "aborted", transaction: name });
    return false;
  }
  say({ told: "committed", transaction: name });
  return true;
}

async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
  const { topic, partition, messages } = batch;
  for (let first = 0; first < messages.length && isRunning() && !isStale(); first += RECORDS) {
    const some = messages.slice(first, first + RECORDS);
    if (!(await copied(topic, partition, some).catch(end))) {
      say({ start: [topic, partition, Number(some[0].offset)] });
      consumer.seek({ topic, partition, offset: some[0].offset });
      return;
    }
    resolveOffset(some.at(-1).offset);
    await heartbeat();
  }
}

// kafkajs finds the offsets itself, so they are null.
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  const partitions = payload.memberAssignment[SOURCE] ?? [];
  if (partitions.length > 0) say({ start: partitions.map((partition) => [SOURCE, partition, null]) });
});
consumer.on(consumer.events.CRASH, ({ payload }) => {
  if (!payload.restart) end(payload.error);
});

async function main() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: SOURCE, fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch });
  say({ event: "started" });
}

main().catch(end);
