//! The broker: produce, fetch, groups, topics, in domain terms. It carries out the decisions of the state machines.
//!
//! Guarantees:
//!
//! - A record is acknowledged when it is committed: below the high watermark, which follows the log end
//!   (`mainstem.durability=os`) or the durable end (`disk`). Consumers see nothing at or above it.
//! - A change of the metadata is durable, and followed by this node, when it is answered.
//! - No call of a door waits for a disk: a call that may wait returns a future, or runs on [`Broker::blocking`].
//! - No type of a wire protocol appears here; persisted records (Kafka's schemas) do.
//!
//! Threads: `controller` (metadata), one for each maintenance task, `cleaner-N` (compaction), `group-load` and
//! `group-timer`, the flushers of the journals; `io-N` (up to `num.io.threads`) for work that may wait, and `heavy-N`
//! (up to half the number of processors) for requests that need much CPU time, both started when there is work.

mod admin;
mod adopt;
mod apply;
mod batch_appends;
mod broker;
mod cleaner;
mod commit_logs;
mod commit_wait;
mod commit_waits;
mod consumer_groups;
mod controller_thread;
mod delete_records;
mod disk;
mod fetch_wait;
mod group_unit;
mod in_memory;
mod key_lookup;
mod log_reader;
mod long_poll;
mod maintenance;
mod metadata_log;
mod new_folders;
mod new_logs;
mod node_state;
mod open_logs;
mod open_report;
mod partition;
mod partition_groups;
mod producer_ids;
mod quorum;
mod random_ids;
mod read_counters;
mod retention;
mod settings;
mod space;
mod start;
mod stop;
mod sync;
mod topics;
mod upkeep;

pub use adopt::AdoptError;
pub use batch_appends::{AppendTerms, AppendedBatch, BatchAppends, BatchOutcome};
pub use broker::{Broker, Endpoint};
pub use commit_wait::{Commit, CommitFailed};
pub use commit_waits::{CommitWaits, NotCommitted};
pub use consumer_groups::{Answer, ConsumerGroups, Pending};
pub use controller_thread::ControllerError;
pub use delete_records::{DeleteRecordsError, RecordsToDelete};
pub use disk::{Disk, MetadataLogState};
pub use fetch_wait::{FetchWait, FetchWaiters};
pub use group_unit::{FollowerFetch, GroupUnit, LeaderPiece, UnitAnswer, UnitError};
pub use key_lookup::{KeyLookup, KeyLookupError};
pub use long_poll::{LongPoll, Patience, long_poll};
pub use mainstem_replica::{EpochCheckError, MinInSyncError};
pub use mainstem_store::{OpenError, ReadError, StoreEnv};
pub use mainstem_waits::{BlockingPool, Stopped};
pub use metadata_log::{LoadError, MetadataWriteError};
pub use node_state::ConfigWatcher;
pub use partition::{Isolation, Partition, PartitionPositions, PartitionReading};
pub use producer_ids::ProducerIds;
pub use read_counters::ReadCounters;
pub use start::{StartError, StartReport};
pub use topics::{Topic, TopicMap};
