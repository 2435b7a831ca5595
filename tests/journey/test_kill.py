"""Either broker is killed under load, and the other one goes on: recovery after a crash is the same for both."""

import threading
import time

from content import Content
from waiting import wait_until


class Load(threading.Thread):
    """Writes without a pause until it is told to stop; everything is acknowledged in the end, whoever answers."""

    def __init__(self, content, name, codec):
        super().__init__(daemon=True)
        self.content, self.name, self.codec = content, name, codec
        self.rounds, self.stopping, self.failure = 0, False, None
        self.start()

    def run(self):
        try:
            while not self.stopping:
                self.content.write_committed(self.name, 100, self.codec)
                self.rounds += 1
                time.sleep(0.05)
        except BaseException as failure:
            self.failure = failure

    def wait_for_more(self):
        goal = self.rounds + 3
        wait_until(lambda: self.rounds >= goal or self.failure, f"{self.name} grows", 120)
        assert self.failure is None, self.failure

    def finish(self):
        self.stopping = True
        self.join()
        assert self.failure is None, self.failure


def kill_under_load(folder, loads, successor):
    for load in loads:
        load.wait_for_more()
    folder.kill()
    folder.start(successor)
    for load in loads:
        load.wait_for_more()


def test_each_recovers_what_a_killed_other_left(folder):
    content = Content(folder)
    folder.start(folder.kafka)
    content.create_topic("load-lz4", 3)
    content.create_topic("load-zstd", segment_bytes=1024 * 1024)
    content.create_topic("grouped", 2)
    content.create_topic("open")
    content.write_committed("grouped", 100, "gzip")
    content.consume_in_group("classic", "grouped")
    content.consume_in_group("new", "grouped", "consumer")
    hanging = content.producer(**{"transactional.id": "hanging", "transaction.timeout.ms": 5000})
    hanging.init_transactions()
    hanging.begin_transaction()
    content.write("open", 10, producer=hanging)
    loads = [Load(content, "load-lz4", "lz4"), Load(content, "load-zstd", "zstd")]
    kill_under_load(folder, loads, folder.mainstem)
    # Behind an open transaction: acknowledged, and not yet to be seen by readers of committed records.
    behind = [record for _, record in content.write("open", 10)]
    content.create_topic("made-between-kills", 2)
    content.write_committed("made-between-kills", 50, "snappy")
    content.write_committed("grouped", 100)
    content.consume_in_group("classic", "grouped")
    kill_under_load(folder, loads, folder.kafka)
    content.write_committed("grouped", 10)
    content.consume_in_group("classic", "grouped")
    content.consume_in_group("new", "grouped", "consumer")
    # A Kafka ends the transaction when its time is over; Mainstem had no transactions to end it with.
    wait_until(lambda: content.read_one("open", 0, "read_committed") == behind, "the open transaction is aborted", 90)
    content.topics["open"].committed[0] = behind
    content.delete_topic("made-between-kills")
    kill_under_load(folder, loads, folder.mainstem)
    kill_under_load(folder, loads, folder.mainstem)
    for load in loads:
        load.finish()
    content.check()
    folder.stop()
    folder.start(folder.kafka)
    content.check()
    folder.stop()
