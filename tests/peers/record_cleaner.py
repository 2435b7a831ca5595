#!/usr/bin/env python3
"""Records what Kafka's cleaner keeps of a log, for the test `compaction::tests::recordings` of the store.

    target/clients/venv/bin/python tests/peers/record_cleaner.py      (cargo xtask prepares the folder target/clients)

It starts a real Kafka (Java, Maven) on free ports of 127.0.0.1, writes topics with every kind of batch, lets it compact them several times (from
the second on tombstones are over their time, and later markers), and writes, to crates/store/recordings/cleaner/TOPIC-PASS/:

    input/        the folder of the partition before the pass, as Kafka left it
    facts         what the pass knew: cleaned_to, delete_retention_ms, now
    kept          what Kafka's own dump tool says of the segments after the pass, one line a batch and a record

Read the changes with `git diff` before they are committed: a recording is what our compaction is measured with.
"""

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from peers import KAFKA_SH, Kafka

OUT = Path(__file__).resolve().parents[2] / "crates/store/recordings/cleaner"
DELETE_RETENTION_MS = 1500
LIMIT_SECONDS = 120
# Nothing is compacted until the policy says so; each group of records is a segment.
TOPIC = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0",
         "delete.retention.ms": str(DELETE_RETENTION_MS), "file.delete.delay.ms": "0"}
TOPICS = {"created": {}, "appended": {"message.timestamp.type": "LogAppendTime"}}
BROKER = {"log.cleaner.backoff.ms": "100", "auto.create.topics.enable": "false", "log.initial.task.delay.ms": "100",
          "transaction.state.log.num.partitions": "1"}


def until(condition, what):
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"not within {LIMIT_SECONDS} s: {what}"
        time.sleep(0.1)


class Writer:
    """Writes batches whose contents depend on nothing but the order of the calls."""

    def __init__(self, bootstrap, topic):
        self.topic, self.common, self.number, self.kept = topic, {"bootstrap.servers": bootstrap, "linger.ms": 200, "log_level": 0}, 0, {}

    def producer(self, name, **settings):
        if name not in self.kept:
            self.kept[name] = Producer({**self.common, **settings})
            if "transactional.id" in settings:
                self.kept[name].init_transactions(LIMIT_SECONDS)
        return self.kept[name]

    def batch(self, producer, keys, headers=None):
        """One batch; a key with a minus is a tombstone, none is no key."""
        for key in keys:
            value = None if key and key.startswith("-") else f"value {self.number} of {key}, value {self.number}"
            self.number += 1
            producer.produce(self.topic, value, key.lstrip("-") if key else None, 0, headers=headers or [])
        producer.flush(LIMIT_SECONDS)

    def plain(self, *keys, codec="none", **more):
        self.batch(self.producer(codec, **{"compression.type": codec, "enable.idempotence": False}), keys, **more)

    def idempotent(self, name, *keys):
        self.batch(self.producer(name, **{"enable.idempotence": True}), keys)

    def transaction(self, name, batches, commit, between=lambda: None):
        producer = self.producer(name, **{"transactional.id": f"{self.topic}-{name}"})
        producer.begin_transaction()
        for keys in batches:
            self.batch(producer, keys)
            between()
        producer.commit_transaction(LIMIT_SECONDS) if commit else producer.abort_transaction(LIMIT_SECONDS)
        # The marker is written after the answer.
        time.sleep(0.5)

    def seal(self):
        """The next batch begins a segment."""
        time.sleep(0.15)


def first_input(writer):
    writer.plain("a", "b", "c", "a")
    writer.plain("d", "e", headers=[("header", b"of d and e"), ("null", None)])
    writer.seal()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        writer.plain(f"{codec} 1", f"{codec} 2", "a", f"{codec} 3", f"{codec} 1", codec=codec)
    writer.seal()
    writer.plain("-b", "-absent", "f")
    writer.plain(None, "g", None)
    writer.plain(None)
    writer.idempotent("quiet", "h", "i")
    writer.idempotent("goes on", "h", "j")
    writer.seal()
    writer.transaction("commits", [["k", "l"], ["m"]], commit=True, between=writer.seal)
    writer.transaction("aborts", [["k", "l"], ["m", "n"]], commit=False, between=writer.seal)
    writer.transaction("both", [["o", "p"]], commit=True)
    writer.transaction("both", [["o", "q"]], commit=False)
    writer.transaction("goes on in transactions", [["r", "-s"]], commit=True)
    writer.seal()
    writer.idempotent("goes on", "h", "i", "t")
    writer.plain("h", "i", "gzip 1", "zstd 3", "-e")
    writer.plain("r", "-g", codec="lz4")
    writer.seal()
    writer.plain("last of the range")
    writer.plain("last of the range")
    writer.seal()
    writer.plain("active")


def second_input(writer):
    writer.plain("a", "-d", "o")
    writer.plain("lz4 2", "-snappy 2", "new", codec="gzip")
    writer.seal()
    writer.idempotent("goes on", "u", "u")
    writer.transaction("goes on in transactions", [["v", "r"]], commit=True)
    writer.transaction("aborts", [["w"]], commit=False)
    writer.seal()
    writer.plain("last of the range", "active")
    writer.seal()
    writer.plain("active again")


