//! A broker, as its clients see it. Nothing is written.

use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use mainstem_client::{Client, Isolation, OffsetSpec};
use mainstem_env::{Clock, RealClock};
use mainstem_types::{TimestampMs, TopicPartition};

use super::Check;
use crate::cluster::ClusterOptions;
use crate::process;

const CONNECT_FOR: Duration = Duration::from_secs(2);
const SLOW_ANSWER: Duration = Duration::from_millis(500);
/// Partitions whose newest timestamp is looked at: the broker may have to read for each.
const TIMESTAMPS_MAX: usize = 1000;

/// Who has the port, of this machine or another.
pub(super) fn look_at_port(address: &str, wanted: bool) -> Check {
    let first = address.split(',').next().unwrap_or(address);
    if is_somebody_there(first) {
        let process = process::behind(first).map_or(String::new(), |id| format!(", process {id}"));
        return Check::ok("port", format!("{first} answers{process}"));
    }
    if wanted {
        let advice = "start the broker, or check host, port and firewalls";
        return Check::wrong("port", format!("nothing answers at {first}"), advice);
    }
    match TcpListener::bind(first) {
        Ok(_) => Check::ok("port", format!("{first} is free")),
        Err(error) => {
            let advice = "use another address for the broker: mainstem serve --listen HOST:PORT";
            Check::wrong("port", format!("{first} cannot be used: {error}"), advice)
        }
    }
}

pub(super) fn is_somebody_there(address: &str) -> bool {
    let first = address.split(',').next().unwrap_or(address);
    let mut addresses = first.to_socket_addrs().into_iter().flatten();
    addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_FOR).is_ok())
}

/// Asks for versions, the cluster and its topics.
pub(super) async fn look(cluster: &ClusterOptions) -> Vec<Check> {
    let begun = Instant::now();
    let client = match cluster.connect().await {
        Ok(client) => client,
        Err(error) => {
            let advice =
                "it is not a broker, or it needs TLS or a login, which this command does not support; check its log";
            return vec![Check::wrong("broker", format!("{error:#}"), advice)];
        }
    };
    let mut checks = Vec::new();
    match client.describe_cluster().await {
        Err(error) => {
            let error = cluster.explain(error);
            let advice = "clients connect to the address that the broker advertises: check advertised.listeners";
            checks.push(Check::wrong("broker", format!("{error:#}"), advice));
            return checks;
        }
        Ok(described) => {
            let elapsed = begun.elapsed();
            let detail = format!(
                "cluster {}, {} brokers, answered in {} ms",
                described.cluster_id,
                described.brokers.len(),
                elapsed.as_millis()
            );
            checks.push(match described.controller {
                None => Check::wrong(
                    "broker",
                    format!("{detail}; there is no controller"),
                    "check the logs of the controllers",
                ),
                Some(_) if elapsed > SLOW_ANSWER => {
                    Check::warning("broker", detail, "the broker or the network is slow: check both")
                }
                Some(_) => Check::ok("broker", detail),
            });
        }
    }
    checks.push(topics(&client, cluster).await);
    checks.extend(timestamps(&client).await);
    checks
}

/// Whether the newest timestamp of each partition is one in milliseconds. Nothing where that cannot be known: an old
/// Kafka, or a partition without a leader, which was said already.
async fn timestamps(client: &Client) -> Option<Check> {
    let topics = client.list_topics(false).await.ok()?;
    let partitions = topics.iter().flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.iter().map(move |one| TopicPartition::new(name.as_str(), one.index))
    });
    let wanted: Vec<_> = partitions.take(TIMESTAMPS_MAX).map(|one| (one, OffsetSpec::MaxTimestamp)).collect();
    let found = client.list_offsets(&wanted, Isolation::ReadUncommitted).await.ok()?;
    let now = RealClock::new().wall_ms();
    Some(judge_timestamps(found.iter().map(|(partition, listed)| (partition, listed.timestamp)), now))
}

fn judge_timestamps<'p>(newest: impl Iterator<Item = (&'p TopicPartition, TimestampMs)>, now: TimestampMs) -> Check {
    let mut looked_at = 0;
    let counted = newest.inspect(|_| looked_at += 1);
    let wrong: Vec<_> =
        counted.filter_map(|(partition, time)| Some((partition, time, time.other_unit(now)?))).collect();
    let Some((partition, time, unit)) = wrong.first() else {
        return Check::ok("timestamps", format!("the newest timestamps of {looked_at} partitions look right"));
    };
    let detail = format!(
        "{} of {looked_at} partitions have timestamps in a wrong unit, for example {partition}: {time} looks like {unit}",
        wrong.len()
    );
    let advice = "retention deletes such records too early or never: let the producer give milliseconds, or set \
                  message.timestamp.type=LogAppendTime for the topic";
    Check::warning("timestamps", detail, advice)
}

async fn topics(client: &Client, cluster: &ClusterOptions) -> Check {
    let topics = match client.list_topics(true).await {
        Ok(topics) => topics,
        Err(error) => {
            let error = cluster.explain(error);
            return Check::wrong("topics", format!("{error:#}"), "check the log of the broker");
        }
    };
    let partitions =
        || topics.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)));
    let count = partitions().count();
    let name = |(topic, partition): (&std::sync::Arc<mainstem_client::Topic>, &mainstem_client::Partition)| {
        format!("{}-{}", topic.name, partition.index)
    };
    let leaderless: Vec<String> = partitions()
        .filter(|(_, partition)| partition.leader.is_none() || !partition.offline.is_empty())
        .map(name)
        .collect();
    let behind: Vec<String> =
        partitions().filter(|(_, partition)| partition.in_sync.len() < partition.replicas.len()).map(name).collect();
    if let Some(first) = leaderless.first() {
        let detail = format!(
            "{} of {count} partitions have no leader or an offline replica, for example {first}",
            leaderless.len()
        );
        let advice =
            "the broker's log says why; stop the broker and run `mainstem verify` on its folder to see what is damaged";
        return Check::wrong("topics", detail, advice);
    }
    if let Some(first) = behind.first() {
        let detail =
            format!("{} of {count} partitions have replicas that are not in sync, for example {first}", behind.len());
        return Check::warning("topics", detail, "check whether a broker is down or slow");
    }
    Check::ok("topics", format!("{} topics, {count} partitions; all have a leader", topics.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Status;
    use mainstem_types::PartitionIndex;

    #[test]
    fn timestamps_in_a_wrong_unit_are_told_with_an_example() {
        let now = TimestampMs(1_790_000_000_000);
        let [good, bad] = [0, 1].map(|index| TopicPartition::new("orders", PartitionIndex(index)));
        let check = judge_timestamps([(&good, now), (&good, TimestampMs::NONE)].into_iter(), now);
        assert_eq!((check.status, check.advice), (Status::Ok, None));
        let check = judge_timestamps([(&good, now), (&bad, TimestampMs(1_789_999_999_000_000))].into_iter(), now);
        assert_eq!(check.status, Status::Warning);
        for part in ["1 of 2", "orders-1: 1789999999000000", "microseconds"] {
            assert!(check.detail.contains(part), "{check:?}");
        }
        assert!(check.advice.unwrap().contains("message.timestamp.type=LogAppendTime"));
    }
}
