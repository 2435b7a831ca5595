"""Kafka's dump tool reads every file that Mainstem leaves, those that it made again after a kill included."""

import re

from content import CODECS, Content
from dump import dump
from test_metadata import MAINSTEM_SNAPSHOTS


def write_segments(content):
    """Batches so small that the indexes have entries."""
    content.write_committed("segments", 300, size=10_000, producer=content.producer(**{"batch.size": 20_000}))


def fill(content):
    """By a Kafka: data of all codecs, many segments, transactions, both kinds of groups."""
    for codec in CODECS:
        content.create_topic(f"sent-{codec}")
        content.write_committed(f"sent-{codec}", 100, codec)
    content.create_topic("segments", segment_bytes=1024 * 1024, index_interval_bytes=4096)
    write_segments(content)
    content.create_topic("transactions", segment_bytes=1024 * 1024)
    producer = content.producer(**{"transactional.id": "dumped"})
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        (content.write_committed if commits else content.write)("transactions", 30, producer=producer)
        (producer.commit_transaction if commits else producer.abort_transaction)()
    content.consume_in_group("classic", "sent-gzip")
    content.consume_in_group("new", "sent-zstd", "consumer")


def files(folder, pattern):
    return [str(path) for path in folder.path.glob(pattern)]


def count(text, pattern):
    return len(re.findall(pattern, text, flags=re.MULTILINE))


def test_kafka_reads_every_file(make_folder):
    folder = make_folder(mainstem_settings=MAINSTEM_SNAPSHOTS)
    content = Content(folder)
    folder.start(folder.kafka)
    fill(content)
    folder.kill()
    folder.start(folder.mainstem)
    content.check()
    for codec in CODECS:
        content.write_committed(f"sent-{codec}", 100, codec)
    write_segments(content)
    # Beyond one segment, so that its transaction index and its producers are written by an ordinary roll too.
    content.write_committed("transactions", 30, size=50_000)
    content.consume_in_group("classic", "sent-gzip")
    content.consume_in_group("made-by-mainstem", "segments")
    content.create_topic("made-by-mainstem", 3, flush_messages=5)
    content.write_committed("made-by-mainstem", 30, "snappy")
    content.check()
    folder.stop()

    data = dump(files(folder, "[!_]*-*/*.log"), "--print-data-log")
    for name, topic in content.topics.items():
        for partition, records in topic.records.items():
            texts = [text for file, text in data.items() if f"/{name}-{partition}/" in file]
            records_printed = sum(count(text, r"^\| offset: \d+ .* payload: ") for text in texts)
            assert records_printed == len([r for r in records if r.value is not None]), f"{name}-{partition}"
    assert len([file for file in data if "/segments-0/" in file]) >= 6
    aborts = "".join(text for file, text in data.items() if "/transactions-0/" in file)
    assert count(aborts, "endTxnMarker: ABORT") == 1 and count(aborts, "endTxnMarker: COMMIT") == 2

    indexes = dump(files(folder, "*/*.index") + files(folder, "*/*.timeindex"), "--index-sanity-check")
    assert all("passed sanity check." in text or " is empty." in text for text in indexes.values())
    # Without the flag each entry is compared with the log.
    entries = dump(files(folder, "[!_]*-*/*.index") + files(folder, "[!_]*-*/*.timeindex"))
    assert all(count(text, "^offset: ") > 10 for file, text in entries.items() if re.search(r"segments-0/0+[^0].*\.index", file))
    views = dump(files(folder, "*/*.txnindex") + files(folder, "*/*.snapshot"))
    aborted = [text for file, text in views.items() if file.endswith("txnindex") and "/transactions-0/" in file]
    assert count("".join(aborted), "firstOffset: 31 ") == 1 and count("".join(aborted), "producerId") == 1
    producers = [text for file, text in views.items() if "/sent-lz4-0/" in file]
    assert count("".join(producers), "producerId: ") >= 1

    metadata = dump(files(folder, "__cluster_metadata-0/*.log") + files(folder, "__cluster_metadata-0/*.checkpoint"),
                    "--cluster-metadata-decoder")
    newest = max(file for file in metadata if file.endswith(".checkpoint"))
    for name, topic in content.topics.items():
        assert count(metadata[newest], f'"name":"{name}","topicId":') == 1, name
    assert count(metadata[newest], '"type":"REGISTER_BROKER_RECORD"') == 1
    assert all(count(text, '"type":"[A-Z_]+"') for text in metadata.values() if text)

    groups = "".join(dump(files(folder, "__consumer_offsets-*/*.log"), "--offsets-decoder").values())
    for group, offsets in content.groups.items():
        for (topic, partition), offset in offsets.items():
            key = f'"group":"{group}","topic":"{topic}","partition":{partition}'
            commits = [line for line in groups.splitlines() if key in line]
            assert f'"offset":{offset},' in commits[-1], (group, topic, partition)
    dump(files(folder, "__transaction_state-*/*.log"), "--transaction-log-decoder")
