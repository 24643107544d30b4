// Copies a topic with an idempotent producer of @platformatic/kafka; see README.md beside this folder.

const { Consumer, Producer } = require("@platformatic/kafka");

const RECORDS = 200;
const { BOOTSTRAP, SOURCE, SINK, GROUP } = process.env;
const kafka = { clientId: GROUP, bootstrapBrokers: BOOTSTRAP.split(","), requestTimeout: 3_000 };
const consumer = new Consumer({ ...kafka, groupId: GROUP });
const producer = new Producer({ ...kafka, idempotent: true });

// Sends records until the client has an answer to all.
async function sent(batch) {
  const messages = batch.map(({ key, value, partition }) => ({ topic: SINK, key, value, partition }));
  while (true) {
    try {
      return await producer.send({ messages });
    } catch (error) {
      console.error(`${messages.length} records are sent again:`, error);
    }
  }
}

async function main() {
  const stream = await consumer.consume({
    topics: [SOURCE],
    autocommit: false,
    mode: "committed",
    fallbackMode: "earliest",
  });
  const messages = stream[Symbol.asyncIterator]();
  while (true) {
    const batch = [];
    while (batch.length === 0 || (batch.length < RECORDS && stream.readableLength > 0)) {
      const { value, done } = await messages.next();
      if (done) throw new Error("the stream has ended");
      batch.push(value);
    }
    await sent(batch);
    const last = new Map(batch.map((message) => [message.partition, message]));
    for (const message of last.values()) await message.commit();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
