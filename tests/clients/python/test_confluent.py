"""The contract with confluent-kafka (librdkafka)."""

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType,
)
from contract import Contract, IncrementalConfigs, StaticMembers
from messages import Received
from waiting import LIMIT_SECONDS, wait_until


def received(message):
    headers = tuple((name, value) for name, value in message.headers() or [])
    return Received(message.offset(), message.key(), message.value(), headers, message.timestamp()[1])


def poll_until(consumer, count, found=None):
    """Polls until `count` messages have come."""
    found = [] if found is None else found

    def enough():
        message = consumer.poll(0.5)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            found.append(received(message))
        return len(found) >= count

    wait_until(enough, f"{count} messages arrive", pause_seconds=0)
    return found


class Reader:
    def __init__(self, bootstrap, topic):
        self.at = TopicPartition(topic, 0, 0)
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"reader-{topic}", "enable.auto.commit": False})
        self.consumer.assign([self.at])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.consumer.close()

    def read(self, count):
        return poll_until(self.consumer, count)

    def seek(self, offset):
        self.consumer.seek(TopicPartition(self.at.topic, 0, offset))

    def range(self):
        return self.consumer.get_watermark_offsets(self.at, timeout=LIMIT_SECONDS)

    def offset_at(self, timestamp_ms):
        asked = TopicPartition(self.at.topic, 0, timestamp_ms)
        offset = self.consumer.offsets_for_times([asked], timeout=LIMIT_SECONDS)[0].offset
        return None if offset == OFFSET_END else offset


class Member:
    def __init__(self, bootstrap, group, topic, instance):
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
                    "auto.offset.reset": "earliest", "session.timeout.ms": 30000, "heartbeat.interval.ms": 500}
        if instance:
            settings["group.instance.id"] = instance
        self.topic, self.count, self.early = topic, 0, []
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic], on_assign=self.on_assign)

    def on_assign(self, *_):
        self.count += 1

    def assigned(self):
        message = self.consumer.poll(0.1)
        if message is not None and not message.error():
            self.early.append(received(message))
        return {p.partition for p in self.consumer.assignment()}

    def rebalances(self):
        return self.count

    def read(self, count):
        return poll_until(self.consumer, count, self.early)

    def commit(self, offset):
        self.consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)

    def committed(self):
        return self.consumer.committed([TopicPartition(self.topic, 0)], timeout=LIMIT_SECONDS)[0].offset

    def close(self):
        self.consumer.close()


class Driver:
    sends_both_null = True

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, name, partitions, configs):
        self.admin.create_topics([NewTopic(name, partitions, 1, config=configs)])[name].result(LIMIT_SECONDS)

    def new_topic(self, name, partitions=1):
        self.create_topic(name, partitions, {})
        wait_until(lambda: self.partition_count(name) == partitions, "the topic is there")
        return name

    def topic_names(self):
        return set(self.admin.list_topics(timeout=LIMIT_SECONDS).topics)

    def partition_count(self, name):
        topic = self.admin.list_topics(timeout=LIMIT_SECONDS).topics.get(name)
        return len([p for p in topic.partitions.values() if p.leader >= 0]) if topic else 0

    def topic_configs(self, name):
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self.admin.describe_configs([resource])[resource].result(LIMIT_SECONDS)
        return {entry.name: entry.value for entry in entries.values()}

    def alter(self, name, entry):
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(LIMIT_SECONDS)

    def set_config(self, name, key, value):
        self.alter(name, ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))

    def unset_config(self, name, key):
        self.alter(name, ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE))

    def add_partitions(self, name, total):
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(LIMIT_SECONDS)

    def delete_topic(self, name):
        self.admin.delete_topics([name])[name].result(LIMIT_SECONDS)

    def produce(self, topic, messages, codec="none", idempotent=False):
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 20,
                             "enable.idempotence": idempotent, "message.max.bytes": 1_048_588})
        offsets, errors = [], []

        def report(error, message):
            errors.append(error) if error else offsets.append(message.offset())

        for m in messages:
            producer.produce(topic, m.value, m.key, partition=0, on_delivery=report, timestamp=m.timestamp_ms or 0,
                             headers=list(m.headers))
        assert producer.flush(LIMIT_SECONDS) == 0
        assert errors == []
        return offsets

    def reader(self, topic):
        return Reader(self.bootstrap, topic)

    def member(self, group, topic, instance=None):
        return Member(self.bootstrap, group, topic, instance)


@pytest.fixture
def driver(bootstrap):
    return Driver(bootstrap)


class TestConfluent(Contract, StaticMembers, IncrementalConfigs):
    def test_a_topic_that_is_not_there_is_said_to_be_unknown(self, driver, fresh_name):
        with pytest.raises(KafkaException) as caught:
            driver.delete_topic(fresh_name("absent"))
        assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_groups_are_listed_and_described(self, driver, fresh_name):
        topic, group = driver.new_topic(fresh_name("described"), partitions=2), fresh_name("group")
        member = driver.member(group, topic)
        wait_until(lambda: member.assigned() == {0, 1}, "the member owns both partitions")
        listed = driver.admin.list_consumer_groups().result(LIMIT_SECONDS).valid
        assert group in {g.group_id for g in listed}
        described = driver.admin.describe_consumer_groups([group])[group].result(LIMIT_SECONDS)
        assert described.state.name == "STABLE"
        assert {p.partition for p in described.members[0].assignment.topic_partitions} == {0, 1}
        member.close()
