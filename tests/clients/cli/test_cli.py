"""Mainstem's own command line against the broker under test, whichever it is: every command that talks to one.

MAINSTEM_COMMAND is the binary whose commands are tested; without it, that of a debug build.
"""

import json
import os
import pathlib
import pty
import signal
import socket
import struct
import subprocess

import pytest
from confluent_kafka import Consumer
from waiting import LIMIT_SECONDS, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def binary():
    path = os.environ.get("MAINSTEM_COMMAND", "")
    path = path if os.path.exists(path) else str(ROOT / "target/debug/mainstem")
    if not os.path.exists(path):
        pytest.fail(f"{path} is not there: `cargo build` makes it")
    return path


class Command:
    """Runs commands to their end."""

    def __init__(self, binary, bootstrap, folder):
        self.binary, self.bootstrap, self.folder = binary, bootstrap, folder

    def run(self, *arguments, stdin="", code=0):
        environment = {"PATH": os.environ["PATH"], "MAINSTEM_BOOTSTRAP": self.bootstrap, "XDG_CONFIG_HOME": str(self.folder)}
        done = subprocess.run(
            [self.binary, *arguments], input=stdin, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment, cwd=self.folder
        )
        assert done.returncode == code, done
        return done

    def start(self, *arguments):
        """A command that goes on while the test does."""
        environment = {"PATH": os.environ["PATH"], "MAINSTEM_BOOTSTRAP": self.bootstrap, "XDG_CONFIG_HOME": str(self.folder)}
        return subprocess.Popen(
            [self.binary, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=self.folder
        )

    def text(self, *arguments, stdin=""):
        return self.run(*arguments, stdin=stdin).stdout

    def json(self, *arguments, stdin=""):
        return json.loads(self.text(*arguments, "--output", "json", stdin=stdin))

    def failure(self, *arguments):
        return self.run(*arguments, code=1).stderr.splitlines()[-1]


@pytest.fixture
def mainstem(binary, bootstrap, tmp_path):
    return Command(binary, bootstrap, tmp_path)


@pytest.fixture
def orders(mainstem, fresh_name):
    """A topic with ten records in partition 0 and five in partition 1."""
    name = fresh_name("orders")
    mainstem.text("topic", "create", name, "--partitions", "2")
    for partition, count in (("0", 10), ("1", 5)):
        lines = "".join(f"{n}:value {n}\n" for n in range(count))
        # A new partition of Kafka may have no leader for a moment; the command waits for it.
        mainstem.text("produce", name, "--partition", partition, "--key-separator", ":", "--header", "a=1", stdin=lines)
    return name


def offsets(mainstem, topic, *more):
    return [(one["earliest"], one["latest"]) for one in mainstem.json("topic", "offsets", topic, *more)]


def plan(mainstem, group, *arguments):
    told = mainstem.json("group", "reset-offsets", group, *arguments)
    return [one["new"] for one in told["offsets"]]


def settings(mainstem, *whose):
    return {one["name"]: one for one in mainstem.json("config", "describe", *whose)["settings"]}


def test_topics_are_described_and_get_partitions(mainstem, orders):
    [described] = mainstem.json("topic", "describe", orders)
    assert [one["partition"] for one in described["partitions"]] == [0, 1]
    assert orders in [one["topic"] for one in mainstem.json("topic", "list")]
    assert mainstem.json("topic", "add-partitions", orders, "--by", "1")["partitions"] == 3
    wait_until(lambda: offsets(mainstem, orders) == [(0, 10), (0, 5), (0, 0)], "the new partition is there")
    assert "INVALID_PARTITIONS" in mainstem.failure("topic", "add-partitions", orders, "--to", "1")
    assert mainstem.text("topic", "delete", orders) == f"deleted {orders}\n"


def test_offsets_by_time_and_records_deleted(mainstem, orders):
    [first, _] = mainstem.json("topic", "offsets", orders, "--at", "-1h")
    assert first["found"]["offset"] == 0
    [first, _] = mainstem.json("topic", "offsets", orders, "--at", "2100-01-01T00:00:00Z")
    assert first["found"] is None
    [first, _] = mainstem.json("topic", "offsets", orders, "--max-timestamp")
    assert 0 <= first["found"]["offset"] < 10
    mainstem.text("topic", "delete-records", orders, "--before", "3", "--partition", "0")
    assert offsets(mainstem, orders) == [(3, 10), (0, 5)]
    assert "has no offset 7: it ends at 5" in mainstem.failure("topic", "delete-records", orders, "--before", "7")
    mainstem.text("topic", "delete-records", orders, "--before", "end")
    assert offsets(mainstem, orders) == [(10, 10), (5, 5)]


def test_settings_of_topics_and_brokers(mainstem, orders):
    mainstem.text("topic", "config", "set", orders, "retention.ms=86400000")
    wait_until(lambda: settings(mainstem, "--topic", orders).get("retention.ms", {}).get("value") == "86400000", "it is set")
    mainstem.text("config", "alter", "--topic", orders, "--append", "cleanup.policy=compact")
    wait_until(lambda: settings(mainstem, "--topic", orders)["cleanup.policy"]["value"] == "delete,compact", "it is appended")
    mainstem.text("topic", "config", "unset", orders, "retention.ms")
    wait_until(lambda: "retention.ms" not in settings(mainstem, "--topic", orders), "it is unset")
    assert "retention.ms" in mainstem.failure("topic", "config", "set", orders, "retention.ms=soon")

    mainstem.text("config", "alter", "--broker-defaults", "--set", "log.cleaner.backoff.ms=14000")
    mainstem.text("config", "alter", "--broker", "1", "--set", "log.cleaner.backoff.ms=13000")

    def synonyms():
        found = settings(mainstem, "--broker", "1").get("log.cleaner.backoff.ms", {"synonyms": []})
        return [(one["value"], one["source"]) for one in found["synonyms"]][:2]

    wait_until(lambda: synonyms() == [("13000", "broker"), ("14000", "broker-defaults")], "both are shown")
    mainstem.text("config", "alter", "--broker", "1", "--unset", "log.cleaner.backoff.ms")
    mainstem.text("config", "alter", "--broker-defaults", "--unset", "log.cleaner.backoff.ms")


def test_offsets_of_a_group(mainstem, orders, fresh_name):
    group = fresh_name("group")
    assert f"group {group} does not exist" in mainstem.failure("group", "describe", group)
    assert plan(mainstem, group, "--topic", orders, "--to-offset", "4", "--execute") == [4, 4]
    for arguments, expected in [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 5]),
        (["--to-current"], [4, 4]),
        (["--shift-by", "-1"], [3, 3]),
        (["--shift-by", "100"], [10, 5]),
        (["--by-duration", "PT1H"], [0, 0]),
        (["--to-datetime", "2100-01-01T00:00:00"], [10, 5]),
    ]:
        assert plan(mainstem, group, *arguments, "--all-topics") == expected, arguments
    assert group in [one["group"] for one in mainstem.json("group", "list", "--state", "Empty")]
    [described] = mainstem.json("group", "describe", group)
    assert (described["lag"], described["kind"], described["members"]) == (7, "classic", [])
    exported = mainstem.text("group", "reset-offsets", group, "--all-topics", "--to-current", "--export")
    (mainstem.folder / "plan.csv").write_text(exported)
    assert plan(mainstem, group, "--from-file", "plan.csv") == [4, 4]
    mainstem.text("group", "delete-offsets", group, "--topic", f"{orders}:1")
    assert plan(mainstem, group, "--all-topics", "--to-current") == [4]
    assert mainstem.text("group", "delete", group) == f"deleted {group}\n"


