"""Kafka's own tools print the same as against a real Kafka; see parity.py."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from parity import Session, Tools
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tools(bootstrap):
    store = Path(os.environ.get("MAINSTEM_CLIENTS_DIR", ROOT / "target" / "clients"))
    subprocess.run([ROOT / "tests" / "peers" / "kafka.sh", "install"], check=True)
    running = Tools(store / "kafka", bootstrap)
    yield running
    running.close()


@pytest.fixture
def step(tools, request):
    session = Session(tools, request.node.name.removeprefix("test_"))
    yield session
    session.finish()


# Where this broker says the same in words of its own.
OWN_WORDS = [(r"(Exception: |had an error: |topic command : ).*", r"\1…")]


def topic(step, name, partitions=1, *configs):
    settings = " ".join(f"--config {config}" for config in configs)
    step.quietly(f"topics --create --topic {name} --partitions {partitions} --replication-factor 1 {settings}")


def lines(prefix, count):
    return "".join(f"{prefix}{number}\n" for number in range(count))


def produce(step, name):
    """Ten records, the same number to each partition."""
    partitioner = "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"
    step.quietly(f"console-producer --topic {name} --sync --timeout 1 --command-property {partitioner}", stdin=lines("v", 10))


def written(path, value):
    path.write_text(json.dumps(value))
    return path


def test_topics(step):
    step("topics --create --topic parity-topics --partitions 3 --replication-factor 1 --config retention.ms=3600000 --config cleanup.policy=compact,delete")
    step("topics --create --topic parity-topics --partitions 3")
    step("topics --create --topic parity-topics --if-not-exists")
    step("topics --create --topic parity-topics-default")
    step("topics --create --topic parity.topics")
    step("topics --create --topic parity-topics-assigned --replica-assignment 1,1")
    step("topics --create --topic parity-topics-2 --partitions 0")
    step("topics --create --topic parity-topics-2 --replication-factor 2")
    step("topics --create --topic parity-topics-2 --config no.such=1")
    step("topics --create --topic parity-topics-2 --config retention.ms=soon")
    step("topics --create --topic not/valid", masks=OWN_WORDS)
    step("topics --create --topic parity_topics")
    step("topics --list --topic parity.topics.*", is_sorted=True)
    step("topics --list --topic parity.topics.* --exclude-internal", is_sorted=True)
    described = step("topics --describe --topic parity-topics")
    step("topics --describe --topic parity-topics.*", is_sorted=True)
    step("topics --describe --topic parity-topics.* --topics-with-overrides")
    for state in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        step(f"topics --describe --topic parity-topics.* --{state}-partitions", is_sorted=True)
    step("topics --describe --topic parity-topics.* --exclude-internal --partition-size-limit-per-response 2", is_sorted=True)
    topic_id = re.search(r"TopicId: (\S+)", described)[1]
    step.quietly(f"topics --describe --topic-id {topic_id}")
    step("topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ")
    step("topics --describe --topic nowhere")
    step("topics --describe --topic nowhere --if-exists")
    step("topics --alter --topic parity-topics --partitions 5")
    step("topics --alter --topic parity-topics --partitions 4")
    step("topics --alter --topic nowhere --partitions 4")
    step("topics --alter --topic nowhere --partitions 4 --if-exists")
    step("topics --describe --topic parity-topics")
    step("topics --delete --topic parity-topics")
    step("topics --delete --topic nowhere")
    step("topics --delete --topic nowhere --if-exists")
    step("topics --delete --topic parity.topics.*")
    step("topics --list --topic parity.topics.*")


def test_configs_of_topics(step):
    topic(step, "parity-configs")
    entity = "--entity-type topics --entity-name parity-configs"
    step(f"configs {entity} --describe")
    step(f"configs {entity} --alter --add-config segment.bytes=20971520,cleanup.policy=[compact,delete]")
    step(f"configs {entity} --describe")
    step(f"configs {entity} --describe --all", only=r"^(?!  mainstem\.)", is_sorted=True)
    step(f"configs {entity} --alter --delete-config segment.bytes,retention.ms")
    step(f"configs {entity} --alter --delete-config no.such")
    step(f"configs {entity} --alter --add-config retention.ms=soon")
    step(f"configs {entity} --alter --add-config no.such=1")
    step(f"configs {entity} --describe")
    step("configs --entity-type topics --entity-name nowhere --describe")
    step("configs --entity-type topics --entity-name nowhere --alter --add-config retention.ms=1000")
    step("configs --entity-type topics --describe", only="parity-configs")


# Settings of the two brokers that are started differently, and those that no two Kafkas share.
OF_THE_START = r"^  (mainstem\.|log\.dirs?=|listeners=|advertised\.listeners=|listener\.security|controller\.|process\.roles|node\.id|broker\.id|num\.network\.threads|transaction\.state|share\.coordinator\.state|offsets\.topic|group\.initial|unstable|metadata\.log\.dir|socket\.request|super)"


def test_configs_of_brokers(step):
    one, every = "--entity-type brokers --entity-name 1", "--entity-type brokers --entity-default"
    step(f"configs {one} --describe --all", only=rf"(?!{OF_THE_START})^", is_sorted=True)
    step(f"configs {every} --alter --add-config log.retention.ms=86400000,log.cleaner.threads=2")
    step(f"configs {every} --describe", is_sorted=True)
    step(f"configs {one} --alter --add-config log.retention.ms=43200000,max.connections=1000")
    # A Kafka applies it a moment after it has said so.
    wait_until(lambda: "log.retention.ms=43200000" in step.quietly(f"configs {one} --describe"), "the setting applies")
    step(f"configs {one} --describe", is_sorted=True)
    step(f"configs {one} --alter --delete-config log.retention.ms,max.connections")
    step(f"configs {one} --alter --delete-config log.retention.ms")
    step(f"configs {every} --alter --delete-config log.retention.ms,log.cleaner.threads")
    step(f"configs {one} --describe", is_sorted=True)
    for wrong in ("log.retention.ms=soon", "node.id=7", "num.io.threads=1000", "max.connections=0"):
        step(f"configs {one} --alter --add-config {wrong}", only="^java|Completed", masks=OWN_WORDS)
    step("configs --entity-type brokers --entity-name 7 --describe", only="Timed|Exception|configs for")
    step("configs --entity-type brokers --entity-name one --describe")


def test_configs_of_loggers(step):
    one = "--entity-type broker-loggers --entity-name 1"
    step(f"configs {one} --alter --add-config root=WARN")
    step(f"configs {one} --describe", only="^Dynamic|root=")
    step(f"configs {one} --alter --add-config root=LOUD")
    step(f"configs {one} --alter --add-config no.such.logger=WARN")
    step(f"configs {one} --alter --delete-config root")
    step(f"configs {one} --alter --add-config root=ERROR")
    step(f"configs {one} --describe", only="^Dynamic|root=")
    step("configs --entity-type broker-loggers --entity-name 7 --describe", only="Exception|configs for|Timed")


def test_consumer_groups(step, tools, tmp_path):
    group, both = "parity-group", "--topic parity-group-a --topic parity-group-b"
    for name in ("parity-group-a", "parity-group-b"):
        topic(step, name, 2)
        produce(step, name)
    reset = f"consumer-groups --group {group} --reset-offsets"
    step(f"{reset} {both} --to-latest --execute", is_sorted=True)
    step("consumer-groups --list", only="^parity-group$")
    step("consumer-groups --list --state", only="STATE|^parity-group ")
    step("consumer-groups --list --state Empty", only="STATE|^parity-group ")
    step("consumer-groups --list --state Stable", only="STATE|^parity-group ")
    step("consumer-groups --list --type classic", only="TYPE|^parity-group ")
    step("consumer-groups --list --state nonsense", only="Exception|Invalid|parity", masks=[(r"(?<=Valid states are: ).*", "STATES")])
    for what in ("", "--offsets", "--members", "--members --verbose", "--state", "--offsets --verbose", "--state --verbose"):
        step(f"consumer-groups --describe --group {group} {what}", is_sorted=True)
    step(f"consumer-groups --describe --group {group} --group nobody", is_sorted=True)
    for how in ("--to-earliest", "--to-current", "--to-offset 3", "--to-offset 100", "--to-offset -1", "--shift-by -1", "--shift-by 100",
                "--to-datetime 2020-01-01T00:00:00.000", "--to-datetime 2100-01-01T00:00:00.000", "--by-duration P1D", "--by-duration nonsense"):
        step(f"{reset} {both} {how} --dry-run", is_sorted=True)
        step(f"{reset} --topic parity-group-a:0 {how} --execute", is_sorted=True)
    step(f"{reset} --all-topics --to-earliest --execute", is_sorted=True)
    step(f"{reset} --topic nowhere --to-earliest --execute")
    step(f"{reset} {both} --to-earliest")
    plan = tmp_path / "plan.csv"
    plan.write_text("parity-group-a,0,2\nparity-group-b,1,3\n")
    step(f"{reset} --from-file {plan} --dry-run", is_sorted=True)
    step(f"{reset} --from-file {plan} --execute", is_sorted=True)
    step(f"{reset} --all-topics --to-current --export --dry-run", is_sorted=True)
    step("consumer-groups --group parity-other --reset-offsets --topic parity-group-a --to-earliest --execute", is_sorted=True)
    tools.ask({"join": group, "topic": "parity-group-a", "bootstrap": tools.bootstrap})
    for what in ("--offsets", "--members", "--members --verbose", "--state", "--state --verbose", "--offsets --verbose"):
        step(f"consumer-groups --describe --group {group} {what}", is_sorted=True)
    step("consumer-groups --list --state", only="STATE|^parity-group ")
    step(f"{reset} --topic parity-group-a --to-earliest --execute")
    step(f"consumer-groups --delete --group {group}", only="Error|Exception|Deletion")
    step(f"consumer-groups --delete-offsets --group {group} --topic parity-group-a", is_sorted=True)
    step(f"consumer-groups --delete-offsets --group {group} --topic parity-group-b:1", is_sorted=True)
    tools.ask({"leave": group})
    step(f"consumer-groups --delete-offsets --group {group} --topic parity-group-a --topic nowhere", is_sorted=True)
    step(f"consumer-groups --describe --group {group} --offsets", is_sorted=True)
    step(f"consumer-groups --delete --group {group} --group nobody", is_sorted=True)
    step(f"consumer-groups --delete --group {group}", only="Error|Exception|Deletion")
    step(f"consumer-groups --describe --group {group}")


def test_groups(step):
    topic(step, "parity-groups")
    step.quietly("consumer-groups --group parity-groups --reset-offsets --topic parity-groups --to-earliest --execute")
    step("groups --list", only="GROUP|parity-groups")
    for what in ("--group-type classic", "--group-type consumer", "--group-type share", "--protocol consumer", "--consumer", "--share", "--streams"):
        step(f"groups --list {what}", only="GROUP|parity-groups")


def test_configs_of_groups(step):
    step("configs --entity-type groups --entity-name nobody --describe")
    topic(step, "parity-group-configs")
    step.quietly("consumer-groups --group parity-group-configs --reset-offsets --topic parity-group-configs --to-earliest --execute")
    step("configs --entity-type groups --entity-name parity-group-configs --describe")
    step("configs --entity-type groups --describe", only="parity-group-configs")


def test_delete_records(step, tmp_path):
    topic(step, "parity-records", 2)
    topic(step, "parity-records-compacted", 1, "cleanup.policy=compact")
    produce(step, "parity-records")
    for offsets in ([(0, 3), (1, -1)], [(0, 1)], [(0, 100)]):
        wanted = [{"topic": "parity-records", "partition": partition, "offset": offset} for partition, offset in offsets]
        plan = written(tmp_path / "plan.json", {"partitions": wanted, "version": 1})
        step(f"delete-records --offset-json-file {plan}", is_sorted=True)
    compacted = [{"topic": "parity-records-compacted", "partition": 0, "offset": 0}]
    plan = written(tmp_path / "plan.json", {"partitions": compacted, "version": 1})
    step(f"delete-records --offset-json-file {plan}")


def test_log_dirs(step):
    topic(step, "parity-dirs", 2)
    masks = [(r'"logDir":"[^"]*"', '"logDir":"FOLDER"'), (r'"(totalBytes|usableBytes)":\d+', r'"\1":N')]
    step("log-dirs --describe --topic-list parity-dirs --broker-list 1", masks=masks, only="^(?!{)")
    step("log-dirs --describe --topic-list parity-dirs --broker-list 7", masks=masks)
    step("log-dirs --describe --topic-list nowhere", masks=masks)


def test_get_offsets(step):
    topic(step, "parity-offsets", 2)
    produce(step, "parity-offsets")
    topic(step, "parity-offsets-empty")
    for time in ("", "--time latest", "--time earliest", "--time max-timestamp", "--time earliest-local", "--time latest-tiered",
                 "--time earliest-pending-upload", "--time -1", "--time -2", "--time -3", "--time -4", "--time -5", "--time -6", "--time 0",
                 "--time 4102444800000", "--time nonsense"):
        step(f"get-offsets --topic parity-offsets.* {time}")
    step("get-offsets --topic parity-offsets --partitions 1")
    step("get-offsets --topic-partitions parity-offsets:0-1,parity-offsets-empty:0")
    step("get-offsets --topic nowhere")
    step("get-offsets --topic parity-offsets --exclude-internal-topics")


def test_features(step):
    here = "^(?!Feature: (group|kraft|share|streams|transaction).version)"
    epoch = [(r"Epoch: \d+", "Epoch: N")]
    step("features describe", only=here, masks=epoch)
    step("features upgrade --feature metadata.version=33 --dry-run")
    step("features upgrade --feature eligible.leader.replicas.version=1 --dry-run")
    step("features upgrade --feature eligible.leader.replicas.version=2 --dry-run", only="Could|The update")
    step("features upgrade --feature no.such.feature=1")
    step("features downgrade --feature eligible.leader.replicas.version=0 --dry-run")
    step("features downgrade --feature metadata.version=25")
    step("features downgrade --feature metadata.version=25 --unsafe")
    step("features disable --feature no.such.feature --dry-run", masks=OWN_WORDS)
    step("features describe", only=here, masks=epoch)


def test_metadata_quorum(step):
    masks = [
        (r"^ClusterId: +\S+", "ClusterId: ID"),
        (r"^(LeaderEpoch|HighWatermark|MaxFollowerLagTimeMs): +-?\d+", r"\1: N"),
        (r"CONTROLLER://127.0.0.1:\d+|PLAINTEXT://127.0.0.1:\d+", "ADDRESS"),
        (r"^1\s+\S+\s+\d+\s+(\d+)\s+.*(Leader|Observer)\s*$", r"1 ID N \1 TIMES \2"),
        (r"^NodeId.*$", "NodeId …"),
    ]
    step("metadata-quorum describe --status", masks=masks)
    step("metadata-quorum describe --replication", masks=masks)
    step("metadata-quorum describe --replication --human-readable", masks=masks)


def test_leader_election(step, tmp_path):
    topic(step, "parity-elect", 2)
    for kind in ("preferred", "unclean"):
        step(f"leader-election --election-type {kind} --topic parity-elect --partition 0")
    step("leader-election --election-type preferred --topic parity-elect --partition 7", only="Error|Exception|exist")
    step("leader-election --election-type preferred --topic nowhere --partition 0", only="Error|Exception|exist")
    plan = written(tmp_path / "elect.json", {"partitions": [{"topic": "parity-elect", "partition": number} for number in (0, 1)]})
    step(f"leader-election --election-type preferred --path-to-json-file {plan}", only="elected")
    step("leader-election --election-type preferred --all-topic-partitions")


def test_reassign(step, tmp_path):
    topic(step, "parity-reassign", 2)
    move = written(tmp_path / "topics.json", {"topics": [{"topic": "parity-reassign"}], "version": 1})
    masks = [(r'"log_dirs":\["[^"]*"\]', '"log_dirs":["FOLDER"]')]
    step(f"reassign --generate --topics-to-move-json-file {move} --broker-list 1", masks=masks)
    step(f"reassign --generate --topics-to-move-json-file {move} --broker-list 7", masks=masks, only="Error|Exception|Broker")
    stay = [{"topic": "parity-reassign", "partition": number, "replicas": [1]} for number in (0, 1)]
    plan = written(tmp_path / "plan.json", {"version": 1, "partitions": stay})
    step("reassign --list")
    step(f"reassign --execute --reassignment-json-file {plan}", masks=masks)
    step(f"reassign --verify --reassignment-json-file {plan}", is_sorted=True)
    step(f"reassign --cancel --reassignment-json-file {plan}")
    for replicas in ([7], [1, 1], []):
        away = [{"topic": "parity-reassign", "partition": 0, "replicas": replicas}]
        plan = written(tmp_path / "plan.json", {"version": 1, "partitions": away})
        step(f"reassign --execute --reassignment-json-file {plan}", only="Error|Exception|null|empty|unknown")


def test_streams_reset(step):
    topic(step, "parity-streams-in", 2)
    topic(step, "parity-streams-app-store-changelog")
    topic(step, "parity-streams-app-store-repartition")
    produce(step, "parity-streams-in")
    step.quietly("consumer-groups --group parity-streams-app --reset-offsets --topic parity-streams-in --to-latest --execute")
    app = "streams-reset --application-id parity-streams-app --input-topics parity-streams-in"
    step(f"{app} --dry-run", is_sorted=True)
    step(f"{app} --to-offset 1 --dry-run", is_sorted=True)
    step(f"{app} --force", is_sorted=True)
    step("consumer-groups --describe --group parity-streams-app --offsets", is_sorted=True)
    step("topics --list --topic parity-streams.*", is_sorted=True)
    step("streams-reset --application-id nobody --input-topics nowhere", is_sorted=True)


def test_dump_log(step, tools):
    topic(step, "parity-dump")
    step.quietly("console-producer --topic parity-dump --sync --timeout 1 --reader-property parse.key=true --reader-property parse.headers=true",
                 stdin="h:1\tk1\tv1\n" + "NULL\tk2\tschlüssel\n".replace("NULL", "h:2"))
    step.quietly("console-producer --topic parity-dump --sync --timeout 1 --compression-codec zstd", stdin=lines("v", 5))
    described = tools.run("log-dirs", ["--describe", "--topic-list", "parity-dump"])[0]
    folder = json.loads(next(line for line in described.splitlines() if line.startswith("{")))["brokers"][0]["logDirs"][0]["logDir"]
    files = f"--files {folder}/parity-dump-0/00000000000000000000.log"
    masks = [(r"CreateTime: \d+", "CreateTime: T"), (r"crc: \d+", "crc: C"), (r"^Dumping .*", "Dumping FILE"), (r"\b(position|size): \d+", r"\1: N"),
             (r"producerId: \d+", "producerId: P")]
    for how in ("", "--deep-iteration", "--print-data-log", "--skip-record-metadata --print-data-log", "--max-bytes 10"):
        step(f"dump-log {files} {how}", masks=masks)


def test_e2e_latency(step):
    topic(step, "parity-latency")
    step("e2e-latency --topic parity-latency --num-records 100 --producer-acks all --record-size 20", masks=[(r"\d+[.,]\d+", "N"), (r"= \d+", "= N"), (r"\b\d+\t", "")])


def test_cluster(step):
    step("cluster cluster-id", masks=[(r"Cluster ID: \S{22}", "Cluster ID: ID")])
    step("cluster unregister --id 77")
    step("cluster list-endpoints", masks=[(r"\d{4,5}", "PORT"), (r" +", " ")])
