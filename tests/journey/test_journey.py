"""Stop a one-node Kafka, start Mainstem on its folder, and back: nothing is lost, nothing is added, nobody complains."""

import pytest
from content import CODECS, Content
from confluent_kafka import KafkaException
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


def transactions(content, settle=True):
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
