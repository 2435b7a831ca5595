"""The metadata log itself: formatted by either side, with voters in properties or in the log, through snapshots of either side."""

import time

import pytest
from content import Content
from kafka.admin import (
    ACL, ACLFilter, ACLOperation, ACLPermissionType, ConfigResource, ConfigResourceType, KafkaAdminClient, ResourcePattern,
    ResourcePatternFilter, ResourceType, ScramMechanism, UserScramCredentialUpsertion)
from waiting import wait_until

# A snapshot after every change, and log segments so small that older ones go at once: the other side has nothing but the snapshot.
KAFKA_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 1}
MAINSTEM_SNAPSHOTS = {**KAFKA_SNAPSHOTS, "metadata.log.segment.ms": 1}


def snapshots(folder):
    return {path.name for path in (folder.path / "__cluster_metadata-0").glob("*.checkpoint")}


def log_start(folder):
    return min(int(path.stem) for path in (folder.path / "__cluster_metadata-0").glob("*.log"))


def use(content, name):
    """Something of every kind, so that what was there before is used and something new is left."""
    content.check()
    content.create_topic(name, 2, retention_bytes=50_000_000)
    content.write_committed(name, 60, "zstd")
    content.consume_in_group("group", name)
    content.check()


def test_a_folder_of_mainstem_is_a_folder_of_kafka(folder):
    content = Content(folder)
    for broker, name in ((folder.mainstem, "one"), (folder.kafka, "two"), (folder.mainstem, "three")):
        folder.start(broker)
        use(content, name)
        folder.stop()


@pytest.mark.parametrize("voters", ["in-properties", "in-the-log"])
def test_snapshots_of_either_side_are_all_that_the_other_needs(make_folder, voters):
    arguments = "--standalone" if voters == "in-the-log" else ""
    folder = make_folder(kafka_settings=KAFKA_SNAPSHOTS, mainstem_settings=MAINSTEM_SNAPSHOTS, format_arguments=arguments)
    content = Content(folder)
    folder.start(folder.kafka)
    use(content, "one")
    wait_until(lambda: len(snapshots(folder)) > 1, "a Kafka has written a snapshot")
    folder.stop()
    before = snapshots(folder)
    folder.start(folder.mainstem)
    use(content, "two")
    content.delete_topic("one")
    use(content, "three")
    folder.stop()
    assert not snapshots(folder) & before and log_start(folder) > 0
    folder.start(folder.kafka)
    use(content, "four")
    folder.stop()
    folder.start(folder.mainstem)
    use(content, "five")
    folder.stop()


@pytest.mark.parametrize("arguments", ["", "--standalone", "--release-version 3.9"])
def test_mainstem_starts_on_a_folder_that_was_only_formatted(make_folder, arguments):
    user = " --add-scram SCRAM-SHA-256=[name=alice,password=secret]"
    folder = make_folder(format_arguments=arguments + user)
    content = Content(folder)
    folder.kafka.format()
    folder.start(folder.mainstem)
    use(content, "one")
    folder.stop()
    folder.start(folder.kafka)
    use(content, "two")
    admin = KafkaAdminClient(bootstrap_servers=folder.bootstrap)
    users = admin.describe_user_scram_credentials(["alice"])
    level = admin.describe_features()
    admin.close()
    assert "alice" in str(users) and "4096" in str(users)
    assert ("21" if "3.9" in arguments else "33") in str(level)
    folder.stop()