def later_input(writer):
    """Little is new, so that what a pass does with what earlier ones left is seen."""
    writer.plain("x", "-y", f"z {writer.number}")
    writer.idempotent("goes on", "u")
    writer.seal()
    writer.plain("active again")


class Recorder:
    def __init__(self, scratch):
        self.kafka = Kafka(scratch / "data", settings=BROKER)
        self.folder = self.kafka.data_dir

    def admin(self):
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap})

    def set_policy(self, policy):
        for topic in TOPICS:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
            resource.add_incremental_config(entry)
            admin = self.admin()
            for future in admin.incremental_alter_configs([resource]).values():
                future.result()

    def cleaned_to(self, topic):
        path = self.folder / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines() if path.exists() else []
        return max([int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")], default=-1)

    def active(self, topic):
        return max(int(path.stem) for path in (self.folder / f"{topic}-0").glob("*.log"))

    def write(self, what):
        with self.kafka:
            if what is first_input:
                new = [NewTopic(topic, 1, 1, config={**TOPIC, **more}) for topic, more in TOPICS.items()]
                admin = self.admin()
                for future in admin.create_topics(new).values():
                    future.result()
            for topic in TOPICS:
                what(self.writers.setdefault(topic, Writer(self.kafka.bootstrap, topic)))

    writers = {}

    def compact(self):
        with self.kafka:
            self.set_policy("compact")
            for topic in TOPICS:
                until(lambda t=topic: self.cleaned_to(t) == self.active(t), f"{topic} is compacted")
            self.set_policy("delete")
            # The files of replaced segments go.
            time.sleep(2)

    def record(self, number, what):
        self.write(what)
        before = {topic: self.cleaned_to(topic) for topic in TOPICS}
        for topic in TOPICS:
            out = OUT / f"{topic}-{number}"
            shutil.rmtree(out, ignore_errors=True)
            self.copy_input(self.folder / f"{topic}-0", out / "input")
        # Whatever has a horizon by now is over it.
        time.sleep(DELETE_RETENTION_MS / 1000 + 0.5)
        self.compact()
        for topic in TOPICS:
            kept, horizons = self.dump(topic)
            out = OUT / f"{topic}-{number}"
            now = max(horizons) - DELETE_RETENTION_MS
            facts = {"cleaned_to": before[topic], "delete_retention_ms": DELETE_RETENTION_MS, "now": now}
            (out / "facts").write_text("".join(f"{name} {value}\n" for name, value in facts.items()))
            (out / "kept").write_text("".join(f"{line}\n" for line in kept))

    @staticmethod
    def copy_input(folder, out):
        """What an opening does not make again by itself."""
        out.mkdir(parents=True)
        wanted = [*folder.glob("*.log"), *folder.glob("*.txnindex"), folder / "leader-epoch-checkpoint"]
        for path in [*wanted, max(folder.glob("*.snapshot"))]:
            shutil.copy(path, out)

    def dump(self, topic):
        """Lines `segment`, `batch` and `record`, and the delete horizons."""
        lines, horizons = [], []
        for path in sorted((self.folder / f"{topic}-0").glob("*.log")):
            command = [str(KAFKA_SH), "dump-log", "--print-data-log", "--files", str(path)]
            dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            lines.append(f"segment {int(path.stem)}")
            for line in dumped.splitlines():
                if line.startswith("baseOffset:"):
                    lines.append(batch_line(line, horizons))
                elif line.startswith("|"):
                    lines.append(record_line(line))
        return lines, horizons


def fields(line, names):
    return {name: re.search(rf"\b{name}: (\S+)", line).group(1) for name in names if re.search(rf"\b{name}: ", line)}


def batch_line(line, horizons):
    names = ["baseOffset", "lastOffset", "count", "baseSequence", "lastSequence", "producerId", "producerEpoch",
             "partitionLeaderEpoch", "isTransactional", "isControl", "deleteHorizonMs", "compresscodec", "isvalid",
             "CreateTime", "LogAppendTime"]
    found = fields(line, names)
    assert found.pop("isvalid") == "true", line
    horizon = found.pop("deleteHorizonMs", "OptionalLong.empty")
    if horizon != "OptionalLong.empty":
        horizons.append(int(re.search(r"\d+", horizon).group()))
    found["deleteHorizonMs"] = "none" if horizon == "OptionalLong.empty" else str(horizons[-1])
    return "batch " + " ".join(f"{name}={value}" for name, value in found.items())


def record_line(line):
    control = re.search(r"endTxnMarker: (\w+)", line)
    found = fields(line, ["offset", "CreateTime", "LogAppendTime"])
    key = re.search(r" key: (.*?)( payload: |$)", line)
    payload = re.search(r" payload: (.*)$", line)
    if control:
        found["marker"] = control.group(1)
    else:
        found["key"] = key.group(1) if key else "none"
        found["value"] = payload.group(1) if payload else "none"
    return "record " + " ".join(f"{name}={value}" for name, value in found.items())


def main():
    with tempfile.TemporaryDirectory() as scratch:
        recorder = Recorder(Path(scratch))
        recorder.record(1, first_input)
        recorder.record(2, second_input)
        # Markers get their time when nothing of their transaction is left, and go when it is over.
        for number in (3, 4, 5):
            recorder.record(number, later_input)
    print("recorded from Kafka; now compare: cargo test -p mainstem-store recordings")


if __name__ == "__main__":
    main()
