"""Kafka's own command line tools, as ../../peers/kafka.sh runs them: what they do. What they print is compared in test_parity.py."""

import json
import re
import subprocess
from pathlib import Path

import pytest

KAFKA_SH = Path(__file__).resolve().parents[2] / "peers" / "kafka.sh"
LIMIT_SECONDS = 120


@pytest.fixture
def tool(bootstrap):
    """Runs a tool against the broker; returns what it printed."""

    def run(name, *arguments, stdin=""):
        command = [KAFKA_SH, name, *arguments, "--bootstrap-server", bootstrap]
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
