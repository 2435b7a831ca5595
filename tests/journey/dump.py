"""Kafka's own dump tool on the files of a folder."""

import re
import subprocess

from peers import KAFKA_SH

LIMIT_SECONDS = 120
# What the tool says of a file that is not as it should be; of some it throws. It takes -1 for the offset before each file's first one.
COMPLAINTS = re.compile(
    r"mismatch|^ *[0-9]+ is followed by|not found|out of order|isvalid: false|could not|corrupt|invalid|failed|exception|ignoring unknown",
    re.IGNORECASE)


def dump(files, *arguments):
    """What the tool prints, which must be no complaint; by file."""
    files = sorted(files)
    assert files
    command = [str(KAFKA_SH), "dump-log", *arguments, "--files", ",".join(map(str, files))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr
    complaints = [line for line in (run.stdout + run.stderr).splitlines() if COMPLAINTS.search(line.split(" key: ")[0].split(" payload: ")[0])]
    assert not complaints, complaints[:10]
    parts = re.split(r"^Dumping (.*)\n", run.stdout, flags=re.MULTILINE)
    printed = dict(zip(parts[1::2], parts[2::2]))
    assert printed.keys() == set(map(str, files))
    return printed
