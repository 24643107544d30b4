// Copies a topic, ten records at a time: a producer is opened, sends them at once, and is closed.
//
//     NODE_PATH=node_modules node client.js BOOTSTRAP SOURCE SINK GROUP

const { Consumer, ProduceAcks, Producer } = require("@platformatic/kafka");

const TOGETHER = 10;
const [bootstrap, source, sink, group] = process.argv.slice(2);
const kafka = { clientId: group, bootstrapBrokers: bootstrap.split(",") };

async function copy(records) {
  const producer = new Producer({ ...kafka, idempotent: true, acks: ProduceAcks.ALL });
  const send = ({ key, value }) =>
    producer.send({ messages: [{ topic: sink, key, value, partition: 0 }] });
  await Promise.all(records.map(send));
  await producer.close();
}

async function main() {
  const consumer = new Consumer({ ...kafka, groupId: group });
  const where = { mode: "committed", fallbackMode: "earliest" };
  const stream = await consumer.consume({ topics: [source], autocommit: false, ...where });
  let records = [];
  for await (const record of stream) {
    records.push(record);
    if (records.length === TOGETHER) {
      await copy(records);
      await record.commit();
      records = [];
    }
  }
}

// An error ends the program, and whoever started it starts it again.
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
