// Copies a topic with an idempotent producer, with two sends under way at any time.
//
//     NODE_PATH=node_modules node client.js BOOTSTRAP SOURCE SINK GROUP TOGETHER released|patched
//
// TOGETHER is how many sends are under way at once: 1 waits for each answer.
// With "patched" a producer begins no send before the one ahead of it has ended, with all its attempts.

const [bootstrap, source, sink, group, together, library] = process.argv.slice(2);
if (library === "patched") patch();
const { Kafka, logLevel } = require("kafkajs");

const kafka = new Kafka({
  brokers: bootstrap.split(","),
  logLevel: logLevel.ERROR,
  requestTimeout: 3000,
  retry: { initialRetryTime: 100 },
});
const consumer = kafka.consumer({ groupId: group, minBytes: 2000 }); // the first batch has more than one record
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });

const copy = ({ key, value }) =>
  producer.send({ topic: sink, acks: -1, messages: [{ key, value, partition: 0 }] });

// An error ends the program, and whoever started it starts it again.
const end = (error) => {
  console.error(error);
  process.exit(1);
};

// While one send waits for its answer, the next one waits for the lock.
async function eachBatch({ batch, resolveOffset, heartbeat }) {
  const waiting = batch.messages.values();
  const worker = async () => {
    for (const message of waiting) {
      await copy(message);
      await heartbeat();
    }
  };
  await Promise.all(Array.from({ length: Number(together) }, worker)).catch(end);
  resolveOffset(batch.lastOffset());
}

async function main() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: source, fromBeginning: true });
  await consumer.run({ eachBatchAutoResolve: false, eachBatch });
}

// The lock of 2.2.4 is let go between two attempts of a send, and another send takes its number.
// The module is replaced before the library loads it.
function patch() {
  const name = require.resolve("kafkajs/src/producer/sendMessages");
  const released = require(name);
  require.cache[name].exports = (parts) => {
    const send = released(parts);
    let last = Promise.resolve();
    return (request) => {
      const own = last.then(() => send(request));
      last = own.catch(() => {}); // whoever called that send has its error
      return own;
    };
  };
}

main().catch(end);
