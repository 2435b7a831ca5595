"""The metadata log itself: formatted by either side, with voters in properties or in the log, through snapshots of either side."""

import subprocess

import pytest
from content import Content
from kafka.admin import (
    ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, ConfigResource, ConfigResourceType, KafkaAdminClient,
    ResourcePattern, ResourcePatternFilter, ResourceType, ScramMechanism, UserScramCredentialUpsertion)
from peers import KAFKA_SH
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


def test_snapshots_of_either_side_are_all_that_the_other_needs(make_folder):
    """With the voters in the log; the next test has them in properties."""
    folder = make_folder(kafka_settings=KAFKA_SNAPSHOTS, mainstem_settings=MAINSTEM_SNAPSHOTS, format_arguments="--standalone")
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


@pytest.mark.parametrize("arguments", ["--standalone", "--release-version 3.9"])
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


def describe_everything(folder):
    """What a Kafka tells of the metadata that Mainstem has no use for yet."""
    admin = KafkaAdminClient(bootstrap_servers=folder.bootstrap)
    resources = [ConfigResource(kind, name) for kind, name in (
        (ConfigResourceType.BROKER, "1"), (ConfigResourceType.GROUP, "group"), (ConfigResourceType.CLIENT_METRICS, "metrics"))]
    rule = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY))
    told = {"users": str(admin.describe_user_scram_credentials()), "rules": sorted(map(str, admin.describe_acls(rule)[0])),
            "settings": str(admin.describe_configs(resources))}
    admin.close()
    told["quotas"] = configs(folder, "--describe", "--entity-type", "users")
    return told


def configs(folder, *arguments):
    tool = [str(KAFKA_SH), "configs", "--bootstrap-server", folder.bootstrap, *arguments]
    return subprocess.run(tool, check=True, capture_output=True, text=True, timeout=60).stdout


def set_everything(folder):
    admin = KafkaAdminClient(bootstrap_servers=folder.bootstrap)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "secret")])
    admin.create_acls([ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, "one"))])
    admin.alter_configs([
        ConfigResource(ConfigResourceType.BROKER, "1", {"log.cleaner.threads": "2", "max.connections": "5000", "listener.name.plaintext.max.connections": "4000"}),
        ConfigResource(ConfigResourceType.GROUP, "group", {"consumer.session.timeout.ms": "50000"}),
        ConfigResource(ConfigResourceType.CLIENT_METRICS, "metrics", {"interval.ms": "60000"})], raise_on_unknown=False)
    admin.close()
    configs(folder, "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config", "producer_byte_rate=100000")


def test_what_only_a_kafka_uses_yet_is_kept(make_folder):
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    folder = make_folder(kafka_settings={**authorizer, **KAFKA_SNAPSHOTS}, mainstem_settings=MAINSTEM_SNAPSHOTS)
    content = Content(folder)
    folder.start(folder.kafka)
    use(content, "one")
    set_everything(folder)
    before = describe_everything(folder)
    for expected, where in (("alice", "users"), ("alice", "rules"), ("log.cleaner.threads", "settings"), ("interval.ms", "settings"),
                            ("consumer.session.timeout.ms", "settings"), ("listener.name.plaintext.max.connections", "settings"),
                            ("producer_byte_rate=100000", "quotas")):
        assert expected in str(before[where]), where
    folder.stop()
    folder.start(folder.mainstem)
    wait_until(lambda: "ready" in folder.log(), "the start has said everything")
    assert any(line.startswith("WARNING: 1 access rules (ACLs) and 1 client quotas") for line in folder.log())
    use(content, "two")
    content.set_config("two", mainstem_durability="disk")
    use(content, "three")
    folder.stop()
    assert log_start(folder) > 0
    folder.start(folder.kafka)
    assert describe_everything(folder) == before
    # A Kafka does not show settings that it does not know, and leaves them out of its snapshots.
    del content.topics["two"].configs["mainstem.durability"]
    use(content, "four")
    content.set_config("two", retention_bytes=60_000_000)
    content.check()
    folder.stop()
    folder.start(folder.mainstem)
    content.check()
    folder.stop()


def refusal(folder):
    """Mainstem does not start; what it says last, and the folder is as it was."""
    marks = [name for name in folder.names() if name != ".lock"]
    broker = folder.mainstem.spawn()
    code = broker.process.wait(60)
    broker.process = None
    assert code == 1, broker.log_end()
    left = [name for name in folder.names() if name != ".lock"]
    assert left == marks and "abort" not in left and ".kafka_cleanshutdown" in left
    return broker.log_end(1)


def test_a_folder_that_is_not_the_whole_of_a_node_is_refused_and_left_alone(make_folder, tmp_path):
    folder = make_folder(kafka_settings={"log.dirs": f"{tmp_path}/data,{tmp_path}/second"})
    content = Content(folder)
    folder.start(folder.kafka)
    content.create_topic("one", 4)
    content.write_committed("one", 40)
    folder.stop()
    assert "keeps partitions in other folders" in refusal(folder)
    folder.start(folder.kafka)
    content.check()
    folder.stop()

    state = folder.path / "__cluster_metadata-0/quorum-state"
    alone = state.read_text()
    state.write_text(alone.replace('{"voterId":1}', '{"voterId":1},{"voterId":2}'))
    assert "is not the only voter" in refusal(folder)
    state.write_text(alone)
    (folder.path / "__cluster_metadata-0").rename(tmp_path / "away")
    assert "no metadata log" in refusal(folder)
