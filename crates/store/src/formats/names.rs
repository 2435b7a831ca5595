//! Names of files and folders, as Kafka forms them.
//!
//! A file of a segment begins with the segment's base offset in 20 digits, a partition's folder is
//! `<topic>-<partition>`, and folders on the way out end in `.<32 hex digits>-delete` or `-stray`. No folder name is
//! longer than 255 bytes.

use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicPartition};

/// Longest name of a folder or file that Linux file systems take.
pub const NAME_BYTES_MAX: usize = 255;
pub const METADATA_FOLDER: &str = "__cluster_metadata-0";

pub const LOG: &str = ".log";
pub const INDEX: &str = ".index";
pub const TIME_INDEX: &str = ".timeindex";
pub const TRANSACTION_INDEX: &str = ".txnindex";
pub const PRODUCER_SNAPSHOT: &str = ".snapshot";
/// Ends of files that a crash of Kafka or of us can leave behind: half written, half removed, half swapped in.
pub const DELETED: &str = ".deleted";
pub const CLEANED: &str = ".cleaned";
pub const SWAP: &str = ".swap";
pub const SNAPSHOT_CHECKPOINT: &str = ".checkpoint";
pub const PART: &str = ".part";

pub fn segment_file(base: Offset, suffix: &str) -> String {
    format!("{:020}{suffix}", base.0)
}

/// The base offset in the name of a file with this suffix; `None` for every other name.
pub fn parse_segment_file(name: &str, suffix: &str) -> Option<Offset> {
    let digits = name.strip_suffix(suffix)?;
    let plain = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(Offset)).flatten()
}

/// `<20-digit end offset>-<10-digit epoch>.checkpoint`, a snapshot of the metadata log.
pub fn snapshot_file(end: Offset, epoch: LeaderEpoch) -> String {
    format!("{:020}-{:010}{SNAPSHOT_CHECKPOINT}", end.0, epoch.0)
}

pub fn parse_snapshot_file(name: &str) -> Option<(Offset, LeaderEpoch)> {
    let (end, epoch) = name.strip_suffix(SNAPSHOT_CHECKPOINT)?.split_once('-')?;
    let plain = end.len() == 20 && epoch.len() == 10 && end.bytes().chain(epoch.bytes()).all(|b| b.is_ascii_digit());
    let parsed = (Offset(end.parse().ok()?), LeaderEpoch(epoch.parse().ok()?));
    plain.then_some(parsed)
}

/// Why a folder does not hold a live partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parting {
    /// Its topic was deleted; the files may go.
    Delete,
    /// A copy that was being moved in from another folder (KIP-113).
    Future,
    /// Data whose topic the metadata does not know. Never deleted by us.
    Stray,
}

impl Parting {
    pub const ALL: [Parting; 3] = [Parting::Delete, Parting::Future, Parting::Stray];

    pub fn suffix(self) -> &'static str {
        match self {
            Parting::Delete => "-delete",
            Parting::Future => "-future",
            Parting::Stray => "-stray",
        }
    }
}

/// The meaning of a folder's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderName {
    Partition(TopicPartition),
    /// The topic name may be cut short, see [`parted_folder`].
    Parted(TopicPartition, Parting),
    /// Not a name of ours or of Kafka.
    Other,
}

pub fn parse_folder(name: &str) -> FolderName {
    for parting in Parting::ALL {
        if let Some(head) = name.strip_suffix(parting.suffix()) {
            let parsed =
                head.rsplit_once('.').filter(|(_, id)| !id.is_empty()).and_then(|(head, _)| parse_partition(head));
            return parsed.map_or(FolderName::Other, |partition| FolderName::Parted(partition, parting));
        }
    }
    parse_partition(name).map_or(FolderName::Other, FolderName::Partition)
}

fn parse_partition(name: &str) -> Option<TopicPartition> {
    let (topic, digits) = name.rsplit_once('-')?;
    let plain = !topic.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok()?;
    plain.then(|| TopicPartition::new(topic, PartitionIndex(number)))
}

/// The name a folder gets before its files are removed or parked: `<topic>-<partition>.<id><suffix>`. The topic is cut
/// where the name would pass 255 bytes. `id` is random, so that a topic can be created and deleted again while the old
/// folder still waits.
pub fn parted_folder(partition: &TopicPartition, parting: Parting, id: u128) -> String {
    let tail = format!("-{}.{id:032x}{}", partition.partition, parting.suffix());
    let room = NAME_BYTES_MAX - tail.len();
    let topic: &str = &partition.topic;
    let mut end = topic.len().min(room);
    while !topic.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{tail}", &topic[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_round_trip(base in 0i64.., epoch in 0i32.., topic in "[a-zA-Z0-9._-]{1,249}", partition in 0i32.., id in any::<u128>()) {
            let (base, epoch) = (Offset(base), LeaderEpoch(epoch));
            prop_assert_eq!(parse_segment_file(&segment_file(base, TIME_INDEX), TIME_INDEX), Some(base));
            prop_assert_eq!(parse_snapshot_file(&snapshot_file(base, epoch)), Some((base, epoch)));
            let partition = TopicPartition::new(topic, PartitionIndex(partition));
            prop_assert_eq!(parse_folder(&partition.to_string()), FolderName::Partition(partition.clone()));
            for parting in Parting::ALL {
                let name = parted_folder(&partition, parting, id);
                prop_assert!(name.len() <= NAME_BYTES_MAX);
                match parse_folder(&name) {
                    FolderName::Parted(found, as_parting) => {
                        prop_assert_eq!(as_parting, parting);
                        prop_assert_eq!(found.partition, partition.partition);
                        prop_assert!(partition.topic.starts_with(&*found.topic));
                    }
                    other => prop_assert!(false, "{name} is {other:?}"),
                }
            }
        }

        #[test]
        fn any_name_is_parsed_or_other(name in ".{0,60}") {
            let _ = (parse_folder(&name), parse_segment_file(&name, LOG), parse_snapshot_file(&name));
        }
    }

    #[test]
    fn names_are_kafka_s() {
        assert_eq!(segment_file(Offset(368), LOG), "00000000000000000368.log");
        assert_eq!(snapshot_file(Offset(7), LeaderEpoch(2)), "00000000000000000007-0000000002.checkpoint");
        let partition = TopicPartition::new("a-b", PartitionIndex(3));
        assert_eq!(parted_folder(&partition, Parting::Delete, 1), "a-b-3.00000000000000000000000000000001-delete");
    }

    #[test]
    fn other_names_are_not_taken_for_ours() {
        assert_eq!(parse_segment_file("12.log", LOG), None);
        assert_eq!(parse_segment_file("0000000000000000036x.log", LOG), None);
        assert_eq!(parse_segment_file("00000000000000000368.log.deleted", LOG), None);
        for name in ["mainstem", "x", "-1", "a-", "a-b", "lost+found", "a-0-delete", "a-0.-stray", "a-+1"] {
            assert_eq!(parse_folder(name), FolderName::Other, "{name}");
        }
        let parsed = FolderName::Partition(TopicPartition::new("x-delete", PartitionIndex(0)));
        assert_eq!(parse_folder("x-delete-0"), parsed);
    }
}
