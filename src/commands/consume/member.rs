//! Reading as a member of a consumer group: the group says which partitions, and they may change.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::anyhow;
use mainstem_client::{
    Client, CommittedOffset, ErrorCode, FetchError, FetchedRecord, Fetcher, Membership, MembershipChange,
    MembershipConfig, OffsetSpec, TopicPartition,
};

use super::{COMMIT_EVERY, Consume, LOOK, Printed, Reading, offsets_of};
use crate::commands::ends::{self, Ends, leave_ended};
use crate::output::note;

/// Records that are printed between two looks at the group and the clock.
const SLICE: usize = 100;

impl Consume {
    /// The membership of `--group`, not joined yet.
    pub(super) async fn membership(&self, client: &Client, group: &str) -> anyhow::Result<Membership> {
        let topics = self.topics(client).await?;
        let names = topics.iter().map(|topic| topic.name.to_string()).collect();
        let config = MembershipConfig { instance_id: self.instance_id.clone(), ..MembershipConfig::new(group, names) };
        Ok(client.membership(config))
    }

    pub(super) async fn read_as_member(
        &self,
        client: &Client,
        membership: &mut Membership,
        reading: &mut Reading<'_>,
    ) -> anyhow::Result<()> {
        let mut fetcher = self.fetcher(client);
        let mut ends = self.join(client, membership, &mut fetcher, reading.printed).await?;
        let mut commit_next = Instant::now() + COMMIT_EVERY;
        loop {
            if let Some(change) = membership.change() {
                reading.output.flush()?;
                match change {
                    // The others wait for this member: they go on where it stopped.
                    MembershipChange::Rebalance => self.commit(membership, reading.printed).await?,
                    MembershipChange::Lost => lost(reading.printed),
                    MembershipChange::Fenced => {
                        reading.printed.next.clear();
                        return Err(fenced());
                    }
                }
                ends = self.join(client, membership, &mut fetcher, reading.printed).await?;
            }
            if let Some(ends) = &ends {
                leave_ended(&mut fetcher, ends);
                if ends::is_empty(&fetcher) {
                    return Ok(());
                }
            }
            let records = if ends::is_empty(&fetcher) {
                tokio::time::sleep(LOOK).await;
                Vec::new()
            } else {
                self.look(&mut fetcher, reading).await?
            };
            if self.print_in_slices(membership, reading, &records, ends.as_ref(), &mut commit_next).await? {
                return Ok(());
            }
        }
    }

    /// Prints so that a slow reader of the output delays neither commits nor a rebalance. After a change the rest of
    /// the records is left out: the member that has the partition next reads it again. True: `--count` is reached.
    async fn print_in_slices(
        &self,
        membership: &mut Membership,
        reading: &mut Reading<'_>,
        records: &[FetchedRecord],
        ends: Option<&Ends>,
        commit_next: &mut Instant,
    ) -> anyhow::Result<bool> {
        let mut rest = records;
        loop {
            let (slice, after) = rest.split_at(rest.len().min(SLICE));
            // An empty one, too: it looks whether anybody reads the output.
            if reading.print(self, slice, ends)? {
                return Ok(true);
            }
            if Instant::now() >= *commit_next {
                self.commit(membership, reading.printed).await?;
                *commit_next = Instant::now() + COMMIT_EVERY;
            }
            rest = after;
            if rest.is_empty() || membership.change().is_some() {
                return Ok(false);
            }
        }
    }

    /// The next records; none after a while. A partition that does not have its position any more goes on where
    /// `--from` says: a group is read on even if it was away for longer than the records were retained.
    async fn look(&self, fetcher: &mut Fetcher, reading: &mut Reading<'_>) -> anyhow::Result<Vec<FetchedRecord>> {
        let (partition, position) = match fetcher.poll(LOOK).await {
            Err(FetchError::OutOfRange { partition, position, .. }) => (partition, position),
            other => return self.found(other, reading),
        };
        let now =
            |fetcher: &Fetcher| fetcher.positions().find(|(one, _)| **one == partition).map(|(_, at)| at.position);
        // What is told may be of a partition that another member has by now.
        if now(fetcher) != Some(position) {
            return Ok(Vec::new());
        }
        let assigned = fetcher.assign_at(std::slice::from_ref(&partition), self.start()).await;
        assigned.map_err(|error| self.cluster.explain_fetch(&partition.topic, error))?;
        if let Some(start) = now(fetcher) {
            note(&format!(
                "mainstem: {partition} does not have the group's offset {position}: its oldest records were deleted, or \
                 the topic was created anew; the group goes on at offset {start}"
            ));
            reading.printed.next.insert(partition, start);
        }
        Ok(Vec::new())
    }

