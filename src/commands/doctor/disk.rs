//! The data folder: may it be used, is there room, and how fast is its disk.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mainstem_env::{Fs, OpenOptions, RealFs};

use super::{Check, machine};

const WRITE_BYTES: u64 = 16 << 20;
const WRITE_PIECE: usize = 1 << 20;
const SYNCS: usize = 32;
const SYNC_BYTES: usize = 4096;
/// All of the writing ends by then.
const TRY_FOR: Duration = Duration::from_secs(2);
/// Each producer with `mainstem.durability=disk` waits as long, and each start of a topic.
const SYNC_SLOW: Duration = Duration::from_millis(20);
const MIB: u64 = 1 << 20;
/// What brokers refuse records below (`mainstem.disk.free.min.bytes`), and what is little.
const FREE_LEAST: u64 = 64 * MIB;
const FREE_LITTLE: u64 = 1024 * MIB;

pub(super) fn look(folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let there = nearest(folder);
    if there != folder {
        let detail = format!("{} does not exist; the first start creates it in {}", folder.display(), there.display());
        checks.push(Check::ok("folder", detail));
    } else if !folder.is_dir() {
        let detail = format!("{} is not a folder", folder.display());
        checks.push(Check::wrong("folder", detail, "give the folder that the broker has in log.dirs or --data-dir"));
        return checks;
    } else {
        checks.push(permissions(folder));
    }
    checks.push(space(&there));
    checks.push(speed(&there));
    checks.extend(machine::look_at_kernel(&there));
    checks
}

/// The folder, or the nearest one above that is there.
fn nearest(folder: &Path) -> PathBuf {
    let above = folder.ancestors().find(|path| path.exists() && !path.as_os_str().is_empty());
    above.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Whether everything at the top of the folder belongs to whoever runs this.
fn permissions(folder: &Path) -> Check {
    let own = rustix::process::geteuid().as_raw();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let advice = "run this command and the broker as the user that owns the folder";
            return Check::wrong("permissions", format!("cannot list {}: {error}", folder.display()), advice);
        }
    };
    let others: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.metadata().is_ok_and(|metadata| own != 0 && metadata.uid() != own))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    match others.first() {
        None => Check::ok("permissions", format!("{} and its files are usable", folder.display())),
        Some(first) => {
            let detail =
                format!("{} entries of {} belong to another user, for example {first}", others.len(), folder.display());
            Check::wrong("permissions", detail, "run the broker as their owner, or change the owner with chown -R")
        }
    }
}

fn space(folder: &Path) -> Check {
    let (free, total) = match (RealFs.free_space(folder), RealFs.total_space(folder)) {
        (Ok(free), Ok(total)) => (free, total),
        (Err(error), _) | (_, Err(error)) => {
            let detail = format!("the free space of {} is unknown: {error}", folder.display());
            return Check::warning("disk-space", detail, "check with df");
        }
    };
    let detail = format!("{} MiB of {} MiB free", free / MIB, total / MIB);
    let advice = "free some space, or reduce retention.ms or retention.bytes of topics";
    if free < FREE_LEAST {
        Check::wrong("disk-space", format!("{detail}: the broker refuses records"), advice)
    } else if free < FREE_LITTLE || free < total / 20 {
        Check::warning("disk-space", detail, advice)
    } else {
        Check::ok("disk-space", detail)
    }
}

fn speed(folder: &Path) -> Check {
    let path = folder.join(format!(".mainstem-doctor-{}", std::process::id()));
    let tried = measure(&path);
    // Not there if it could not be made.
    let _ = fs::remove_file(&path);
    match tried {
        Err(error) => {
            let detail = format!("cannot write to {}: {error}", folder.display());
            Check::wrong(
                "disk-speed",
                detail,
                "the broker's user must be able to write there; check owner, mount options and free space",
            )
        }
        Ok(Measured { mib_per_second, sync }) => {
            let micros = sync.as_micros();
            let detail =
                format!("{mib_per_second:.0} MiB/s written and synced; a sync of 4 KiB takes {micros} µs (median)");
            if sync > SYNC_SLOW {
                let advice = "with mainstem.durability=disk each acknowledgement takes that long; use a disk with a power-loss-protected write cache";
                Check::warning("disk-speed", detail, advice)
            } else {
                Check::ok("disk-speed", detail)
            }
        }
    }
}

struct Measured {
    mib_per_second: f64,
    /// The median of small syncs.
    sync: Duration,
}

fn measure(path: &Path) -> io::Result<Measured> {
    let begun = Instant::now();
    let file = RealFs.open(path, &OpenOptions::create_new())?;
    let piece = vec![0x5a; WRITE_PIECE];
    let mut written = 0;
    while written < WRITE_BYTES && begun.elapsed() < TRY_FOR / 2 {
        file.write_all_at(&piece, written)?;
        file.sync_data()?;
        written += WRITE_PIECE as u64;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut syncs = Vec::with_capacity(SYNCS);
    while syncs.len() < SYNCS && (syncs.is_empty() || begun.elapsed() < TRY_FOR) {
        let one = Instant::now();
        file.write_all_at(&piece[..SYNC_BYTES], written)?;
        file.sync_data()?;
        written += SYNC_BYTES as u64;
        syncs.push(one.elapsed());
    }
    syncs.sort_unstable();
    let mib_per_second = written as f64 / MIB as f64 / seconds.max(1e-6);
    Ok(Measured { mib_per_second, sync: syncs[syncs.len() / 2] })
}
