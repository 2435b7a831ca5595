//! A broker, as its clients see it. Nothing is written.

use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use mainstem_client::Client;

use super::Check;
use crate::cluster::ClusterOptions;
use crate::process;

const CONNECT_FOR: Duration = Duration::from_secs(2);
const SLOW_ANSWER: Duration = Duration::from_millis(500);

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
    checks
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
