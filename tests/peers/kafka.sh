#!/usr/bin/env bash
# A real Apache Kafka, and its command line tools against any broker.
#   kafka.sh install                      fetch the jars (every other command does it too, once)
#   kafka.sh serve DATA_DIR PORT [k=v…]   one node in the foreground on 127.0.0.1:PORT (its controller: PORT + 1, or CONTROLLER_PORT);
#                                         a folder that holds no Kafka data yet is formatted first; k=v are server properties
#                                         FORMAT: more arguments for formatting; with --standalone the voters are in the log (kraft.version 1)
#   kafka.sh format DATA_DIR PORT [k=v…]  formats a folder as `serve` does, and starts nothing
#   kafka.sh TOOL args…                   see the table below
# MAINSTEM_CLIENTS_DIR: where jars are kept (default: target/clients of this checkout). HEAP: the broker's heap (default 512m).
# LOG: what the broker says (default warn).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
store=${MAINSTEM_CLIENTS_DIR:-$here/../../target/clients}
jars=$store/kafka
cluster_id=TWFpbnN0ZW1UZXN0cy0tMQ

declare -A tools=(
  [topics]=org.apache.kafka.tools.TopicCommand
  [configs]=org.apache.kafka.tools.ConfigCommand
  [console-producer]=org.apache.kafka.tools.ConsoleProducer
  [console-consumer]=org.apache.kafka.tools.consumer.ConsoleConsumer
  [consumer-groups]=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand
  [get-offsets]=org.apache.kafka.tools.GetOffsetShell
  [producer-perf]=org.apache.kafka.tools.ProducerPerformance
  [consumer-perf]=org.apache.kafka.tools.ConsumerPerformance
  [verifiable-producer]=org.apache.kafka.tools.VerifiableProducer
  [verifiable-consumer]=org.apache.kafka.tools.VerifiableConsumer
  [broker-api-versions]=org.apache.kafka.tools.BrokerApiVersionsCommand
  [cluster]=org.apache.kafka.tools.ClusterTool
  [delete-records]=org.apache.kafka.tools.DeleteRecordsCommand
  [log-dirs]=org.apache.kafka.tools.LogDirsCommand
  [leader-election]=org.apache.kafka.tools.LeaderElectionCommand
  [reassign]=org.apache.kafka.tools.reassign.ReassignPartitionsCommand
  [metadata-quorum]=org.apache.kafka.tools.MetadataQuorumCommand
  [dump-log]=org.apache.kafka.tools.DumpLogSegments
)

install() {
  local stamp
  stamp=$(cksum <"$here/kafka/pom.xml" | tr -d ' ')
  [ "$(cat "$jars/.stamp" 2>/dev/null || true)" = "$stamp" ] && return
  rm -rf "$jars"
  mkdir -p "$jars"
  mvn -q -B -Dmaven.repo.local="$store/maven" -f "$here/kafka/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$jars" -DincludeScope=runtime >&2
  echo "$stamp" >"$jars/.stamp"
}

# Runs a class of the tools: short runs, so little is compiled.
tool() {
  exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/*" "$@"
}

# Writes the properties, and formats a folder that is new.
format() {
  local data=$1 port=$2 controller=${CONTROLLER_PORT:-$(($2 + 1))} pair
  local settings=$data.server.properties quorum=controller.quorum.voters=1@127.0.0.1:$controller
  shift 2
  case " ${FORMAT:-} " in
    *" --standalone "*) quorum=controller.quorum.bootstrap.servers=127.0.0.1:$controller ;;
  esac
  mkdir -p "$data"
  cat >"$settings" <<P
process.roles=broker,controller
node.id=1
$quorum
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=$data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=8
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
P
  for pair in "$@"; do echo "$pair" >>"$settings"; done
  if [ ! -f "$data/meta.properties" ]; then
    java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$jars/*" kafka.tools.StorageTool format -t $cluster_id -c "$settings" ${FORMAT:-} >&2
  fi
}

serve() {
  format "$@"
  exec java -Xmx"${HEAP:-512m}" -Xms"${HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \
    -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG:-warn}" -cp "$jars/*" kafka.Kafka "$1.server.properties"
}

command=${1:-help}
shift $(($# > 0))
case $command in
  install) install ;;
  serve | format)
    [ $# -ge 2 ] || { echo "usage: kafka.sh $command DATA_DIR PORT [key=value…]" >&2; exit 2; }
    install
    "$command" "$@" ;;
  *)
    [ -n "${tools[$command]:-}" ] || { sed -n '2,10s/^# //p' "$0"; echo "tools: ${!tools[*]}"; exit 2; }
    install
    tool "${tools[$command]}" "$@" ;;
esac
