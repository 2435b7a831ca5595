//! Before the first record: both topics, and where the copy stands.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mainstem_client::{
    Acks, Client, ConfigResource, ConfigSource, ErrorCode, FetcherConfig, Isolation, NewTopic, Offset, OffsetSpec,
    ProducerConfig, Topic, TopicPartition,
};

use super::Cp;
use super::copy::{Copy, Track};
use super::fingerprint::fingerprint;
use super::state::{CopyState, PartitionState, Side};
use crate::cluster::ClusterOptions;
use crate::commands::ends::{self, Ends, leave_ended};
use crate::commands::topic::offsets::offsets;
use crate::commands::topic::partitions_of;
use crate::output::note;
use crate::output::progress::Progress;

/// How long a batch waits for more records.
const LINGER: Duration = Duration::from_millis(5);
/// For how long nothing may come to a destination before a copy is taken up again.
const QUIET: Duration = Duration::from_millis(500);

impl Copy {
    pub(super) async fn prepare(
        cp: &Cp,
        from: &ClusterOptions,
        to: &ClusterOptions,
        destination: &str,
        state_file: &Path,
    ) -> anyhow::Result<Copy> {
        let source_client = from.connect().await.context("source")?;
        let target_client = to.connect().await.context("destination")?;
        let source = source_client.topic(&cp.source).await;
        let source = source.map_err(|error| from.explain_topic(&cp.source, error).context("source"))?;
        let target = destination_topic(cp, &source_client, &target_client, from, to, &source, destination).await?;
        let sides = [side(&source_client, &source), side(&target_client, &target)];
        if sides[0] == sides[1] {
            bail!("source and destination are the same topic {}; name another destination", cp.source);
        }
        let keeps_times = keeps_times(&target_client, to, destination).await?;
        let source_partitions = partitions_of(&source);
        let known = CopyState::load(state_file)?;
        let target_ends = target_ends(&target_client, to, &target, known.is_some()).await?;
        let mut state = match known {
            Some(state) => {
                state.check(state_file, &sides[0], &sides[1])?;
                state
            }
            None => {
                check_empty(&target_client, to, &target, &target_ends, state_file).await?;
                let [source, destination] = sides;
                CopyState::new(source, destination, Vec::new())
            }
        };
        let starts = offsets(&source_client, from, &source_partitions, OffsetSpec::Earliest).await?;
        begin_partitions(&mut state, &source_partitions, &starts, &target, &target_ends);
        let tracks = tracks(&target_client, to, &target, &state, &target_ends, keeps_times).await?;

        let isolation = Isolation::ReadCommitted;
        let mut fetcher = source_client.fetcher(FetcherConfig { isolation, ..from.fetcher_config() });
        for (partition, at) in source_partitions.iter().zip(&state.partitions) {
            fetcher.assign(partition.clone(), Offset(at.source_next));
        }
        let wanted: Vec<_> = source_partitions.iter().map(|one| (one.clone(), OffsetSpec::Latest)).collect();
        let source_ends = source_client.list_offsets(&wanted, isolation).await;
        let source_ends = source_ends.map_err(|error| from.explain_topic(&cp.source, error))?;
        let source_ends: Ends = source_ends.into_iter().filter_map(|(one, end)| Some((one, end.offset?))).collect();
        let total = source_ends.values().zip(&state.partitions).map(|(end, at)| (end.0 - at.source_next).max(0));
        let total = total.sum::<i64>() as u64;
        let producer = target_client.producer(producer_config(cp, to));
        Ok(Copy {
            fetcher,
            producer,
            target: target.name.clone(),
            ends: (!cp.follow).then_some(source_ends),
            tracks,
            in_flight: std::collections::VecDeque::new(),
            state,
            state_file: state_file.to_owned(),
            copied: 0,
            found: 0,
            keeps_times,
            progress: Progress::new("records", (!cp.follow).then_some(total)),
            from: from.clone(),
            to: to.clone(),
            source: cp.source.clone(),
        })
    }
}

/// In order, each record once, and nothing behind one that failed.
fn producer_config(cp: &Cp, to: &ClusterOptions) -> ProducerConfig {
    ProducerConfig {
        acks: Acks::All,
        codec: cp.codec,
        linger: LINGER,
        idempotent: true,
        halt_on_failure: true,
        delivery_timeout: to.timeout(),
        ..Default::default()
    }
}

fn side(client: &Client, topic: &Topic) -> Side {
    Side {
        cluster_id: client.cluster_id().map(|id| id.to_string()),
        topic: topic.name.to_string(),
        topic_id: (!topic.id.is_zero()).then(|| topic.id.to_string()),
    }
}

/// The destination, which is created if it does not exist.
async fn destination_topic(
    cp: &Cp,
    source_client: &Client,
    target_client: &Client,
    from: &ClusterOptions,
    to: &ClusterOptions,
    source: &Topic,
    name: &str,
) -> anyhow::Result<Arc<Topic>> {
    let explain = |error| to.explain_topic(name, error).context("destination");
    match target_client.topic(name).await {
        Ok(topic) if topic.partitions.len() < source.partitions.len() => bail!(
            "the destination {name} has {} partitions and the source {}: `mainstem topic add-partitions {name} --to {}` \
             on the destination gives it as many",
            topic.partitions.len(),
            source.partitions.len(),
            source.partitions.len()
        ),
        Ok(topic) => return Ok(topic),
        Err(error) if error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {}
        Err(error) => return Err(explain(error)),
    }
    let settings = source_client.describe_configs(&ConfigResource::Topic(cp.source.clone())).await;
    let settings = settings.map_err(|error| from.explain_topic(&cp.source, error).context("source"))?;
    // Throttles name brokers of the source; our own settings mean nothing to others.
    let portable = |name: &str| !name.starts_with("mainstem.") && !name.ends_with(".replication.throttled.replicas");
    let own = settings.into_iter().filter(|entry| entry.source == ConfigSource::Topic && portable(&entry.name));
    let topic = NewTopic {
        name: name.to_owned(),
        partitions: i32::try_from(source.partitions.len()).ok(),
        replication_factor: cp.replication_factor,
        configs: own.filter_map(|entry| Some((entry.name, entry.value?))).collect(),
    };
    let created = target_client.create_topics(std::slice::from_ref(&topic), false).await.map_err(explain)?;
    for (_, result) in created {
        result.map_err(explain)?;
    }
    target_client.topic(name).await.map_err(explain)
}

