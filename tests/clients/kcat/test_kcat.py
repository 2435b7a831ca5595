"""The contract with kcat as Debian ships it (librdkafka 2.0.2): the command as people type it."""

import json
import subprocess
import threading

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import LIMIT_SECONDS, wait_until


@pytest.fixture
def kcat(bootstrap):
    """Runs kcat to its end and returns what it printed, as text."""

    def run(*arguments, stdin=b""):
        done = subprocess.run(["kcat", "-b", bootstrap, *arguments], input=stdin, capture_output=True, timeout=LIMIT_SECONDS)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run


@pytest.fixture
def new_topic(bootstrap, fresh_name):
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def leaders(name):
        topic = admin.list_topics(timeout=LIMIT_SECONDS).topics.get(name)
        return [p for p in topic.partitions.values() if p.leader >= 0] if topic else []

    def create(kind, partitions=1):
        name = fresh_name(kind)
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(LIMIT_SECONDS)
        wait_until(lambda: len(leaders(name)) == partitions, "the topic is there")
        return name

    return create


def read_json(kcat, topic, *arguments):
    lines = kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-J", *arguments).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_survive_every_codec(kcat, new_topic, codec):
    topic = new_topic("codec")
    lines = [f"k{i}:value {i} {'x' * 100}" for i in range(500)]
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, stdin="\n".join(lines).encode())
    received = read_json(kcat, topic, "-o", "beginning")
    assert [f"{m['key']}:{m['payload']}" for m in received] == lines
    assert [m["offset"] for m in received] == list(range(500))


def test_headers_null_keys_and_null_values(kcat, new_topic):
    topic = new_topic("nulls")
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-H", "a=1", "-H", "b=", stdin=b":no key\nno value:\n:\n")
    received = read_json(kcat, topic)
    assert [(m["key"], m["payload"]) for m in received] == [(None, "no key"), ("no value", None), (None, None)]
    assert received[0]["headers"] == ["a", "1", "b", ""]


def test_a_message_of_one_megabyte(kcat, new_topic, tmp_path):
    topic = new_topic("big")
    big = tmp_path / "big"
    big.write_bytes(b"0123456789" * 99_000)
    kcat("-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=1048588", str(big))
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%s").encode() == big.read_bytes()


def test_a_topic_is_created_by_the_first_message(kcat, fresh_name):
    topic = fresh_name("auto")
    kcat("-P", "-t", topic, stdin=b"first\n")
    metadata = json.loads(kcat("-L", "-J", "-t", topic))
    assert [t["topic"] for t in metadata["topics"]] == [topic]
    assert "first" in kcat("-C", "-t", topic, "-e", "-q")


def test_offsets_from_the_end_from_a_number_and_from_a_time(kcat, new_topic):
    topic = new_topic("offsets")
    kcat("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin=b"\n".join(b"v%d" % i for i in range(50)))
    assert [m["offset"] for m in read_json(kcat, topic, "-o", "-3")] == [47, 48, 49]
    assert [m["offset"] for m in read_json(kcat, topic, "-o", "20", "-c", "2")] == [20, 21]
    times = [m["ts"] for m in read_json(kcat, topic)]
    assert times == sorted(times)
    assert [m["ts"] for m in read_json(kcat, topic, "-o", f"s@{times[0]}")] == times
    assert kcat("-Q", "-t", f"{topic}:0:{times[0]}").split() == [topic, "[0]", "offset", "0"]
    assert kcat("-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "50"]


class Member:
    """kcat as a member of a group; it reports its assignments on standard error."""

    def __init__(self, bootstrap, group, topic, *arguments):
        command = ["kcat", "-b", bootstrap, "-G", group, "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=30000",
                   "-X", "heartbeat.interval.ms=500", "-u", *arguments, topic]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assigned, self.lines = None, []
        for stream, take in ((self.process.stderr, self.note_assignment), (self.process.stdout, self.lines.append)):
            threading.Thread(target=self.follow, args=(stream, take), daemon=True).start()

    @staticmethod
    def follow(stream, take):
        for line in stream:
            take(line.rstrip("\n"))

    def note_assignment(self, line):
        if "assigned:" in line:
            self.assigned = set(line.split("assigned:")[1].replace(" ", "").split(","))

    def stop(self):
        self.process.terminate()
        self.process.wait(LIMIT_SECONDS)


def test_two_members_share_the_partitions_and_the_group_resumes(bootstrap, kcat, new_topic, fresh_name):
    topic, group = new_topic("shared", partitions=4), fresh_name("group")
    every = {f"{topic}[{i}]" for i in range(4)}
    for partition in range(4):
        kcat("-P", "-t", topic, "-p", str(partition), stdin=b"p%d" % partition)
    first = Member(bootstrap, group, topic)
    wait_until(lambda: first.assigned == every and len(first.lines) == 4, "the first member reads everything")
    second = Member(bootstrap, group, topic)
    wait_until(lambda: second.assigned and len(second.assigned) == 2 and first.assigned | second.assigned == every,
               "two members own two partitions each")
    first.stop()
    wait_until(lambda: second.assigned == every, "the second member takes over")
    kcat("-P", "-t", topic, "-p", "0", stdin=b"later")
    wait_until(lambda: second.lines == ["later"], "only what was not read yet arrives")
    second.stop()


def test_a_static_member_returns(bootstrap, new_topic, fresh_name):
    topic, group = new_topic("static"), fresh_name("group")
    for _ in range(2):
        member = Member(bootstrap, group, topic, "-X", "group.instance.id=one")
        wait_until(lambda: member.assigned == {f"{topic}[0]"}, "the member owns the partition")
        member.stop()
