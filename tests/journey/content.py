"""What a folder must hold, whichever broker serves it: written through one, read back through the other."""

import itertools
import time
from collections import defaultdict
from dataclasses import dataclass, field

from confluent_kafka import (
    Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicCollection, TopicPartition)
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, NewTopic, ResourceType)
from waiting import LIMIT_SECONDS, wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Record:
    """One record as a consumer sees it."""

    offset: int
    key: bytes
    value: bytes
    headers: tuple
    timestamp: tuple

    @staticmethod
    def of(message):
        headers = tuple((name, value) for name, value in message.headers() or ())
        return Record(message.offset(), message.key(), message.value(), headers, message.timestamp())


@dataclass
class Topic:
    id: str
    configs: dict
    partitions: int
    # By partition: everything that was acknowledged, and the part of it that readers of committed records see.
    records: dict = field(default_factory=lambda: defaultdict(list))
    committed: dict = field(default_factory=lambda: defaultdict(list))
    trimmed: bool = False


class Content:
    """Topics, records and group offsets; the clients in it live through the changes of the broker."""

    def __init__(self, folder):
        self.folder = folder
        self.topics, self.groups, self.bytes_before = {}, {}, {}
        self.numbers = itertools.count()
        self.common = {"bootstrap.servers": folder.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 2,
                       "topic.metadata.refresh.interval.ms": 500}
        self.admin = AdminClient(self.common)
        self.producers = {codec: self.producer(**{"compression.type": codec}) for codec in CODECS}

    def producer(self, **settings):
        """An idempotent producer. Its id and its sequence numbers outlive the broker."""
        return Producer({**self.common, "enable.idempotence": True, "linger.ms": 50, "retry.backoff.max.ms": 200, **settings})

    # Topics

    def create_topic(self, name, partitions=1, **configs):
        configs = {key.replace("_", "."): str(value) for key, value in configs.items()}
        future = self.admin.create_topics([NewTopic(name, partitions, 1, config=configs)])[name]
        future.result(LIMIT_SECONDS)
        self.topics[name] = Topic(self.topic_id(name), configs, partitions)

    def topic_id(self, name):
        def found():
            try:
                return str(self.admin.describe_topics(TopicCollection([name]))[name].result(LIMIT_SECONDS).topic_id)
            except KafkaException as error:
                # A Kafka says so for a moment after it has created the topic.
                assert error.args[0].name() == "UNKNOWN_TOPIC_OR_PART", error
        return wait_until(found, f"{name} has an id")

    def delete_topic(self, name):
        self.admin.delete_topics([name])[name].result(LIMIT_SECONDS)
        del self.topics[name]
        # A group's offsets go with the topic.
        for group, offsets in self.groups.items():
            self.groups[group] = {key: offset for key, offset in offsets.items() if key[0] != name}

    def add_partitions(self, name, count):
        self.admin.create_partitions([NewPartitions(name, count)])[name].result(LIMIT_SECONDS)
        self.topics[name].partitions = count

    def set_config(self, name, **changes):
        """Sets topic settings; `None` takes one back."""
        entries = []
        for key, value in changes.items():
            key = key.replace("_", ".")
            operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            entries.append(ConfigEntry(key, None if value is None else str(value), incremental_operation=operation))
            self.topics[name].configs.pop(key, None)
            if value is not None:
                self.topics[name].configs[key] = str(value)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(LIMIT_SECONDS)

    # Records

    def delete_records(self, name, partition, before):
        """Only a Kafka has this request yet."""
        place = TopicPartition(name, partition, before)
        self.admin.delete_records([place])[place].result(LIMIT_SECONDS)
        topic = self.topics[name]
        topic.trimmed = True
        for records in (topic.records, topic.committed):
            records[partition] = [record for record in records[partition] if record.offset >= before]

    def write(self, name, count, codec="none", size=100, producer=None, partition=None, keys=None):
        """Writes records with keys, headers and timestamps, evenly over the partitions, and waits for every acknowledgement."""
        topic, sent = self.topics[name], []
        producer = producer or self.producers[codec]
        for i in range(count):
            number = next(self.numbers)
            key = keys[i % len(keys)] if keys else b"key %d" % number
            value = None if i % 50 == 49 else (b"value %d " % number).ljust(size, b"%d" % (number % 10))
            to = i % topic.partitions if partition is None else partition
            headers = [("number", b"%d" % number), ("empty", b""), ("null", None)]

            def note(error, message, to=to, key=key, value=value, headers=tuple(headers)):
                assert error is None, error
                sent.append((to, Record(message.offset(), key, value, headers, message.timestamp())))

            def take(arguments=(name, value, key, to, note), timestamp=int(time.time() * 1000), headers=headers):
                *arguments, on_delivery = arguments
                try:
                    producer.produce(*arguments, on_delivery=on_delivery, timestamp=timestamp, headers=headers)
                    return True
                except (BufferError, KafkaException) as error:
                    # A producer from before may have heard of a new partition not yet.
                    assert isinstance(error, BufferError) or error.args[0].name() == "_UNKNOWN_PARTITION", error
                    producer.poll(0)
            wait_until(take, f"the producer takes a record for {name}-{to}")
        assert producer.flush(2 * LIMIT_SECONDS) == 0
        assert len(sent) == count
        for to, record in sent:
            topic.records[to].append(record)
        return sent

    def write_committed(self, name, count, codec="none", **more):
        for to, record in self.write(name, count, codec, **more):
            self.topics[name].committed[to].append(record)

    def read(self, places, isolation="read_uncommitted"):
        """By partition: all records from the beginning to the end, and the leader epochs in which they were written."""
        consumer = Consumer({**self.common, "group.id": "reader", "enable.auto.commit": False, "isolation.level": isolation,
                             "auto.offset.reset": "earliest", "enable.partition.eof": True, "fetch.wait.max.ms": 20})
        found = {place: ([], []) for place in places}
        left = set(places)
        try:
            consumer.assign([TopicPartition(name, partition, 0) for name, partition in places])
            while left:
                message = consumer.poll(LIMIT_SECONDS)
                assert message is not None, f"nothing from {left}"
                place = (message.topic(), message.partition())
                if message.error():
                    assert message.error().name() == "_PARTITION_EOF", (place, message.error())
                    left.discard(place)
                    continue
                found[place][0].append(Record.of(message))
                found[place][1].append(message.leader_epoch())
        finally:
            consumer.close()
        return found

    def read_one(self, name, partition, isolation="read_uncommitted"):
        return self.read([(name, partition)], isolation)[name, partition][0]

    # Groups

    def consume_in_group(self, group, name, protocol="classic"):
        """A member joins, reads what is there from its committed offset on, and commits."""
        consumer = Consumer({**self.common, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
                             "group.protocol": protocol, "fetch.wait.max.ms": 50})
        known = self.groups.get(group, {})
        try:
            consumer.subscribe([name])
            wanted = {to: [r for r in records if r.offset >= known.get((name, to), 0)]
                      for to, records in self.topics[name].committed.items()}
            count, got = sum(map(len, wanted.values())), defaultdict(list)
            while sum(map(len, got.values())) < count:
                message = consumer.poll(LIMIT_SECONDS)
                assert message is not None and message.error() is None, f"{group} got {message and message.error()} for {name}"
                got[message.partition()].append(Record.of(message))
            assert got == {to: records for to, records in wanted.items() if records}
            offsets = consumer.commit(asynchronous=False) if count else []
        finally:
            consumer.close()
        self.groups.setdefault(group, {}).update({(o.topic, o.partition): o.offset for o in offsets if o.offset >= 0})

    def group_offsets(self, group):
        future = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
        found = future.result(LIMIT_SECONDS).topic_partitions
        return {(o.topic, o.partition): o.offset for o in found}

    # Everything together

    def check(self):
        """All of it is there, and nothing else."""
        if not self.topics:
            return
        self.check_topics()
        self.check_configs()
        self.check_records()
        for group, offsets in self.groups.items():
            found = wait_until(lambda: self.answer(lambda: self.group_offsets(group)), f"the offsets of {group} are known")
            assert {key: found.get(key) for key in offsets} == offsets, f"{group}: {found}"

    @staticmethod
    def answer(ask):
        """The answer, or nothing while the coordinator loads."""
        try:
            return ask()
        except KafkaException as error:
            assert error.args[0].name() in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"), error
            return None

    def check_topics(self):
        def shown():
            topics = self.admin.list_topics(timeout=LIMIT_SECONDS).topics
            names = {name for name in topics if not name.startswith("__")}
            assert names == set(self.topics)
            led = all(p.leader == 1 for topic in topics.values() for p in topic.partitions.values())
            return topics if led else None
        topics = wait_until(shown, "every partition has a leader")
        descriptions = self.admin.describe_topics(TopicCollection(list(self.topics)))
        for name, topic in self.topics.items():
            assert len(topics[name].partitions) == topic.partitions, name
            assert str(descriptions[name].result(LIMIT_SECONDS).topic_id) == topic.id, name

    def check_configs(self):
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in self.topics]
        for resource, future in self.admin.describe_configs(resources).items():
            entries = future.result(LIMIT_SECONDS).values()
            own = {e.name: e.value for e in entries if ConfigSource(e.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG}
            assert own == self.topics[resource.name].configs, resource.name

    def check_records(self):
        places = [(name, partition) for name, topic in self.topics.items() for partition in range(topic.partitions)]
        every, committed = self.read(places), self.read(places, "read_committed")
        for name, partition in places:
            topic, where = self.topics[name], f"{name}-{partition}"
            records, epochs = every[name, partition]
            if topic.configs.get("cleanup.policy") == "compact":
                check_compacted(records, topic.records[partition], where)
                continue
            assert records == topic.records[partition], where
            assert epochs == sorted(epochs), f"{where}: leader epochs go back"
            assert committed[name, partition][0] == topic.committed[partition], where
            self.check_bytes(topic, partition, where)
        self.check_times(places)

    def check_bytes(self, topic, partition, where):
        """What lies in a log is never changed. Where it was trimmed, segments may go."""
        bytes_now = self.folder.segment_bytes(where)
        before = self.bytes_before.get((topic.id, partition), b"")
        assert bytes_now.startswith(before) or topic.trimmed, where
        self.bytes_before[topic.id, partition] = bytes_now

    def check_times(self, places):
        """The first record that is not older than a time is found where the records say it is."""
        wanted = {}
        for name, partition in places:
            records = self.topics[name].records[partition]
            # Between transactions there are marks with times of their own, and compaction takes records away.
            if len(records) > 2 and records == self.topics[name].committed[partition] and "cleanup.policy" not in self.topics[name].configs:
                time_ms = records[len(records) // 2].timestamp[1]
                wanted[name, partition] = time_ms, next(r.offset for r in records if r.timestamp[1] >= time_ms)
        consumer = Consumer({**self.common, "group.id": "reader"})
        try:
            asked = [TopicPartition(*place, time_ms) for place, (time_ms, _) in wanted.items()]
            found = {(o.topic, o.partition): o.offset for o in consumer.offsets_for_times(asked, LIMIT_SECONDS)}
        finally:
            consumer.close()
        assert found == {place: offset for place, (_, offset) in wanted.items()}


def check_compacted(found, written, where):
    """In order, nothing that was not written, and the newest value of each key."""
    by_offset = {record.offset: record for record in written}
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets)) and all(by_offset.get(record.offset) == record for record in found), where

    def newest(records):
        return {key: value for key, value in {r.key: r.value for r in records}.items() if value is not None}
    assert newest(found) == newest(written), where