    /// Joins, and turns to the partitions that the group gives. Gives their ends, unless `--follow` goes beyond.
    async fn join(
        &self,
        client: &Client,
        membership: &mut Membership,
        fetcher: &mut Fetcher,
        printed: &mut Printed,
    ) -> anyhow::Result<Option<Ends>> {
        let before: Vec<_> = fetcher.positions().map(|(partition, _)| partition.clone()).collect();
        before.iter().for_each(|partition| fetcher.unassign(partition));
        let joined = membership.join().await.map_err(|error| self.explain_group(error))?;
        let partitions: Vec<TopicPartition> = joined.keys().cloned().collect();
        self.tell(membership, &partitions);
        let with_offset = |(partition, at): (_, Option<CommittedOffset>)| Some((partition, at?.offset));
        let committed: BTreeMap<_, _> = joined.into_iter().filter_map(with_offset).collect();
        let ends = match (self.follow, &*partitions) {
            (true, _) => None,
            (false, []) => Some(Ends::new()),
            (false, partitions) => Some(offsets_of(client, self, partitions, OffsetSpec::Latest).await?),
        };
        self.assign(client, fetcher, &partitions, &committed).await?;
        // The group keeps where --from began: the next member must not look for it again, and find a later place.
        for (partition, state) in fetcher.positions().filter(|(partition, _)| !committed.contains_key(*partition)) {
            printed.next.entry(partition.clone()).or_insert(state.position);
        }
        self.commit(membership, printed).await?;
        Ok(ends)
    }

    fn tell(&self, membership: &Membership, partitions: &[TopicPartition]) {
        let group = self.group.as_deref().unwrap_or_default();
        let names = match partitions {
            [] => "no partition: the group has more members than partitions".to_owned(),
            [.., _] if partitions.len() > 8 => format!("{} partitions", partitions.len()),
            some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        note(&format!("mainstem: member of group {group}, generation {}: {names}", membership.generation()));
    }

    /// Commits what has been printed. Partitions that others have by now are theirs: what was printed of them may be
    /// printed there again, which is no failure.
    pub(super) async fn commit(&self, membership: &mut Membership, printed: &mut Printed) -> anyhow::Result<()> {
        if printed.next.is_empty() {
            return Ok(());
        }
        let offsets = printed.next.iter().map(|(partition, next)| (partition.clone(), CommittedOffset::at(*next)));
        match membership.commit(&offsets.collect::<Vec<_>>()).await {
            Ok(()) => printed.next.clear(),
            Err(error) if error.code().is_some_and(is_of_others) => lost(printed),
            Err(error) if error.code() == Some(ErrorCode::FENCED_INSTANCE_ID) => {
                printed.next.clear();
                return Err(fenced());
            }
            Err(error) => return Err(self.explain_group(error).context("what was printed cannot be committed")),
        }
        Ok(())
    }

    fn explain_group(&self, error: mainstem_client::ClientError) -> anyhow::Error {
        if error.code() == Some(ErrorCode::FENCED_INSTANCE_ID) {
            return fenced();
        }
        self.cluster.explain_group(self.group.as_deref().unwrap_or_default(), error)
    }
}

fn fenced() -> anyhow::Error {
    anyhow!("another member of the group uses this --instance-id; give each member its own")
}

fn is_of_others(code: ErrorCode) -> bool {
    let codes = [ErrorCode::ILLEGAL_GENERATION, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::REBALANCE_IN_PROGRESS];
    codes.contains(&code)
}

fn lost(printed: &mut Printed) {
    if !printed.next.is_empty() {
        note(
            "mainstem: the group has given the partitions to other members; what was printed since the last commit may be \
             printed there again",
        );
        printed.next.clear();
    }
}
