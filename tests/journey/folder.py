"""A data folder on which Mainstem and a real Kafka take turns, one at a time, on the same port."""

import re
from pathlib import Path

from peers import Kafka, Mainstem, free_port

# What a Kafka says at every start or stop.
EXPECTED_OF_KAFKA = (
    "Performing controller activation",
    "Attempting to close NetworkClient that has already been closed",
)
# How Kafka reports that it made up for something in the files.
REPAIRS_OF_KAFKA = re.compile(r"corrupt|stray|Recovering|Reloading|Rebuilding|truncat|unclean|not found in|inconsisten", re.IGNORECASE)
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
        self.check_log(broker)

    def kill(self):
        broker, self.running = self.running, None
        broker.kill()

    def end(self):
        """Whatever happened: nothing runs afterwards."""
        if self.running:
            self.kill()

    def log(self):
        """What the broker that was started last has said since."""
        with open(self.kafka.log_path, "rb") as log:
            log.seek(self._log_seen)
            return log.read().decode(errors="replace")

    def check_log(self, broker, repairs=False):
        """No complaint in the log since the start; `repairs`: a recovery after a kill may say what it repaired."""
        for line in self.log().splitlines():
            if any(expected in line for expected in EXPECTED_OF_KAFKA):
                continue
            assert " ERROR " not in line and " FATAL " not in line, f"{line}\n\n{self.log()}"
            if not repairs:
                assert " WARN " not in line, f"{line}\n\n{self.log()}"

    def segment_bytes(self, partition):
        """The bytes of all segments of a partition, in order."""
        segments = sorted((self.path / partition).glob("*.log"))
        return b"".join(segment.read_bytes() for segment in segments)

    def names(self):
        return sorted(entry.name for entry in self.path.iterdir())
