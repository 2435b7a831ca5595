"""The broker process is killed (SIGKILL) under the load of a real client, again right after its restart, and once more.

With MAINSTEM_BINARY it is Mainstem that is killed; with MAINSTEM_PEER=kafka a real Kafka, to check the test itself.
"""

import os
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from load import JavaLoad, LibrdkafkaLoad
from peers import Kafka, Mainstem
from waiting import LIMIT_SECONDS, wait_until

PARTITIONS = 3


@pytest.fixture
def broker(tmp_path):
    data = tmp_path / "data"
    binary = os.environ.get("MAINSTEM_BINARY")
    if os.environ.get("MAINSTEM_PEER") == "kafka":
        broker = Kafka(data)
    elif binary:
        broker = Mainstem(binary, data)
    else:
        pytest.fail("neither MAINSTEM_BINARY nor MAINSTEM_PEER=kafka is set; run `cargo xtask test clients process`")
    with broker:
        yield broker


def create_topic(broker, name, configs=None):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=configs or {})])[name].result(LIMIT_SECONDS)
    return admin


def read_everything(broker, topic):
    """All values of each partition with their offsets, from the start to the end."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    missing = {p.partition: consumer.get_watermark_offsets(p, timeout=LIMIT_SECONDS)[1] for p in places}
    consumer.assign(places)
    found = defaultdict(list)

    def complete():
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None
            found[message.partition()].append((int(message.value()), message.offset()))
        return all(len(found[partition]) >= count for partition, count in missing.items())

    wait_until(complete, f"everything up to {missing} is read", pause_seconds=0)
    consumer.close()
    return found


CASES = [
    pytest.param(LibrdkafkaLoad, {}, id="page-cache"),
    pytest.param(LibrdkafkaLoad, {"flush.messages": "1"}, id="flushed"),
    pytest.param(JavaLoad, {}, id="java-page-cache"),
]
# Kafka has one layout.
if os.environ.get("MAINSTEM_PEER") != "kafka":
    CASES += [
        pytest.param(LibrdkafkaLoad, {"mainstem.layout": "topic", "mainstem.groups": "2"}, id="topic"),
        pytest.param(LibrdkafkaLoad, {"mainstem.layout": "shared"}, id="shared"),
        pytest.param(JavaLoad, {"mainstem.layout": "shared"}, id="java-shared"),
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "configs"), CASES)
def test_every_acknowledged_message_is_read_once_and_in_order(broker, kind, configs):
    topic = "killed"
    create_topic(broker, topic, configs)
    load = kind(broker, topic, PARTITIONS)
    load.wait_for_more()
    broker.kill()
    broker.start()
    broker.kill()
    broker.start()
    load.wait_for_more()
    broker.kill()
    broker.start()
    load.wait_for_more()
    load.finish()
    found = read_everything(broker, topic)
    for partition in range(PARTITIONS):
        numbers = [number for number, _ in found[partition]]
        assert numbers == list(range(partition, load.sent, PARTITIONS))
        acknowledged = [load.acknowledged[number] for number in numbers]
        assert acknowledged == [(partition, offset) for _, offset in found[partition]]


@pytest.mark.timeout(600)
def test_topics_configs_and_committed_offsets_survive(broker):
    admin = create_topic(broker, "kept", {"retention.ms": "3600000"})
    create_topic(broker, "deleted")
    admin.delete_topics(["deleted"])["deleted"].result(LIMIT_SECONDS)
    group = {"bootstrap.servers": broker.bootstrap, "group.id": "survivor", "enable.auto.commit": False}
    place = TopicPartition("kept", 1, 42)
    consumer = Consumer(group)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    for _ in range(2):
        broker.kill()
        broker.start()
        topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=LIMIT_SECONDS).topics
        assert "kept" in topics and "deleted" not in topics
        assert len(topics["kept"].partitions) == PARTITIONS
        consumer = Consumer(group)
        assert consumer.committed([place], timeout=LIMIT_SECONDS)[0].offset == 42
        consumer.close()


def test_an_orderly_stop_ends_with_code_0_and_keeps_everything(broker):
    create_topic(broker, "ordered")
    load = LibrdkafkaLoad(broker, "ordered", PARTITIONS)
    load.wait_for_more()
    load.finish()
    # A JVM that is told to end reports the signal.
    assert broker.stop() in ((0, 143) if isinstance(broker, Kafka) else (0,))
    broker.start()
    found = read_everything(broker, "ordered")
    assert sum(len(values) for values in found.values()) == load.sent
