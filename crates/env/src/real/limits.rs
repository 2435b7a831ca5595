//! Limits that the system sets for the process.

use std::io;

/// macOS says "unlimited" and takes no more than this (`OPEN_MAX` of `sys/syslimits.h`).
const OPEN_FILES_MAX_APPLE: libc::rlim_t = 10_240;

/// Lets the process open as many files (and sockets) as its hard limit allows, and says how many that are. The soft
/// limit is kept small by most systems (1,024) for the sake of programs that use `select`.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live struct of the type that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let apple = cfg!(target_vendor = "apple");
    let wanted = if apple { limit.rlim_max.min(OPEN_FILES_MAX_APPLE) } else { limit.rlim_max };
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit { rlim_cur: wanted, ..limit };
        // SAFETY: the pointer is to a live struct, which the call only reads.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } != 0 {
            return Err(io::Error::last_os_error());
        }
        limit = raised;
    }
    Ok(limit.rlim_cur)
}
