"""Runs Kafka's tools and compares what they print with what they printed against a real Kafka.

`expected/NAME.txt` holds the recorded text of one test; `MAINSTEM_RECORD_TOOLS=1 cargo xtask test clients tools --against kafka` records all. The names of topics and groups
are always the same, because the tools print in the order of hash maps: the broker must be a fresh one.
"""

import difflib
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLASSES = {
    "cluster": "ClusterTool",
    "configs": "ConfigCommand",
    "console-producer": "ConsoleProducer",
    "console-consumer": "consumer.ConsoleConsumer",
    "consumer-groups": "consumer.group.ConsumerGroupCommand",
    "delete-records": "DeleteRecordsCommand",
    "dump-log": "DumpLogSegments",
    "e2e-latency": "EndToEndLatency",
    "features": "FeatureCommand",
    "get-offsets": "GetOffsetShell",
    "groups": "GroupsCommand",
    "leader-election": "LeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "metadata-quorum": "MetadataQuorumCommand",
    "reassign": "reassign.ReassignPartitionsCommand",
    "streams-reset": "StreamsResetter",
    "topics": "TopicCommand",
}
# Tools that take the address before their command, and that take none.
ADDRESS_FIRST = {"metadata-quorum", "features"}
NO_ADDRESS = {"dump-log"}
RECORDS = os.environ.get("MAINSTEM_RECORD_TOOLS") == "1"

# What differs between two runs of the same broker, everywhere.
MASKS = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"TopicId: [\w-]{22}", "TopicId: ID"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d+(Z| UTC)?", "TIME"),
    (r"^\tat .*\n", ""),
    (r"^\s*\.\.\. \d+ more\n", ""),
]


class Tools:
    """One Java process, and how to ask it."""

    def __init__(self, jars, bootstrap):
        self.bootstrap = bootstrap
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                   "-cp", f"{jars}/*", str(HERE / "Tools.java")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process with the tools has ended"
        return json.loads(line)

    def run(self, name, arguments, stdin=""):
        """What the tool printed, and its exit code."""
        address = [] if name in NO_ADDRESS else ["--bootstrap-server", self.bootstrap]
        arguments = [*address, *arguments] if name in ADDRESS_FIRST else [*arguments, *address]
        answer = self.ask({"class": f"org.apache.kafka.tools.{CLASSES[name]}", "args": arguments, "stdin": stdin})
        return answer["output"], answer["status"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


class Session:
    """The steps of one test."""

    def __init__(self, tools, name):
        self.tools, self.path, self.recorded, self.has_failed = tools, HERE / "expected" / f"{name}.txt", [], False
        self.expected = [] if RECORDS else self.path.read_text().split("\n\n")[:-1]

    def __call__(self, line, stdin="", masks=(), is_sorted=False, only=None):
        """Runs a command line. `masks`: pairs of pattern and replacement for this step alone; `only`: lines that count match this."""
        name, *arguments = shlex.split(line)
        output, status = self.tools.run(name, arguments, stdin)
        shown = output
        for pattern, replacement in [*masks, *MASKS]:
            shown = re.sub(pattern, replacement, shown, flags=re.MULTILINE)
        shown = shown.replace(self.tools.bootstrap, "BROKER")
        lines = [one.rstrip() for one in shown.splitlines()]
        lines = [one for one in lines if only is None or re.search(only, one)]
        # Where the command line names a file of this run, its name alone is kept.
        command = re.sub(r"\S*/([\w.-]+)", r"\1", line)
        text = "\n".join([f"$ {command}", *(sorted(lines) if is_sorted else lines), f"= {status}"])
        text = re.sub(r"\n\n+", "\n", text)
        if RECORDS:
            self.recorded.append(text)
            return output
        self.has_failed = True
        assert self.expected, f"`{command}` was not recorded"
        expected = self.expected.pop(0)
        difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), "Kafka", "here", lineterm="")
        assert text == expected, "\n".join(difference)
        self.has_failed = False
        return output

    def quietly(self, line, stdin=""):
        """Runs a command line that is no part of the comparison."""
        name, *arguments = shlex.split(line)
        output, status = self.tools.run(name, arguments, stdin)
        self.has_failed = status != 0
        assert not self.has_failed, f"{line}\n{output}"
        return output

    def finish(self):
        if RECORDS and not self.has_failed:
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text("".join(f"{text}\n\n" for text in self.recorded))
        assert self.has_failed or not self.expected, f"{len(self.expected)} recorded steps were not done"
