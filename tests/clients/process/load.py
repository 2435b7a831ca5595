"""Producers that number their messages and note every acknowledgement, until they are told to finish."""

import os
import subprocess
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from waiting import LIMIT_SECONDS, wait_until

HERE = Path(__file__).resolve().parent
MESSAGES_PER_STEP = 2000


class Load(threading.Thread):
    """Message n goes to partition n % partitions. Idempotent, acks=all, and patient: nothing may fail while the broker is away."""

    def __init__(self, broker, topic, partitions):
        super().__init__(daemon=True)
        self.broker, self.topic, self.partitions = broker, topic, partitions
        # By number: the partition and offset it was acknowledged with.
        self.sent, self.acknowledged, self.errors = 0, {}, []

    def wait_for_more(self):
        goal = len(self.acknowledged) + MESSAGES_PER_STEP
        wait_until(lambda: self.errors or len(self.acknowledged) >= goal, f"{goal} messages are acknowledged", 2 * LIMIT_SECONDS)
        assert self.errors == []

    def finish(self):
        self.end()
        assert self.errors == []
        assert len(self.acknowledged) == self.sent


class LibrdkafkaLoad(Load):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stopping = False
        self.producer = Producer({"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "linger.ms": 2,
                                  "delivery.timeout.ms": 300_000, "reconnect.backoff.max.ms": 200, "batch.num.messages": 100,
                                  "retry.backoff.max.ms": 200})
        self.start()

    def report(self, error, message):
        if error:
            self.errors.append(str(error))
        else:
            self.acknowledged[int(message.value())] = (message.partition(), message.offset())

    def run(self):
        while not self.stopping:
            if len(self.producer) < 5000:
                value, partition = b"%d" % self.sent, self.sent % self.partitions
                self.producer.produce(self.topic, value, partition=partition, on_delivery=self.report)
                self.sent += 1
                self.producer.poll(0)
            else:
                self.producer.poll(0.01)
            if self.sent % 100 == 0:
                time.sleep(0.001)

    def end(self):
        self.stopping = True
        self.join()
        assert self.producer.flush(2 * LIMIT_SECONDS) == 0


class JavaLoad(Load):
    """`Load.java` as a process."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        clients = os.environ.get("MAINSTEM_CLIENTS_DIR") or HERE.parents[2] / "target/clients"
        self.process = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
             "-cp", f"{clients}/kafka/*", str(HERE / "Load.java"), self.broker.bootstrap, self.topic, str(self.partitions)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.start()

    def run(self):
        for line in self.process.stdout:
            match line.split():
                case ["acknowledged", number, partition, offset]:
                    self.acknowledged[int(number)] = (int(partition), int(offset))
                case ["sent", count]:
                    self.sent = int(count)
                case _:
                    self.errors.append(line)
        if self.process.wait() != 0:
            self.errors.append(f"it ended with {self.process.returncode}")

    def end(self):
        self.process.stdin.close()
        self.join(2 * LIMIT_SECONDS)
        if self.is_alive():
            self.process.kill()
            raise AssertionError("it does not end")
