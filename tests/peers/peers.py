"""Brokers that a test starts, stops, kills and starts again on the same data folder and port: Mainstem and a real Kafka."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

KAFKA_SH = Path(__file__).resolve().parent / "kafka.sh"
START_LIMIT_SECONDS = 120
STOP_LIMIT_SECONDS = 60


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Broker:
    """A broker process on 127.0.0.1. Its output goes to `<data folder>.log`, over all starts."""

    def __init__(self, data_dir, port=None, settings=None):
        self.data_dir, self.port, self.settings = Path(data_dir), port or free_port(), settings or {}
        self.log_path = self.data_dir.parent / f"{self.data_dir.name}.log"
        self.process = None

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def spawn(self):
        """Starts the process without waiting for it."""
        assert self.process is None, "it runs already"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment())
        return self

    def start(self):
        self.spawn()
        end = time.monotonic() + START_LIMIT_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log_end()}"
                assert time.monotonic() < end, f"port {self.port} did not open:\n{self.log_end()}"
                time.sleep(0.02)

    def stop(self):
        """An orderly stop; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.reap()

    def kill(self):
        """The end without warning: SIGKILL."""
        self.process.kill()
        return self.reap()

    def reap(self):
        process, self.process = self.process, None
        try:
            return process.wait(STOP_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not stop within {STOP_LIMIT_SECONDS} s:\n{self.log_end()}") from None

    def log_end(self, lines=30):
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process:
            self.stop()


class Mainstem(Broker):
    def __init__(self, binary, data_dir, port=None, settings=None):
        super().__init__(data_dir, port, settings)
        self.binary = binary

    def command(self):
        settings = [f"--set={key}={value}" for key, value in self.settings.items()]
        return [self.binary, "serve", "--data-dir", str(self.data_dir), "--listen", self.bootstrap, *settings]

    def environment(self):
        # Its variables are settings; those of whoever runs the tests are none, and unknown ones stop its start.
        return {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}


class Kafka(Broker):
    """One node of a real Kafka; it formats a folder that holds no Kafka data yet."""

    def __init__(self, data_dir, port=None, settings=None, format_arguments=""):
        """`--standalone` among the arguments for formatting: the voters are in the log (kraft.version 1), not in the properties."""
        super().__init__(data_dir, port, settings)
        self.controller_port, self.format_arguments = free_port(), format_arguments

    def command(self, command="serve"):
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        return [str(KAFKA_SH), command, str(self.data_dir), str(self.port), *settings]

    def environment(self):
        return {**os.environ, "CONTROLLER_PORT": str(self.controller_port), "FORMAT": self.format_arguments}

    def format(self):
        """Formats the folder, and starts nothing."""
        subprocess.run(self.command("format"), env=self.environment(), check=True, capture_output=True, timeout=START_LIMIT_SECONDS)
