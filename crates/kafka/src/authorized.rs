//! `authorized_operations`: what the client may do with a resource, as a set of bits by operation code.
//!
//! Without an authorizer everybody may do everything that the kind of resource has (Kafka's
//! `AclEntry.supportedOperations`).

/// "Not asked for."
pub const NOT_REQUESTED: i32 = i32::MIN;

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

pub const TOPIC: i32 = READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
pub const GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
pub const CLUSTER: i32 =
    CREATE | CLUSTER_ACTION | DESCRIBE_CONFIGS | ALTER_CONFIGS | IDEMPOTENT_WRITE | ALTER | DESCRIBE;

/// The operations, if the client asked for them.
pub fn operations(requested: bool, all: i32) -> i32 {
    if requested { all } else { NOT_REQUESTED }
}
