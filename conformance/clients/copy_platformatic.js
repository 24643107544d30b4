// Copies a topic in transactions with @platformatic/kafka; see README.md beside this folder.

const { Consumer, FetchIsolationLevels, Producer } = require("@platformatic/kafka");

const RECORDS = 200;
const { BOOTSTRAP, SOURCE, SINK, GROUP, TRANSACTIONAL_ID } = process.env;
const kafka = { clientId: GROUP, bootstrapBrokers: BOOTSTRAP.split(","), requestTimeout: 10_000 };
const consumer = new Consumer({
  ...kafka,
  groupId: GROUP,
  sessionTimeout: 6_000,
  heartbeatInterval: 1_000,
});
const producer = new Producer({
  ...kafka,
  idempotent: true,
  transactionalId: TRANSACTIONAL_ID,
  timeout: 20_000, // of a transaction, too
});

// One line, in one piece.
const say = (statement) => process.stdout.write(JSON.stringify(statement) + "\n");

// The stream finds the offsets itself, so they are null.
const started = (assignments) => {
  const partitions = (assignments ?? []).flatMap((assigned) => assigned.partitions);
  if (partitions.length > 0) say({ start: partitions.map((partition) => [SOURCE, partition, null]) });
};

// Begins to read at the committed positions. With "fail" as the fallback, 2.12.1 also demands positions of partitions
// that other members have, and ends.
const opened = () =>
  consumer.consume({
    topics: [SOURCE],
    autocommit: false,
    mode: "committed",
    fallbackMode: "earliest",
    isolationLevel: FetchIsolationLevels.READ_COMMITTED,
  });

// The next record, and those that are there already.
async function polled(stream, messages) {
  const batch = [];
  while (batch.length === 0 || (batch.length < RECORDS && stream.readableLength > 0)) {
    const { value, done } = await messages.next();
    if (done) throw new Error("the stream has ended");
    batch.push(value);
  }
  return batch;
}

// Writes the records and their positions in one transaction. Returns false if it was aborted.
async function copied(number, batch) {
  say({ begin: number, ids: batch.map((message) => message.key.toString()) });
  const transaction = await producer.beginTransaction();
  try {
    await transaction.addConsumer(consumer);
    const messages = batch.map(({ key, value, partition }) => ({ topic: SINK, key, value, partition }));
    await transaction.send({ messages });
    const last = new Map(batch.map((message) => [message.partition, message]));
    for (const message of last.values()) await transaction.addOffset(message);
    await transaction.commit();
  } catch (error) {
    console.error(error);
    await transaction.abort();
    say({ told: "aborted", transaction: number });
    return false;
  }
  say({ told: "committed", transaction: number });
  return true;
}

async function main() {
  consumer.on("consumer:group:join", ({ assignments }) => started(assignments));
  let stream = await opened();
  let messages = stream[Symbol.asyncIterator]();
  say({ event: "started" });
  for (let number = 1; ; number++) {
    const batch = await polled(stream, messages);
    say({ got: batch.map(({ topic, partition, offset }) => [topic, partition, Number(offset)]) });
    if (!(await copied(number, batch))) {
      await stream.close();
      started(consumer.assignments);
      stream = await opened();
      messages = stream[Symbol.asyncIterator]();
    }
  }
}

// An error that cannot be handled ends the program, and whoever started it starts it again.
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
