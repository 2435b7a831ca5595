"""Partitions that were never written have no folder in Mainstem. A Kafka makes the folders; the offsets are 0 in both, also after kills."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from content import LIMIT_SECONDS, Content

PARTITIONS = 4


@pytest.fixture
def content(folder):
    return Content(folder)


def offsets(content, name):
    """By partition: the log start offset, the log end offset, and what a look-up by time finds."""
    found = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.for_timestamp(0)):
        asked = {TopicPartition(name, partition): spec for partition in range(content.topics[name].partitions)}
        answers = content.admin.list_offsets(asked)
        found.append({place.partition: answer.result(LIMIT_SECONDS).offset for place, answer in answers.items()})
    return [tuple(offsets[partition] for offsets in found) for partition in range(content.topics[name].partitions)]


def check(folder, content):
    """The content, the offsets of each partition, and folders that are those of topics that exist."""
    content.check()
    for name, topic in content.topics.items():
        ends = [len(topic.records[partition]) for partition in range(topic.partitions)]
        assert offsets(content, name) == [(0, end, 0 if end else -1) for end in ends], name
    for name in folder.names():
        topic, _, partition = name.rpartition("-")
        if not (folder.path / name).is_dir() or topic.startswith("__") or name.endswith("-delete"):
            continue
        assert int(partition) < content.topics[topic].partitions, f"{name} is nobody's"
        # The client shows ids in Base64's own alphabet, a Kafka's files in the one for addresses.
        id = content.topics[topic].id.replace("+", "-").replace("/", "_")
        assert (folder.path / name / "partition.metadata").read_text() == f"version: 0\ntopic_id: {id}", name


def folders(folder, name):
    """The partitions of a topic that have a folder."""
    return {partition for partition in range(2 * PARTITIONS) if (folder.path / f"{name}-{partition}").is_dir()}


def create_and_write_some(folder, content):
    """One topic with no record, one with records in partition 1, one with partitions that are added, and two that go."""
    for name in ("empty", "partly", "grows", "goes", "goes-in-kafka", "made-again"):
        content.create_topic(name, PARTITIONS)
        assert folders(folder, name) == set()
    content.write_committed("partly", 20, partition=1)
    content.write_committed("made-again", 20, partition=2)
    content.add_partitions("grows", 2 * PARTITIONS)
    content.write_committed("grows", 20, "lz4", partition=2 * PARTITIONS - 1)
    content.delete_topic("goes")
    content.delete_topic("made-again")
    # Its name had a folder; the new topic has none.
    content.create_topic("made-again", PARTITIONS)
    assert {name: folders(folder, name) for name in content.topics} == {
        "empty": set(), "partly": {1}, "grows": {2 * PARTITIONS - 1}, "goes-in-kafka": set(), "made-again": set()}


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_never_written_partitions_go_to_a_kafka_and_come_back(folder, content, ends):
    end = getattr(folder, ends)
    folder.start(folder.mainstem)
    create_and_write_some(folder, content)
    content.consume_in_group("partly", "partly")
    check(folder, content)
    end()

    folder.start(folder.kafka)
    check(folder, content)
    assert folders(folder, "empty") == set(range(PARTITIONS))
    content.write_committed("partly", 30, "zstd", partition=0)
    content.write_committed("partly", 10, partition=1)
    content.write_committed("made-again", 15, partition=3)
    content.delete_topic("goes-in-kafka")
    content.create_topic("empty-of-kafka", PARTITIONS)
    content.consume_in_group("partly", "partly")
    check(folder, content)
    end()

    folder.start(folder.mainstem)
    check(folder, content)
    content.create_topic("empty-again", PARTITIONS)
    content.write_committed("empty", 12, partition=2)
    content.write_committed("empty-of-kafka", 12, "gzip", partition=0)
    content.write_committed("partly", 40)
    content.consume_in_group("partly", "partly")
    # Most of the partitions that this member is assigned have no record.
    content.consume_in_group("empty", "empty")
    content.delete_topic("grows")
    check(folder, content)
    end()
    # A second start after a kill is the one that loses data.
    folder.start(folder.mainstem)
    check(folder, content)
    end()

    folder.start(folder.kafka)
    check(folder, content)
    content.write_committed("empty-again", 8)
    content.consume_in_group("partly", "partly")
    check(folder, content)
    folder.stop()
    folder.start(folder.mainstem)
    check(folder, content)
    folder.stop()
