#!/usr/bin/env bash
# Asks a real Kafka for the answers that the tests of the Kafka door compare with, and writes them to recordings/.
#   record.sh [SCRIPT…]     all scripts, or those whose names contain one of these words
# It starts a fresh Kafka (Java, Maven) on a free port of 127.0.0.1, and stops it afterwards. Read the changes with
# `git diff` before they are committed: a recording is what this broker is measured with.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free_port)
stop() {
  [ -n "${kafka:-}" ] && kill "$kafka" 2>/dev/null && wait "$kafka" 2>/dev/null || true
  rm -rf "$scratch"
}
trap stop EXIT

CONTROLLER_PORT=$(free_port) "$here/../peers/kafka.sh" serve "$scratch/data" "$port" \
  offsets.topic.num.partitions=3 >"$scratch/log" 2>&1 &
kafka=$!
for _ in $(seq 600); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
  kill -0 "$kafka" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
  sleep 0.2
done

cd "$here/../.."
filters=("${@:-oracle::scripts}")
MAINSTEM_RECORD_FROM=127.0.0.1:$port cargo test -q -p mainstem-kafka --test behaviour -- --test-threads=1 "${filters[@]}"
echo "recorded from Kafka; now compare: cargo test -p mainstem-kafka --test behaviour"
