import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { registerCodecs } from './codecs.js';

const { CompressionTypes, Kafka, Partitioners, logLevel } = kafkajs;
const LIMIT_MS = 60_000;
const bootstrap = process.env.MAINSTEM_BOOTSTRAP;
assert.ok(bootstrap, 'MAINSTEM_BOOTSTRAP is not set; run `cargo xtask test clients`');

const kafka = new Kafka({ clientId: 'tests', brokers: [bootstrap], logLevel: logLevel.NOTHING });
const admin = kafka.admin();
const freshName = (kind) => `${kind}-${randomUUID()}`;

before(async () => {
  await registerCodecs();
  await admin.connect();
});

after(() => admin.disconnect());

async function waitUntil(what, condition) {
  for (const end = Date.now() + LIMIT_MS; !(await condition()); await sleep(50)) {
    assert.ok(Date.now() < end, `within ${LIMIT_MS} ms it did not happen: ${what}`);
  }
}

async function partitionCount(topic) {
  const { topics } = await admin.fetchTopicMetadata();
  const partitions = topics.find((t) => t.name === topic)?.partitions ?? [];
  return partitions.filter((p) => p.leader >= 0).length;
}

async function newTopic(kind, numPartitions = 1) {
  const topic = freshName(kind);
  await admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1 }] });
  await waitUntil('the topic is there', async () => (await partitionCount(topic)) === numPartitions);
  return topic;
}

const numbered = (from, count) =>
  Array.from({ length: count }, (_, i) => ({ key: `k${from + i}`, value: `v${from + i}` }));

async function produce(topic, messages, { compression = CompressionTypes.None, ...settings } = {}) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...settings });
  await producer.connect();
  try {
    const [{ errorCode, baseOffset }] = await producer.send({ topic, compression, acks: -1, messages: messages.map((m) => ({ partition: 0, ...m })) });
    assert.equal(errorCode, 0);
    return Number(baseOffset);
  } finally {
    await producer.disconnect();
  }
}

// A group member that keeps what it reads and what it was assigned.
class Member {
  constructor(group, topic) {
    this.topic = topic;
    this.received = [];
    this.assigned = [];
    this.consumer = kafka.consumer({ groupId: group, sessionTimeout: 30_000, heartbeatInterval: 300, maxWaitTimeInMs: 300 });
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.assigned = [...(payload.memberAssignment[topic] ?? [])].sort();
    });
  }

  async start() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ message }) => void this.received.push(message),
    });
    return this;
  }

  async read(count) {
    await waitUntil(`${count} messages arrive`, () => this.received.length >= count);
    return this.received;
  }

  stop() {
    return this.consumer.disconnect();
  }
}

const text = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString());

function content({ key, value, headers }) {
  const named = Object.entries(headers ?? {}).map(([name, values]) => [name, [values].flat().map(text)]);
  return { key: text(key), value: text(value), headers: Object.fromEntries(named) };
}

for (const codec of ['None', 'GZIP', 'Snappy', 'LZ4', 'ZSTD']) {
  test(`messages of every shape survive ${codec}`, async () => {
    const topic = await newTopic('codec');
    const sent = [
      { key: 'key', value: 'value', headers: { first: ['1', 'again'], empty: '' } },
      { key: null, value: 'no key' },
      { key: 'no value', value: null },
      { key: null, value: null, headers: { only: 'header' } },
      { key: '', value: '' },
      { key: 'schlüssel', value: 'wert → 値', headers: { größe: 'ü' } },
      { key: 'long', value: 'compressible '.repeat(2000) },
    ];
    assert.equal(await produce(topic, sent, { compression: CompressionTypes[codec] }), 0);
    const member = await new Member(freshName('group'), topic).start();
    const received = await member.read(sent.length);
    await member.stop();
    assert.deepEqual(received.map((m) => m.offset), sent.map((_, i) => String(i)));
    assert.deepEqual(received.map(content), sent.map(content));
  });
}

test('a message of one megabyte', async () => {
  const topic = await newTopic('big');
  const big = Buffer.from(Uint8Array.from({ length: 1_000_000 }, (_, i) => (i * 7) % 251));
  await produce(topic, [{ key: 'big', value: big }, { key: 'after', value: 'small' }]);
  const member = await new Member(freshName('group'), topic).start();
  const received = await member.read(2);
  await member.stop();
  assert.ok(big.equals(received[0].value));
  assert.equal(text(received[1].value), 'small');
});

test('seek back and forth', async () => {
  const topic = await newTopic('seek');
  await produce(topic, numbered(0, 100));
  const member = await new Member(freshName('group'), topic).start();
  await member.read(100);
  for (const target of [37, 99, 0]) {
    member.received.length = 0;
    member.consumer.seek({ topic, partition: 0, offset: String(target) });
    await waitUntil(`message ${target} arrives again`, () => member.received.some((m) => text(m.value) === `v${target}`));
  }
  await member.stop();
  const [range] = await admin.fetchTopicOffsets(topic);
  assert.deepEqual([range.low, range.high], ['0', '100']);
});

