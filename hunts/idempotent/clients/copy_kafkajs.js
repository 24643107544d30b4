// Copies a topic with an idempotent producer of kafkajs; see README.md beside this folder.

const { Kafka, logLevel } = require("kafkajs");

const { BOOTSTRAP, SOURCE, SINK, GROUP } = process.env;
const kafka = new Kafka({ brokers: BOOTSTRAP.split(","), logLevel: logLevel.ERROR, requestTimeout: 3_000 });
const consumer = kafka.consumer({ groupId: GROUP });
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });

// Sends the records of one partition until the client has an answer to all.
async function sent(batch) {
  const messages = batch.messages.map(({ key, value }) => ({ key, value, partition: batch.partition }));
  while (true) {
    try {
      return await producer.send({ topic: SINK, acks: -1, messages });
    } catch (error) {
      console.error(`${messages.length} records are sent again: ${error}`);
    }
  }
}

// An error ends the program, and whoever started it starts it again.
const end = (error) => {
  console.error(error);
  process.exit(1);
};

async function main() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: SOURCE, fromBeginning: true });
  await consumer.run({
    partitionsConsumedConcurrently: 2,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      await sent(batch).catch(end);
      resolveOffset(batch.lastOffset());
      await heartbeat();
    },
  });
}

main().catch(end);
