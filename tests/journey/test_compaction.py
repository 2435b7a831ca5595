"""What Mainstem compacts is read by Kafka's dump tool, by Mainstem after a kill, and by a Kafka, which goes on compacting it."""

import re
import subprocess

from content import CODECS, Content
from dump import LIMIT_SECONDS, dump
from peers import KAFKA_SH
from waiting import wait_until

KEYS = [b"k%d" % number for number in range(20)]
CLEANER = {"log.cleaner.backoff.ms": 100, "log.roll.ms": 100, "log.cleaner.min.cleanable.ratio": 0.01,
           "log.segment.delete.delay.ms": 0, "offsets.topic.num.partitions": 1}


def cleaned_to(folder, name):
    path = folder.path / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return max([int(line.split()[2]) for line in lines if line.startswith(f"{name} 0 ")], default=0)


def compact(folder, content, at_least):
    def clean():
        # A segment is rolled by the append that comes after its time.
        content.write_committed("compacted", 5, keys=KEYS)
        content.write_committed("other", 1)
        content.consume_in_group("classic", "other")
        return cleaned_to(folder, "compacted") > at_least and cleaned_to(folder, "__consumer_offsets") > 0
    wait_until(clean, "the topic and the offsets are compacted", pause_seconds=0.5)


def check_dump(folder):
    """Every file of the partition, by the dump tool alone."""
    files = sorted((folder.path / "compacted-0").glob("*.log"))
    # The tool tells of offsets that are missing; here they must be.
    command = [str(KAFKA_SH), "dump-log", "--print-data-log", "--files", ",".join(map(str, files))]
    data = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True).stdout
    batches = [line for line in data.splitlines() if line.startswith("baseOffset:")]
    assert batches and all("isvalid: true" in line for line in batches)
    offsets = [tuple(int(number) for number in re.search(r"baseOffset: (\d+) lastOffset: (\d+)", line).groups())
               for line in batches]
    assert all(before[1] < after[0] for before, after in zip(offsets, offsets[1:]))
    assert any(before[1] + 1 < after[0] for before, after in zip(offsets, offsets[1:])), "something went"
    dump([*(folder.path / "compacted-0").glob("*.index"), *(folder.path / "compacted-0").glob("*.timeindex")],
         "--index-sanity-check")


def test_what_mainstem_has_compacted_is_read_by_kafka(make_folder):
    folder = make_folder(mainstem_settings=CLEANER, kafka_settings=CLEANER)
    content = Content(folder)
    folder.start(folder.mainstem)
    content.create_topic("compacted", cleanup_policy="compact")
    content.create_topic("other")
    content.write_committed("other", 10)
    for codec in CODECS:
        content.write_committed("compacted", 100, codec, keys=KEYS)
    compact(folder, content, 400)
    content.check()
    assert len(content.read_one("compacted", 0)) < 300
    folder.kill()
    folder.start(folder.mainstem)
    content.check()
    compact(folder, content, cleaned_to(folder, "compacted"))
    folder.stop()
    check_dump(folder)
    folder.start(folder.kafka)
    content.check()
    compact(folder, content, cleaned_to(folder, "compacted"))
    content.check()
    folder.stop()
    folder.start(folder.mainstem)
    content.check()
    folder.stop()
