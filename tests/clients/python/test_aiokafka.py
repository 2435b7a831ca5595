"""The contract with aiokafka. Its calls run on an event loop in a thread, so that heartbeats go on between them."""

import asyncio
import threading

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from contract import Contract, DeletedRecords, StaticMembers, WholeConfigs
from messages import Received
from waiting import LIMIT_SECONDS, wait_until


def received(record):
    return Received(record.offset, record.key, record.value, tuple(record.headers), record.timestamp)


class Loop:
    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(2 * LIMIT_SECONDS)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(LIMIT_SECONDS)
        self.loop.close()


class Listener(ConsumerRebalanceListener):
    def __init__(self):
        self.count = 0

    async def on_partitions_revoked(self, revoked):
        pass

    async def on_partitions_assigned(self, assigned):
        self.count += 1


class Consumer:
    """A reader of one partition, or (with a group) a member."""

    def __init__(self, run, bootstrap, topic, group=None, instance=None):
        self.run, self.at, self.early = run, TopicPartition(topic, 0), []
        self.starting, self.listener = None, Listener()
        settings = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        if group:
            settings |= {"group_id": group, "group_instance_id": instance,
                         "session_timeout_ms": 30000, "heartbeat_interval_ms": 500}
        self.consumer = run(self.start(settings, topic if group else None))

    async def start(self, settings, topic):
        consumer = AIOKafkaConsumer(**settings)
        if topic:
            consumer.subscribe([topic], listener=self.listener)
            # An aiokafka member waits in start() for its first assignment, which needs the other members to answer.
            self.starting = asyncio.ensure_future(consumer.start())
        else:
            await consumer.start()
            consumer.assign([self.at])
        return consumer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def assigned(self):
        if self.listener.count == 0:
            return set()
        return {p.partition for p in self.consumer.assignment()}

    def rebalances(self):
        return self.listener.count

    async def started(self):
        if self.starting:
            await self.starting

    def read(self, count):
        self.run(self.started())

        def enough():
            for records in self.run(self.consumer.getmany(timeout_ms=500)).values():
                self.early.extend(received(r) for r in records)
            return len(self.early) >= count

        wait_until(enough, f"{count} messages arrive", pause_seconds=0)
        found, self.early = self.early, []
        return found

    def seek(self, offset):
        self.consumer.seek(self.at, offset)

    def range(self):
        first = self.run(self.consumer.beginning_offsets([self.at]))[self.at]
        return first, self.run(self.consumer.end_offsets([self.at]))[self.at]

    def offset_at(self, timestamp_ms):
        found = self.run(self.consumer.offsets_for_times({self.at: timestamp_ms}))[self.at]
        return None if found is None else found.offset

    def commit(self, offset):
        self.run(self.consumer.commit({self.at: offset}))

    def committed(self):
        return self.run(self.consumer.committed(self.at))

    def close(self):
        self.run(self.consumer.stop())


class Driver:
    sends_both_null = False

    def __init__(self, bootstrap):
        self.bootstrap, self.loop = bootstrap, Loop()
        self.run = self.loop.run
        self.admin = self.run(self.start_admin())

    async def start_admin(self):
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def create_topic(self, name, partitions, configs):
        answer = self.run(self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)]))
        assert [error[1] for error in answer.topic_errors] == [0], answer

    def new_topic(self, name, partitions=1):
        self.create_topic(name, partitions, {})
        wait_until(lambda: self.partition_count(name) == partitions, "the topic is there")
        return name

    def topic_names(self):
        return set(self.run(self.admin.list_topics()))

    def partition_count(self, name):
        topics = [t for t in self.run(self.admin.describe_topics()) if t["topic"] == name]
        return len([p for p in topics[0]["partitions"] if p["leader"] >= 0]) if topics else 0

    def topic_configs(self, name):
        answers = self.run(self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
        return {entry[0]: entry[1] for entry in answers[0].resources[0][4]}

    def replace_configs(self, name, configs):
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs)
        for answer in self.run(self.admin.alter_configs([resource])):
            assert [error[0] for error in answer.resources] == [0], answer

    def delete_records(self, name, before):
        partition = TopicPartition(name, 0)
        return self.run(self.admin.delete_records({partition: RecordsToDelete(before_offset=before)}))[partition]

    def add_partitions(self, name, total):
        answer = self.run(self.admin.create_partitions({name: NewPartitions(total)}))
        assert [error[1] for error in answer.topic_errors] == [0], answer

    def delete_topic(self, name):
        answer = self.run(self.admin.delete_topics([name]))
        assert [code for _, code in answer.topic_error_codes] == [0], answer

    def produce(self, topic, messages, codec="none", idempotent=False):
        return self.run(self.send_all(topic, messages, None if codec == "none" else codec, idempotent))

    async def send_all(self, topic, messages, codec, idempotent):
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, compression_type=codec, linger_ms=20,
                                    enable_idempotence=idempotent, max_request_size=1_048_588)
        await producer.start()
        try:
            sent = [await producer.send(topic, m.value, m.key, 0, m.timestamp_ms, list(m.headers)) for m in messages]
            return [(await future).offset for future in sent]
        finally:
            await producer.stop()

    def reader(self, topic):
        return Consumer(self.run, self.bootstrap, topic)

    def member(self, group, topic, instance=None):
        return Consumer(self.run, self.bootstrap, topic, group, instance)

    def close(self):
        self.run(self.admin.close())
        self.loop.stop()


@pytest.fixture
def driver(bootstrap):
    driver = Driver(bootstrap)
    yield driver
    driver.close()


class TestAiokafka(Contract, StaticMembers, WholeConfigs, DeletedRecords):
    pass
