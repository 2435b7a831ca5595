"""The contract with kafka-python."""

import pytest
from contract import Contract, IncrementalConfigs, StaticMembers
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.structs import OffsetAndMetadata
from messages import Received
from waiting import LIMIT_SECONDS, wait_until


def received(record):
    return Received(record.offset, record.key, record.value, tuple(record.headers), record.timestamp)


def poll_until(consumer, count, found):
    def enough():
        for records in consumer.poll(timeout_ms=500).values():
            found.extend(received(r) for r in records)
        return len(found) >= count

    wait_until(enough, f"{count} messages arrive", pause_seconds=0)
    return found


class Reader:
    def __init__(self, bootstrap, topic):
        self.at = TopicPartition(topic, 0)
        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        self.consumer.assign([self.at])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.consumer.close()

    def read(self, count):
        return poll_until(self.consumer, count, [])

    def seek(self, offset):
        self.consumer.seek(self.at, offset)

    def range(self):
        return self.consumer.beginning_offsets([self.at])[self.at], self.consumer.end_offsets([self.at])[self.at]

    def offset_at(self, timestamp_ms):
        found = self.consumer.offsets_for_times({self.at: timestamp_ms})[self.at]
        return None if found is None or found.offset < 0 else found.offset


class Member(ConsumerRebalanceListener):
    def __init__(self, bootstrap, group, topic, instance):
        self.at, self.count, self.early = TopicPartition(topic, 0), 0, []
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=30000, heartbeat_interval_ms=500)
        self.consumer.subscribe([topic], listener=self)
        # A member that leads before it knows the topic's partitions assigns none, and rejoins later. The client takes
        # the partitions into account when an answer names them after it subscribed.
        wait_until(lambda: self.consumer.partitions_for_topic(topic), "the client knows the topic")

    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        self.count += 1

    def assigned(self):
        for records in self.consumer.poll(timeout_ms=100).values():
            self.early.extend(received(r) for r in records)
        return {p.partition for p in self.consumer.assignment()}

    def rebalances(self):
        return self.count

    def read(self, count):
        return poll_until(self.consumer, count, self.early)

    def commit(self, offset):
        self.consumer.commit({self.at: OffsetAndMetadata(offset, "", -1)})

    def committed(self):
        return self.consumer.committed(self.at)

    def close(self):
        self.consumer.close()


class Driver:
    sends_both_null = False

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(self, name, partitions, configs):
        self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])

    def new_topic(self, name, partitions=1):
        self.create_topic(name, partitions, {})
        wait_until(lambda: self.partition_count(name) == partitions, "the topic is there")
        return name

    def topic_names(self):
        return set(self.admin.list_topics())

    def partition_count(self, name):
        topics = [t for t in self.admin.describe_topics() if t["name"] == name]
        return len([p for p in topics[0]["partitions"] if p["leader_id"] >= 0]) if topics else 0

    def topic_configs(self, name):
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        answer = self.admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in answer["topic"][name].items()}

    def set_config(self, name, key, value):
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {key: ("SET", value)})])

    def unset_config(self, name, key):
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {key: ("DELETE", None)})])

    def add_partitions(self, name, total):
        self.admin.create_partitions({name: total})

    def delete_topic(self, name):
        self.admin.delete_topics([name])

    def produce(self, topic, messages, codec="none", idempotent=False):
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec, linger_ms=20,
            enable_idempotence=idempotent, max_request_size=1_048_588)
        sent = [producer.send(topic, m.value, m.key, list(m.headers), 0, m.timestamp_ms) for m in messages]
        producer.flush(LIMIT_SECONDS)
        offsets = [future.get(LIMIT_SECONDS).offset for future in sent]
        producer.close()
        return offsets

    def reader(self, topic):
        return Reader(self.bootstrap, topic)

    def member(self, group, topic, instance=None):
        return Member(self.bootstrap, group, topic, instance)

    def close(self):
        self.admin.close()


@pytest.fixture
def driver(bootstrap):
    driver = Driver(bootstrap)
    yield driver
    driver.close()


class TestKafkaPython(Contract, StaticMembers, IncrementalConfigs):
    pass