/// Whether the destination takes the timestamps of records over.
async fn keeps_times(client: &Client, to: &ClusterOptions, name: &str) -> anyhow::Result<bool> {
    let settings = client.describe_configs(&ConfigResource::Topic(name.to_owned())).await;
    let settings = settings.map_err(|error| to.explain_topic(name, error).context("destination"))?;
    let is_append_time = |entry: &mainstem_client::ConfigEntry| {
        entry.name == "message.timestamp.type" && entry.value.as_deref() == Some("LogAppendTime")
    };
    let keeps = !settings.iter().any(is_append_time);
    if !keeps {
        note(&format!(
            "mainstem: the destination {name} has message.timestamp.type=LogAppendTime, so the copy does not keep timestamps"
        ));
    }
    Ok(keeps)
}

/// Where the destination ends. What a copy that was killed has sent may still be on its way: before it is taken up
/// again, the destination must be quiet.
async fn target_ends(client: &Client, to: &ClusterOptions, topic: &Topic, again: bool) -> anyhow::Result<Ends> {
    let partitions = partitions_of(topic);
    let begun = Instant::now();
    let mut ends = offsets(client, to, &partitions, OffsetSpec::Latest).await?;
    let mut quiet_since = Instant::now();
    while again && quiet_since.elapsed() < QUIET {
        tokio::time::sleep(QUIET / 5).await;
        let now = offsets(client, to, &partitions, OffsetSpec::Latest).await?;
        if now != ends {
            quiet_since = Instant::now();
            ends = now;
        }
        if begun.elapsed() > to.timeout() + QUIET {
            bail!("another program writes to the destination {}, or another copy still runs", topic.name);
        }
    }
    Ok(ends)
}

/// Without a state nobody can tell what is in a topic that holds something.
async fn check_empty(
    client: &Client,
    to: &ClusterOptions,
    topic: &Topic,
    ends: &Ends,
    state_file: &Path,
) -> anyhow::Result<()> {
    let starts = offsets(client, to, &partitions_of(topic), OffsetSpec::Earliest).await?;
    match ends.iter().find(|(partition, end)| starts.get(partition).is_some_and(|start| start < end)) {
        None => Ok(()),
        Some((partition, _)) => bail!(
            "the destination {partition} is not empty, and there is no state file {}: name the file of the copy that \
             wrote it with --state, or choose an empty topic",
            state_file.display()
        ),
    }
}

/// Partitions that the state does not have yet, all of them at first: from the beginning of the source. Where another
/// copy has begun with one and could not note it, what the destination has is compared from its beginning.
fn begin_partitions(state: &mut CopyState, partitions: &[TopicPartition], starts: &Ends, target: &Topic, ends: &Ends) {
    let is_new = state.partitions.is_empty();
    for partition in partitions.iter().skip(state.partitions.len()) {
        let same = TopicPartition { topic: target.name.clone(), partition: partition.partition };
        let end = ends.get(&same).map_or(0, |offset| offset.0);
        state.partitions.push(PartitionState {
            partition: partition.partition.0,
            source_next: starts.get(partition).map_or(0, |offset| offset.0),
            // A new copy's destination is empty, though perhaps not from its first offset on.
            destination_next: if is_new { end } else { 0 },
        });
    }
}

/// What each partition of the destination holds beyond the state: written by a copy that could not note it any more.
async fn tracks(
    client: &Client,
    to: &ClusterOptions,
    target: &Topic,
    state: &CopyState,
    ends: &Ends,
    keeps_times: bool,
) -> anyhow::Result<Vec<Track>> {
    let mut tracks = Vec::with_capacity(state.partitions.len());
    let mut fetcher = client.fetcher(to.fetcher_config());
    let starts = offsets(client, to, &partitions_of(target), OffsetSpec::Earliest).await?;
    for at in &state.partitions {
        let partition = TopicPartition::new(target.name.clone(), mainstem_client::PartitionIndex(at.partition));
        let end = ends.get(&partition).map_or(0, |offset| offset.0);
        if end < at.destination_next {
            bail!(
                "the destination {partition} ends at {end}, but {} records were copied to it: it has lost some, or is \
                 no longer the same; start again with an empty topic and another state file",
                at.destination_next
            );
        }
        let start = starts.get(&partition).map_or(0, |offset| offset.0);
        if at.destination_next.max(start) < end {
            fetcher.assign(partition, Offset(at.destination_next.max(start)));
        }
        tracks.push(Track { cursor: at.destination_next, end, tail: HashMap::new(), read_to: None });
    }
    loop {
        leave_ended(&mut fetcher, ends);
        if ends::is_empty(&fetcher) {
            return Ok(tracks);
        }
        let records = fetcher.poll(to.timeout()).await;
        for record in records.map_err(|error| to.explain_fetch(&target.name, error).context("destination"))? {
            if let Some(track) = usize::try_from(record.partition.0).ok().and_then(|index| tracks.get_mut(index)) {
                track.tail.insert(record.offset.0, fingerprint(&record, keeps_times));
            }
        }
    }
}
