// Copies a topic, ten records at a time: a producer is opened, sends them at once, and is closed.
//
//     NODE_PATH=node_modules node client.js BOOTSTRAP SOURCE SINK GROUP

const { Kafka, logLevel } = require("kafkajs");

const TOGETHER = 10;
const [bootstrap, source, sink, group] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: group });

// An error ends the program, and whoever started it starts it again.
const end = (error) => {
  console.error(error);
  process.exit(1);
};

async function copy(records) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const send = ({ key, value }) =>
    producer.send({ topic: sink, acks: -1, messages: [{ key, value, partition: 0 }] });
  await Promise.all(records.map(send));
  await producer.disconnect();
}

async function eachBatch({ batch, resolveOffset, heartbeat }) {
  for (let first = 0; first < batch.messages.length; first += TOGETHER) {
    const records = batch.messages.slice(first, first + TOGETHER);
    await copy(records).catch(end);
    resolveOffset(records[records.length - 1].offset);
    await heartbeat();
  }
}

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topic: source, fromBeginning: true });
  await consumer.run({ eachBatchAutoResolve: false, eachBatch });
}

main().catch(end);
