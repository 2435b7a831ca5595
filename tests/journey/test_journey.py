"""Stop a one-node Kafka, start Mainstem on its folder, and back: nothing is lost, nothing is added, nobody complains."""

import pytest
from content import CODECS, Content
from waiting import wait_until


@pytest.fixture
def content(folder):
    return Content(folder)


def write_everywhere(content, count=120):
    for codec in CODECS:
        content.write_committed(f"sent-{codec}", count, codec)
        content.write_committed(f"stored-{codec}", count, "none")
    content.write_committed("segments", 60, size=50_000)
    content.write_committed("stamped", 10)


def transactions(content):
    """Committed, aborted and committed again; only a Kafka has transactions yet."""
    producer = content.producer(**{"transactional.id": "journey"})
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        (content.write_committed if commits else content.write)("transactions", 30, producer=producer)
        (producer.commit_transaction if commits else producer.abort_transaction)()


def test_there_and_back_and_there(folder, content):
    folder.start(folder.kafka)
    for codec in CODECS:
        content.create_topic(f"sent-{codec}", 2)
        stored = "uncompressed" if codec == "none" else codec
        content.create_topic(f"stored-{codec}", compression_type=stored)
    content.create_topic("segments", segment_bytes=1024 * 1024)
    content.create_topic("stamped", message_timestamp_type="LogAppendTime")
    content.create_topic("transactions")
    content.create_topic("deleted-by-kafka", 2)
    content.create_topic("deleted-by-mainstem", 2)
    content.create_topic("made-again")
    write_everywhere(content)
    transactions(content)
    for name in ("deleted-by-kafka", "deleted-by-mainstem", "made-again"):
        content.write_committed(name, 40)
    content.set_config("sent-gzip", retention_ms=86_400_000_000)
    content.set_config("sent-lz4", max_message_bytes=2_000_000, flush_messages=10)
    content.consume_in_group("classic", "sent-gzip")
    content.consume_in_group("new", "sent-zstd", "consumer")
    content.delete_topic("deleted-by-kafka")
    content.check()
    folder.stop()

    folder.start(folder.mainstem)
    content.check()
    write_everywhere(content)
    content.create_topic("made-by-mainstem", 3, retention_bytes=10_000_000)
    content.write_committed("made-by-mainstem", 90)
    content.delete_topic("deleted-by-mainstem")
    content.delete_topic("made-again")
    content.create_topic("made-again", 2)
    content.write_committed("made-again", 20)
    content.add_partitions("sent-none", 3)
    content.write_committed("sent-none", 30)
    content.set_config("sent-lz4", max_message_bytes=None, flush_messages=20)
    content.set_config("sent-snappy", segment_ms=1_000_000)
    content.consume_in_group("classic", "sent-gzip")
    content.consume_in_group("made-by-mainstem", "made-by-mainstem")
    content.consume_in_group("new", "sent-zstd")
    content.check()
    folder.stop()

    folder.start(folder.kafka)
    content.check()
    write_everywhere(content)
    transactions(content)
    content.create_topic("made-by-kafka", 2)
    content.write_committed("made-by-kafka", 20)
    content.set_config("made-by-mainstem", retention_bytes=None, segment_bytes=2_000_000)
    content.consume_in_group("classic", "sent-gzip")
    content.consume_in_group("new", "sent-zstd", "consumer")
    content.check()
    folder.stop()

    folder.start(folder.mainstem)
    content.check()
    write_everywhere(content)
    content.check()
    folder.stop()


KEYS = [b"key %d" % number for number in range(20)]
CLEANER = {"log.cleaner.backoff.ms": 100, "log.cleaner.min.cleanable.ratio": 0.01, "log.roll.ms": 300}


def cleaned_to(folder, name):
    lines = (folder.path / "cleaner-offset-checkpoint").read_text().splitlines()
    return max([int(line.split()[2]) for line in lines if line.startswith(f"{name} 0 ")], default=0)


def test_what_a_kafka_has_compacted_and_trimmed_is_read_by_mainstem(make_folder):
    folder = make_folder(kafka_settings={**CLEANER, "offsets.topic.num.partitions": 1})
    content = Content(folder)
    folder.start(folder.kafka)
    content.create_topic("compacted", cleanup_policy="compact")
    content.create_topic("trimmed", 2)
    content.write_committed("trimmed", 100, "lz4")
    content.delete_records("trimmed", 0, 25)
    content.delete_records("trimmed", 1, 50)
    for codec in CODECS:
        content.write_committed("compacted", 100, codec, keys=KEYS)
        content.write_committed("trimmed", 10, codec, partition=0)
        content.consume_in_group("classic", "trimmed")

    def clean():
        # A segment is rolled by the append that comes after its time.
        content.write_committed("compacted", 5, keys=KEYS)
        content.consume_in_group("classic", "trimmed")
        return cleaned_to(folder, "compacted") > 400 and cleaned_to(folder, "__consumer_offsets") > 0
    content.write_committed("trimmed", 10, partition=0)
    wait_until(clean, "the topic and the offsets are compacted", pause_seconds=0.5)
    content.check()
    assert len(content.read_one("compacted", 0)) < 300
    folder.stop()
    folder.start(folder.mainstem)
    content.check()
    for codec in CODECS:
        content.write_committed("compacted", 50, codec, keys=KEYS)
    content.write_committed("trimmed", 10)
    content.consume_in_group("classic", "trimmed")
    folder.kill()
    folder.start(folder.mainstem)
    content.check()
    folder.stop()
    folder.start(folder.kafka)
    content.write_committed("compacted", 50, keys=KEYS)
    content.check()
    folder.stop()
