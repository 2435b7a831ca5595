"""Kafka's own command line tools, as ../../peers/kafka.sh runs them."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from waiting import wait_until

KAFKA_SH = Path(__file__).resolve().parents[2] / "peers" / "kafka.sh"
LIMIT_SECONDS = 120


@pytest.fixture
def tool(bootstrap):
    """Runs a tool against the broker; returns what it printed."""

    def run(name, *arguments, stdin=""):
        broker = ["--bootstrap-server", bootstrap]
        # This one wants it before its subcommand, others behind theirs.
        command = [KAFKA_SH, name, *broker, *arguments] if name == "metadata-quorum" else [KAFKA_SH, name, *arguments, *broker]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def new_topic(tool, fresh_name):
    def create(kind, partitions=1):
        name = fresh_name(kind)
        tool("topics", "--create", "--topic", name, "--partitions", str(partitions), "--replication-factor", "1")
        return name

    return create


def produce(tool, topic, lines, *arguments):
    tool("console-producer", "--topic", topic, *arguments, stdin="".join(f"{line}\n" for line in lines))


def end_offsets(tool, topic, *arguments):
    lines = tool("get-offsets", "--topic", topic, *arguments).split()
    return {int(partition): int(offset) for _, partition, offset in (line.rsplit(":", 2) for line in lines)}


def test_topics(tool, fresh_name):
    topic = fresh_name("topics")
    tool("topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=3600000")
    assert topic in tool("topics", "--list").split()
    described = tool("topics", "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=3600000", described), described
    assert len(re.findall(r"Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3
    tool("topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool("topics", "--describe", "--topic", topic)
    tool("topics", "--delete", "--topic", topic)
    wait_until(lambda: topic not in tool("topics", "--list").split(), "the topic has gone", pause_seconds=1)


def test_configs_of_topics(tool, new_topic):
    topic = new_topic("configs")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool("configs", *entity, "--alter", "--add-config", "segment.bytes=20971520,cleanup.policy=[delete]")
    described = tool("configs", *entity, "--describe")
    assert "segment.bytes=20971520" in described
    tool("configs", *entity, "--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes=20971520" not in tool("configs", *entity, "--describe")
    every = tool("configs", *entity, "--describe", "--all")
    assert "min.insync.replicas=1" in every and "retention.ms=604800000" in every


def test_console_producer_and_consumer(tool, new_topic):
    topic = new_topic("console")
    lines = ["h1:a,h2:b\tk1\tv1", "h3:\tk2\tv2", "h4:c\tk3\tschlüssel 値"]
    produce(tool, topic, lines, "--command-property", "enable.idempotence=true", "--compression-codec", "gzip",
            "--reader-property", "parse.headers=true", "--reader-property", "parse.key=true")
    printed = tool("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3",
                   "--formatter-property", "print.headers=true", "--formatter-property", "print.key=true")
    assert printed.splitlines() == lines


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_console_producer_with_each_codec(tool, new_topic, codec):
    topic = new_topic("codec")
    lines = [f"line {i}" for i in range(200)]
    produce(tool, topic, lines, "--compression-codec", codec)
    printed = tool("console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "200")
    assert printed.splitlines() == lines


def test_consumer_groups(tool, new_topic, fresh_name):
    topic, group = new_topic("groups"), fresh_name("group")
    produce(tool, topic, [f"v{i}" for i in range(10)])
    tool("console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "10",
         "--command-property", "auto.commit.interval.ms=100")
    assert group in tool("consumer-groups", "--list").split()
    described = tool("consumer-groups", "--describe", "--group", group)
    row = next(line.split() for line in described.splitlines() if line.startswith(group))
    assert row[:6] == [group, topic, "0", "10", "10", "0"], described
    assert "Empty" in tool("consumer-groups", "--describe", "--group", group, "--state")
    tool("consumer-groups", "--group", group, "--reset-offsets", "--topic", topic, "--to-offset", "4", "--execute")
    printed = tool("console-consumer", "--topic", topic, "--group", group, "--max-messages", "6")
    assert printed.split() == [f"v{i}" for i in range(4, 10)]


def test_get_offsets(tool, new_topic):
    topic = new_topic("offsets", partitions=2)
    produce(tool, topic, [f"v{i}" for i in range(100)])
    latest = end_offsets(tool, topic)
    assert sum(latest.values()) == 100 and set(latest) == {0, 1}
    assert end_offsets(tool, topic, "--time", "earliest") == {0: 0, 1: 0}
    newest = end_offsets(tool, topic, "--time", "max-timestamp")
    assert all(newest[partition] < latest[partition] for partition in latest if latest[partition])


def test_producer_perf_and_consumer_perf(tool, new_topic):
    topic = new_topic("perf")
    printed = tool("producer-perf", "--topic", topic, "--num-records", "20000", "--record-size", "500", "--throughput", "-1")
    assert "20000 records sent" in printed.splitlines()[-1]
    assert end_offsets(tool, topic) == {0: 20000}
    printed = tool("consumer-perf", "--topic", topic, "--num-records", "20000")
    names, figures = ([cell.strip() for cell in line.split(",")] for line in printed.splitlines()[-2:])
    assert int(dict(zip(names, figures))["data.consumed.in.nMsg"]) == 20000


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_verifiable_producer_and_consumer(tool, new_topic, fresh_name):
    topic, group = new_topic("verifiable"), fresh_name("group")
    sent = events(tool("verifiable-producer", "--topic", topic, "--max-messages", "500", "--acks", "-1"))
    assert sorted(e["offset"] for e in sent if e["name"] == "producer_send_success") == list(range(500))
    assert [e["acked"] for e in sent if e["name"] == "tool_data"] == [500]
    read = events(tool("verifiable-consumer", "--topic", topic, "--group-id", group, "--max-messages", "500",
                       "--reset-policy", "earliest"))
    assert sum(e["count"] for e in read if e["name"] == "records_consumed") == 500
    assert any(e["name"] == "offsets_committed" and e["success"] for e in read)


def test_broker_api_versions(tool):
    printed = tool("broker-api-versions")
    for api in ("Produce(0)", "Fetch(1)", "Metadata(3)", "ApiVersions(18)", "DescribeTopicPartitions(75)"):
        assert re.search(rf"{re.escape(api)}: .*usable: \d+", printed), printed


def test_cluster(tool):
    assert re.fullmatch(r"Cluster ID: \S{22}", tool("cluster", "cluster-id").strip())


def committed(tool, group, topic):
    described = tool("consumer-groups", "--describe", "--group", group, "--offsets")
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    return {int(row[2]): row[3] for row in rows if row[1] == topic}


def test_offsets_of_groups_are_reset_and_deleted_and_groups_too(tool, new_topic, fresh_name):
    topic, other, group = new_topic("reset"), new_topic("other"), fresh_name("group")
    for name in (topic, other):
        produce(tool, name, [f"v{i}" for i in range(10)])
        arguments = ("--group", group, "--reset-offsets", "--topic", name)
        tool("consumer-groups", *arguments, "--to-latest", "--execute")
        assert committed(tool, group, name) == {0: "10"}
    arguments = ("--group", group, "--reset-offsets", "--topic", topic)
    for how, expected in [(("--shift-by", "-3"), "7"), (("--to-earliest",), "0"), (("--to-offset", "5"), "5"),
                          (("--to-datetime", "2020-01-01T00:00:00.000"), "0"), (("--by-duration", "P1D"), "0"),
                          (("--to-current",), "0")]:
        planned = tool("consumer-groups", *arguments, *how, "--dry-run")
        assert re.search(rf"{group}\s+{topic}\s+0\s+{expected}\b", planned), (how, planned)
        tool("consumer-groups", *arguments, *how, "--execute")
        assert committed(tool, group, topic) == {0: expected}, how
    tool("consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
    assert committed(tool, group, topic) == {} and committed(tool, group, other) == {0: "10"}
    deleted = tool("consumer-groups", "--delete", "--group", group)
    assert "was successful" in deleted and group in deleted, deleted
    assert group not in tool("consumer-groups", "--list").split()


def test_delete_records(tool, new_topic, tmp_path):
    topic = new_topic("delete-records", partitions=2)
    produce(tool, topic, [f"v{i}" for i in range(50)])
    latest = end_offsets(tool, topic)
    wanted = [{"topic": topic, "partition": partition, "offset": -1} for partition in (0, 1)]
    (tmp_path / "wanted.json").write_text(json.dumps({"partitions": wanted, "version": 1}))
    printed = tool("delete-records", "--offset-json-file", str(tmp_path / "wanted.json"))
    for partition in (0, 1):
        assert f"partition: {topic}-{partition}\tlow_watermark: {latest[partition]}" in printed, printed
    assert end_offsets(tool, topic, "--time", "earliest") == latest


def test_log_dirs(tool, new_topic):
    topic = new_topic("log-dirs", partitions=2)
    produce(tool, topic, ["x" * 1000 for _ in range(10)])
    printed = tool("log-dirs", "--describe", "--topic-list", topic)
    described = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    broker = described["brokers"][0]
    folder = broker["logDirs"][0]
    assert broker["broker"] == 1 and folder["error"] is None
    sizes = {partition["partition"]: partition["size"] for partition in folder["partitions"]}
    assert set(sizes) == {f"{topic}-0", f"{topic}-1"} and sum(sizes.values()) > 10_000, described
    assert all(partition["offsetLag"] == 0 and not partition["isFuture"] for partition in folder["partitions"])


def test_leader_election(tool, new_topic):
    topic = new_topic("elect")
    for kind in ("preferred", "unclean"):
        printed = tool("leader-election", "--election-type", kind, "--topic", topic, "--partition", "0")
        assert "Valid replica already elected" in printed and f"{topic}-0" in printed, printed
    tool("leader-election", "--election-type", "preferred", "--all-topic-partitions")


def test_reassignments(tool, new_topic, tmp_path):
    topic = new_topic("reassign", partitions=2)
    assert "No partition reassignments found" in tool("reassign", "--list")
    stay = [{"topic": topic, "partition": partition, "replicas": [1]} for partition in (0, 1)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": stay}))
    assert "Successfully started partition reassignments" in tool("reassign", "--execute", "--reassignment-json-file", str(plan))
    verified = tool("reassign", "--verify", "--reassignment-json-file", str(plan))
    assert verified.count("is completed") == 2, verified


def test_metadata_quorum(tool):
    status = tool("metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status) and re.search(r"MaxFollowerLag:\s+0\n", status), status
    rows = [line.split() for line in tool("metadata-quorum", "describe", "--replication").splitlines()]
    assert [row[0] for row in rows[1:]] == ["1"] and rows[1][-1] == "Leader", rows
