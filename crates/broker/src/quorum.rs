//! The voters of the metadata log, as the log, its snapshots and `quorum-state` name them.
//!
//! Mainstem is the only voter of its log. A folder with other voters belongs to a cluster: its log may lack records
//! that the other voters agreed on, and they never voted for a term that begins here. Mainstem refuses such a folder.

use mainstem_kafka_wire::records::{KRaftVersionRecord, VotersRecord};
use mainstem_kafka_wire::{DecodeError, Message, Reader};
use mainstem_record::{ControlKind, ControlRecord, Record};
use mainstem_store::{QuorumContent, QuorumState};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TopicId};

/// The level of `kraft.version`, and the voters if they are in the log (level 1) and not in properties (level 0).
#[derive(Debug, Default)]
pub(crate) struct Quorum {
    level: i16,
    voters: Option<Voters>,
}

#[derive(Debug)]
struct Voters {
    ids: Vec<NodeId>,
    /// The record as it was written: it also has the addresses that a Kafka needs.
    record: Vec<u8>,
}

impl Quorum {
    /// Follows a control record of the log or of a snapshot.
    pub fn observe(&mut self, record: &Record<'_>) -> Result<(), DecodeError> {
        let value = record.value.unwrap_or_default();
        match ControlKind::of_key(record.key.unwrap_or_default()) {
            Ok(Some(ControlKind::KRaftVersion)) => {
                self.level = KRaftVersionRecord::decode(&mut Reader::new(value), 0)?.kraft_version;
            }
            Ok(Some(ControlKind::KRaftVoters)) => {
                let decoded = VotersRecord::decode(&mut Reader::new(value), 0)?;
                let ids = decoded.voters.iter().map(|voter| NodeId(voter.voter_id));
                self.voters = Some(Voters { ids: ids.collect(), record: value.to_vec() });
            }
            _ => {}
        }
        Ok(())
    }

    /// The voters that are not this node, or `None` if it votes alone.
    pub fn others(&self, node: NodeId, state: Option<&QuorumState>) -> Option<Vec<NodeId>> {
        let voters = match (&self.voters, state.map(|state| &state.content)) {
            (Some(voters), _) => voters.ids.clone(),
            (None, Some(QuorumContent::StaticVoters { voters, .. })) => voters.clone(),
            (None, _) => Vec::new(),
        };
        let others: Vec<NodeId> = voters.into_iter().filter(|voter| *voter != node).collect();
        (!others.is_empty()).then_some(others)
    }

    /// What `quorum-state` holds while this node leads.
    pub fn state(&self, node: NodeId, term: LeaderEpoch) -> QuorumState {
        let content = match self.level {
            0 => QuorumContent::StaticVoters {
                cluster_id: String::new(),
                applied_offset: Offset::ZERO,
                voters: vec![node],
            },
            _ => QuorumContent::Dynamic { voted_directory_id: TopicId::ZERO },
        };
        QuorumState { leader_id: node, leader_epoch: term, voted_id: NodeId(-1), content }
    }

    /// The first record of a term of this node. A Kafka reads it as version 0, whatever the level and its first field
    /// say.
    pub fn leader_change(node: NodeId) -> ControlRecord {
        ControlRecord::LeaderChange { leader: node, voters: vec![node], granting_voters: vec![node] }
    }

    /// What a snapshot has behind its header, in the same batch. Without it a Kafka would not know its voters any more.
    pub fn snapshot_records(&self) -> Vec<ControlRecord> {
        let mut records = Vec::new();
        if self.level > 0 {
            records.push(ControlRecord::KRaftVersion { level: self.level });
        }
        if let Some(voters) = &self.voters {
            records.push(ControlRecord::Raft { kind: ControlKind::KRaftVoters, value: voters.record.clone() });
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_kafka_wire::Writer;
    use mainstem_kafka_wire::records::voters_record;

    const NODE: NodeId = NodeId(1);
    const DIRECTORY: TopicId = TopicId([7; 16]);

    fn record(control: &ControlRecord) -> ([u8; 4], Vec<u8>) {
        (control.key(), control.value())
    }

    fn observe(quorum: &mut Quorum, control: &ControlRecord) {
        let (key, value) = record(control);
        let mut builder = mainstem_record::BatchBuilder::new();
        builder.append(mainstem_types::TimestampMs(1), Some(&key), Some(&value), &[]);
        let bytes = builder.build().unwrap();
        let (view, mut scratch) = (mainstem_record::BatchView::parse(&bytes).unwrap(), Vec::new());
        for record in view.records(&mut scratch, 1 << 20).unwrap() {
            quorum.observe(&record.unwrap()).unwrap();
        }
    }

    fn voters(ids: &[i32]) -> ControlRecord {
        let voter = |id: &i32| voters_record::Voter {
            voter_id: *id,
            voter_directory_id: DIRECTORY,
            ..voters_record::Voter::default()
        };
        let mut writer = Writer::new();
        VotersRecord { version: 0, voters: ids.iter().map(voter).collect() }.encode(&mut writer, 0).unwrap();
        ControlRecord::Raft { kind: ControlKind::KRaftVoters, value: writer.as_bytes().to_vec() }
    }

    fn static_voters(ids: &[i32]) -> QuorumState {
        let mut state = Quorum::default().state(NODE, LeaderEpoch(3));
        if let QuorumContent::StaticVoters { voters, .. } = &mut state.content {
            *voters = ids.iter().copied().map(NodeId).collect();
        }
        state
    }

    #[test]
    fn a_folder_of_several_voters_is_noticed() {
        let mut quorum = Quorum::default();
        assert_eq!(quorum.others(NODE, None), None);
        assert_eq!(quorum.others(NODE, Some(&static_voters(&[1]))), None);
        assert_eq!(quorum.others(NODE, Some(&static_voters(&[1, 2, 3]))), Some(vec![NodeId(2), NodeId(3)]));
        assert_eq!(quorum.others(NODE, Some(&static_voters(&[3000]))), Some(vec![NodeId(3000)]), "a broker alone");
        observe(&mut quorum, &ControlRecord::KRaftVersion { level: 1 });
        observe(&mut quorum, &voters(&[1, 2]));
        assert_eq!(quorum.others(NODE, None), Some(vec![NodeId(2)]));
        observe(&mut quorum, &voters(&[1]));
        assert_eq!(quorum.others(NODE, Some(&static_voters(&[1, 2]))), None, "the newest record counts");
    }

    #[test]
    fn a_snapshot_carries_the_voters_on() {
        let mut quorum = Quorum::default();
        assert_eq!(quorum.snapshot_records(), []);
        observe(&mut quorum, &ControlRecord::KRaftVersion { level: 1 });
        observe(&mut quorum, &voters(&[1]));
        let mut again = Quorum::default();
        for control in quorum.snapshot_records() {
            observe(&mut again, &control);
        }
        assert_eq!(again.snapshot_records(), quorum.snapshot_records());
        assert_eq!(
            again.state(NODE, LeaderEpoch(4)).content,
            QuorumContent::Dynamic { voted_directory_id: TopicId::ZERO }
        );
    }
}
