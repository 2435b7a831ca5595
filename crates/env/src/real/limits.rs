//! Limits that the system sets for the process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// macOS says "unlimited" and takes no more than this (`OPEN_MAX` of `sys/syslimits.h`).
const OPEN_FILES_MAX_APPLE: u64 = 10_240;

/// Lets the process open as many files (and sockets) as its hard limit allows, and says how many that are. The soft
/// limit is kept small by most systems (1,024) for the sake of programs that use `select`.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    // `None` is "unlimited".
    let (current, allowed) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let wanted = if cfg!(target_vendor = "apple") { allowed.min(OPEN_FILES_MAX_APPLE) } else { allowed };
    if current >= wanted {
        return Ok(current);
    }
    setrlimit(Resource::Nofile, Rlimit { current: (wanted != u64::MAX).then_some(wanted), maximum: limit.maximum })?;
    Ok(wanted)
}
