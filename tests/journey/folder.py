"""A data folder on which Mainstem and a real Kafka take turns, one at a time, on the same port."""

import re
import subprocess
from pathlib import Path

from peers import Kafka, Mainstem, free_port

# What a Kafka says at every start or stop, when two consumers find their coordinator at once, and when it stops while it loads groups.
EXPECTED_OF_KAFKA = (
    "Performing controller activation",
    "Attempting to close NetworkClient that has already been closed",
    "Auto topic creation failed for __consumer_offsets with error 'TOPIC_ALREADY_EXISTS'",
    "because the partition is not online or is no longer the leader",
    # How long something took says something about the machine, not about the folder.
    "EventPerformanceMonitor",
)

# Producers that live through the deletion of a topic must not create it again.
SETTINGS = {"auto.create.topics.enable": "false"}


class Folder:
    def __init__(self, path, binary, kafka_settings=None, mainstem_settings=None, format_arguments=""):
        self.path = Path(path)
        self.port = free_port()
        self.mainstem = Mainstem(binary, self.path, self.port, SETTINGS | (mainstem_settings or {}))
        self.kafka = Kafka(self.path, self.port, SETTINGS | (kafka_settings or {}), format_arguments)
        self.running = None
        self._log_seen = 0

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def start(self, broker):
        """Starts one of the two."""
        assert self.running is None, "a folder has one broker at a time"
        self._log_seen = broker.log_path.stat().st_size if broker.log_path.exists() else 0
        broker.start()
        self.running = broker

    def stop(self):
        """An orderly stop, after which the broker must not have complained."""
        broker, self.running = self.running, None
        code = broker.stop()
        if broker is self.mainstem:
            assert code == 0, self.log()
        self.check_log()
        self.verify()

    def kill(self):
        broker, self.running = self.running, None
        broker.kill()
        self.verify()

    def verify(self):
        """Whatever either of them leaves is sound, also after a kill."""
        command = [self.mainstem.binary, "verify", "--data-dir", str(self.path)]
        checked = subprocess.run(command, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def end(self):
        """Whatever happened: nothing runs afterwards."""
        if self.running:
            broker, self.running = self.running, None
            broker.kill()

    def log(self):
        """What the broker that was started last has said since, without a Kafka's settings."""
        with open(self.kafka.log_path, "rb") as log:
            log.seek(self._log_seen)
            return [line for line in log.read().decode(errors="replace").splitlines() if not line.startswith("\t")]

    def check_log(self):
        """No complaint since the start."""
        complaints = [line for line in self.log() if re.search(" WARN | ERROR | FATAL |panicked", line)
                      and not any(expected in line for expected in EXPECTED_OF_KAFKA)]
        assert complaints == []

    def segment_bytes(self, partition):
        """The bytes of all segments of a partition, in order."""
        segments = sorted((self.path / partition).glob("*.log"))
        return b"".join(segment.read_bytes() for segment in segments)

    def names(self):
        return sorted(entry.name for entry in self.path.iterdir())