test('offsets for times', async () => {
  const topic = await newTopic('times');
  const base = Date.now() - 3_600_000; // too young for retention
  await produce(topic, numbered(0, 10).map((m, i) => ({ ...m, timestamp: String(base + 1000 * i) })));
  const offsetAt = async (time) => Number((await admin.fetchTopicOffsetsByTimestamp(topic, time))[0].offset);
  assert.equal(await offsetAt(base), 0);
  assert.equal(await offsetAt(base + 4000), 4);
  assert.equal(await offsetAt(base + 4001), 5);
  assert.equal(await offsetAt(base + 9001), 10, 'kafkajs gives the end where there is none');
});

test('two members share the partitions and one takes over', async () => {
  const [topic, group] = [await newTopic('shared', 4), freshName('group')];
  const first = await new Member(group, topic).start();
  await waitUntil('the first member owns all partitions', () => first.assigned.length === 4);
  const second = await new Member(group, topic).start();
  await waitUntil('two members own two partitions each', () => {
    const all = [...first.assigned, ...second.assigned].sort();
    return first.assigned.length === 2 && all.join() === '0,1,2,3';
  });
  await first.stop();
  await waitUntil('the second member takes over', () => second.assigned.length === 4);
  await second.stop();
});

test('a group resumes where it committed', async () => {
  const [topic, group] = [await newTopic('resume'), freshName('group')];
  await produce(topic, numbered(0, 20));
  const member = await new Member(group, topic).start();
  await member.read(20);
  await member.consumer.commitOffsets([{ topic, partition: 0, offset: '7' }]);
  await member.stop();
  const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  assert.equal(partitions[0].offset, '7');
  await produce(topic, numbered(20, 5));
  const resumed = await new Member(group, topic).start();
  const received = await resumed.read(18);
  await resumed.stop();
  assert.deepEqual(received.map((m) => text(m.value)), Array.from({ length: 18 }, (_, i) => `v${7 + i}`));
});

test('groups are listed and described', async () => {
  const [topic, group] = [await newTopic('described'), freshName('group')];
  const member = await new Member(group, topic).start();
  await waitUntil('the member owns the partition', () => member.assigned.length === 1);
  const { groups } = await admin.listGroups();
  assert.ok(groups.some((g) => g.groupId === group && g.protocolType === 'consumer'));
  const described = await admin.describeGroups([group]);
  assert.equal(described.groups[0].state, 'Stable');
  assert.equal(described.groups[0].members.length, 1);
  await member.stop();
});

test('topics are created, described, grown and deleted', async () => {
  const topic = freshName('admin');
  const configEntries = [{ name: 'retention.ms', value: '3600000' }];
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries }] }), true);
  await waitUntil('the topic is there', async () => (await partitionCount(topic)) === 2);
  assert.ok((await admin.listTopics()).includes(topic));
  const { resources } = await admin.describeConfigs({ includeSynonyms: true, resources: [{ type: 2, name: topic }] });
  const configs = Object.fromEntries(resources[0].configEntries.map((e) => [e.configName, e.configValue]));
  assert.equal(configs['retention.ms'], '3600000');
  assert.equal(configs['cleanup.policy'], 'delete');
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
  await waitUntil('the topic has grown', async () => (await partitionCount(topic)) === 5);
  await admin.deleteTopics({ topics: [topic] });
  await waitUntil('the topic has gone', async () => !(await admin.listTopics()).includes(topic));
});

test('the configs of a topic are replaced as a whole', async () => {
  const topic = freshName('configs');
  const configEntries = [{ name: 'segment.bytes', value: '20971520' }];
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries }] });
  await waitUntil('the topic is there', async () => (await partitionCount(topic)) === 1);
  const configs = async () => {
    const { resources } = await admin.describeConfigs({ resources: [{ type: 2, name: topic }] });
    return Object.fromEntries(resources[0].configEntries.map((e) => [e.configName, e.configValue]));
  };
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] });
  await waitUntil('the config is set', async () => (await configs())['retention.ms'] === '3600000');
  assert.equal((await configs())['segment.bytes'], '1073741824');
});

test('records, groups and offsets are deleted', async () => {
  const [topic, group] = [await newTopic('deleted'), freshName('group')];
  await produce(topic, numbered(0, 10));
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] });
  const [range] = await admin.fetchTopicOffsets(topic);
  assert.deepEqual([range.low, range.high], ['4', '10']);
  await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '7' }] });
  await admin.deleteGroups([group]);
  const { groups } = await admin.listGroups();
  assert.ok(!groups.some((g) => g.groupId === group));
});

test('an idempotent producer keeps order', async () => {
  const topic = await newTopic('idempotent');
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  for (let from = 0; from < 3000; from += 100) {
    const messages = numbered(from, 100).map((m) => ({ ...m, partition: 0 }));
    const [{ baseOffset }] = await producer.send({ topic, acks: -1, messages });
    assert.equal(Number(baseOffset), from);
  }
  await producer.disconnect();
  const member = await new Member(freshName('group'), topic).start();
  const received = await member.read(3000);
  await member.stop();
  assert.deepEqual(received.map((m) => text(m.value)), numbered(0, 3000).map((m) => m.value));
});