def offers(bootstrap, key):
    """Whether the broker offers an API: ApiVersions in version 0, by hand."""
    host, port = bootstrap.rsplit(":", 1)
    request = struct.pack(">hhih", 18, 0, 1, -1)
    with socket.create_connection((host, int(port)), timeout=LIMIT_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        stream = connection.makefile("rb")
        answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    return any(found == key for found, _, _ in struct.iter_unpack(">hhh", answer[10:]))


CONSUMER_GROUP_DESCRIBE = 69


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_group_with_members_is_described_and_left_alone(mainstem, orders, fresh_name, kind, bootstrap):
    group = fresh_name("group")
    if kind == "consumer" and not offers(bootstrap, CONSUMER_GROUP_DESCRIBE):
        pytest.skip("the broker has no groups of this kind")
    protocol = {"group.protocol": "consumer"} if kind == "consumer" else {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", **protocol})
    consumer.subscribe([orders])

    seen = []

    def members():
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            seen.append(message)
        if not seen:
            return None
        [described] = mainstem.json("group", "describe", group)
        return described["members"] if described["state"] == "Stable" else None

    [member] = wait_until(members, "the consumer is in")
    assert [(one["topic"], one["partition"]) for one in member["partitions"]] == [(orders, 0), (orders, 1)]
    consumer.commit(asynchronous=False)
    try:
        line = mainstem.failure("group", "reset-offsets", group, "--topic", orders, "--to-earliest", "--execute")
        assert "offsets can only be reset while it is inactive, but its state is Stable, with 1 members" in line
        assert "has members: stop its consumers first" in mainstem.failure("group", "delete", group)
        assert "stop" in mainstem.failure("group", "delete-offsets", group, "--topic", orders)
    finally:
        consumer.close()
    wait_until(lambda: mainstem.json("group", "describe", group)[0]["state"] == "Empty", "the consumer is out")
    assert plan(mainstem, group, "--topic", orders, "--to-earliest", "--execute") == [0, 0]


def test_a_group_is_shared_with_librdkafka_and_given_back(mainstem, orders, fresh_name, bootstrap):
    group = fresh_name("group")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([orders])

    def assigned(count):
        # The consumer joins and rejoins within poll.
        consumer.poll(0.1)
        return len(consumer.assignment()) == count

    wait_until(lambda: assigned(2), "the consumer has both partitions")
    process = mainstem.start("consume", orders, "--group", group, "--follow")
    try:

        def shared():
            if not assigned(1):
                return None
            [described] = mainstem.json("group", "describe", group)
            counts = [len(member["partitions"]) for member in described["members"]]
            return described if described["state"] == "Stable" and counts == [1, 1] else None

        described = wait_until(shared, "each of the two has a partition")
        assert described["assignor"] in ("range", "roundrobin")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0
        # Well within the session: it has left.
        wait_until(lambda: assigned(2), "the consumer has both partitions again", limit_seconds=30)
    finally:
        process.kill()
        process.wait()
        consumer.close()


def test_what_is_produced_is_consumed(mainstem, orders, fresh_name):
    lines = mainstem.text("consume", orders, "--partition", "1", "--format", "%p %o %k=%s %h\\n").splitlines()
    assert lines == [f"1 {n} {n}=value {n} a=1" for n in range(5)]
    other = fresh_name("other")
    mainstem.text("topic", "create", other)
    mainstem.text("produce", other, "--codec", "zstd", "--idempotent", "--null", "x", stdin="a\nx\n")
    assert mainstem.text("consume", other, "--format", "%S:%s ") == "1:a -1: "
    assert len(mainstem.text("consume", "--pattern", f"{orders}|{other}").splitlines()) == 17
    group = fresh_name("group")
    assert len(mainstem.text("consume", orders, "--group", group, "--count", "6").splitlines()) == 6
    assert len(mainstem.text("consume", orders, "--group", group, "--from", "beginning").splitlines()) >= 9


def test_a_copy_is_the_same_and_goes_on(mainstem, orders, fresh_name, bootstrap):
    copy = fresh_name("copy")
    command = ["cp", orders, copy, "--from", bootstrap, "--to", bootstrap, "--state", "state.json"]
    assert mainstem.json(*command)["copied"] == 15
    mainstem.text("produce", orders, "--partition", "0", stdin="more\n")
    assert mainstem.json(*command)["copied"] == 1
    for partition in ("0", "1"):
        read = ["--partition", partition, "--format", "%o %k(%K) %s %T %h\\n"]
        assert mainstem.text("consume", copy, *read) == mainstem.text("consume", orders, *read)
    mainstem.text("produce", copy, "--partition", "0", stdin="mine\n")
    mainstem.text("produce", orders, "--partition", "0", stdin="yours\n")
    assert "another program writes to the destination" in mainstem.failure(*command)


def on_terminal(mainstem, *arguments, **variables):
    """What a command writes when both of its outputs are a terminal."""
    controller, terminal = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "MAINSTEM_BOOTSTRAP": mainstem.bootstrap, **variables}
    process = subprocess.Popen(
        [mainstem.binary, *arguments], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=environment, cwd=mainstem.folder
    )
    os.close(terminal)
    written = b""
    try:
        while more := os.read(controller, 4096):
            written += more
    except OSError:
        # Linux says so when nobody has the other end any more.
        pass
    os.close(controller)
    assert process.wait(LIMIT_SECONDS) == 0, written
    return written.decode()


def test_colours_and_progress_are_for_people(mainstem, orders):
    bold = "\x1b[1mTOPIC"
    assert bold in on_terminal(mainstem, "topic", "offsets", orders)
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal(mainstem, "topic", "offsets", orders, **variables)
    assert "\x1b" not in on_terminal(mainstem, "topic", "offsets", orders, "--color", "never")
    assert bold in mainstem.text("topic", "offsets", orders, "--color", "always")

    lines = mainstem.folder / "lines.txt"
    lines.write_text("x\n" * 12)
    # Longer than the second after which progress is shown.
    written = on_terminal(mainstem, "produce", orders, "--file", str(lines), "--rate", "10")
    assert " records, " in written and "\r\x1b[K12 records written" in written, written
