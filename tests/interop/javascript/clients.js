// KafkaJS as a producer and as a reader of assigned partitions, without a group.
// node clients.js send|read ADDRESS TOPIC < request.json; answers in JSON on its output.
"use strict";

const { Kafka, CompressionTypes, logLevel } = require("kafkajs");
const Cluster = require("kafkajs/src/cluster");

const [, , action, address, topic] = process.argv;
const bytes = (text) => (text === null ? null : Buffer.from(text, "base64"));
const text = (data) => (data === null ? null : Buffer.from(data).toString("base64"));

async function send(kafka, request) {
  const producer = kafka.producer({ idempotent: request.idempotent, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = request.records.map((each) => ({
    partition: each.partition,
    timestamp: String(each.timestamp),
    key: bytes(each.key),
    value: bytes(each.value),
    headers: Object.fromEntries(each.headers.map(([name, value]) => [name, bytes(value)])),
  }));
  const sent = await producer.send({
    topic,
    acks: request.acks,
    compression: request.gzip ? CompressionTypes.GZIP : CompressionTypes.None,
    messages,
  });
  await producer.disconnect();
  return sent;
}

async function read(kafka, request) {
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic);
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, request.timestamp);
  const described = await admin.describeConfigs({
    resources: [{ type: 2, name: topic, configNames: ["retention.ms"] }],
  });
  await admin.disconnect();
  // Below the consumer, which always has a group: the classes that it fetches with.
  const cluster = new Cluster({
    logger: kafka.logger(),
    brokers: [address],
    clientId: "assigned",
    socketFactory: require("kafkajs/src/network/socketFactory")(),
    retry: {},
    ssl: false,
    metadataMaxAge: 300000,
    connectionTimeout: 10000,
    authenticationTimeout: 10000,
    reauthenticationThreshold: 10000,
    requestTimeout: 30000,
    enforceRequestTimeout: true,
    maxInFlightRequests: null,
    allowAutoTopicCreation: false,
    isolationLevel: 0,
  });
  await cluster.connect();
  await cluster.addTargetTopic(topic);
  const found = [];
  for (const end of ends) {
    const metadata = cluster.findTopicPartitionMetadata(topic);
    const leader = metadata.find((each) => each.partitionId === end.partition).leader;
    const broker = await cluster.findBroker({ nodeId: leader });
    for (let offset = 0n; offset < BigInt(end.high); ) {
      const answer = await broker.fetch({
        maxWaitTime: 500,
        minBytes: 1,
        maxBytes: request.maxBytes,
        isolationLevel: 0,
        topics: [
          {
            topic,
            partitions: [
              { partition: end.partition, fetchOffset: String(offset), maxBytes: request.maxBytes },
            ],
          },
        ],
      });
      for (const message of answer.responses[0].partitions[0].messages) {
        if (BigInt(message.offset) < offset) continue;
        offset = BigInt(message.offset) + 1n;
        found.push({
          partition: end.partition,
          offset: Number(message.offset),
          timestamp: Number(message.timestamp),
          key: text(message.key),
          value: text(message.value),
          headers: Object.entries(message.headers || {}).map(([name, value]) => [
            name,
            text(value),
          ]),
        });
      }
    }
  }
  await cluster.disconnect();
  return { records: found, ends, byTime, described };
}

async function main() {
  const request = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const kafka = new Kafka({ clientId: "judge", brokers: [address], logLevel: logLevel.ERROR });
  const answer = action === "send" ? await send(kafka, request) : await read(kafka, request);
  process.stdout.write(JSON.stringify(answer));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
