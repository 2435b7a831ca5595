//! The machine: limits, clock, and what the kernel can do.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainstem_env::{Fs, OpenOptions, RealFs, Residency};
use rustix::process::{Resource, getrlimit};

use super::Check;

/// Kafka's recommendation: each partition has a few files, each client a socket.
const OPEN_FILES_WANTED: u64 = 100_000;
const OPEN_FILES_LEAST: u64 = 4096;
/// 2025-01-01: before it, a clock is not set.
const CLOCK_LEAST: Duration = Duration::from_secs(1_735_689_600);
/// Clocks that cost a system call, or a slow device, for each look at the time.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "pit", "jiffies"];
const PROBE_BYTES: usize = 65_536;

pub(super) fn look() -> Vec<Check> {
    let mut checks = vec![open_files(), clock()];
    checks.extend(clock_source());
    checks
}

fn open_files() -> Check {
    let limit = getrlimit(Resource::Nofile);
    // The broker raises its own limit to the hard one. No limit at all is none.
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let detail = format!("{soft} open files; the broker can raise the limit to {hard}");
    let advice = "raise the hard limit: LimitNOFILE=100000 in the systemd unit, or `ulimit -Hn` as root; each busy partition needs a few files, each client a socket";
    if hard < OPEN_FILES_LEAST {
        Check::wrong("open-files", detail, advice)
    } else if hard < OPEN_FILES_WANTED {
        Check::warning("open-files", detail, advice)
    } else {
        Check::ok("open-files", detail)
    }
}

fn clock() -> Check {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = jiff::Timestamp::try_from(SystemTime::now()).map(|now| now.to_string()).unwrap_or_default();
    if now < CLOCK_LEAST {
        let advice =
            "set the clock and keep it synchronized (chrony, systemd-timesyncd): retention by time depends on it";
        return Check::wrong("clock", format!("the clock says {text}"), advice);
    }
    let (wall, steady) = (SystemTime::now(), Instant::now());
    std::thread::sleep(Duration::from_millis(50));
    let difference = match wall.elapsed() {
        Ok(wall) => wall.abs_diff(steady.elapsed()),
        Err(_) => Duration::MAX,
    };
    if difference > Duration::from_millis(20) {
        let advice = "something steps the clock; use a service that slews it, such as chrony";
        return Check::warning("clock", format!("the clock says {text}, and jumped during this check"), advice);
    }
    Check::ok("clock", text)
}

fn clock_source() -> Option<Check> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = fs::read_to_string(path).ok()?;
    let source = source.trim();
    Some(if SLOW_CLOCKS.contains(&source) {
        let advice =
            format!("reading the time is slow with this clock source; write a faster one (tsc, kvm-clock) to {path}");
        Check::warning("clock-source", source, advice)
    } else {
        Check::ok("clock-source", source)
    })
}

/// What the kernel and the file system of a folder can do, tried on a small file.
pub(super) fn look_at_kernel(folder: &Path) -> Vec<Check> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let name = format!("{} {}", std::env::consts::OS, release.trim());
    let path = folder.join(format!(".mainstem-doctor-{}", std::process::id()));
    let tried = try_features(&path);
    // Nothing was made if the folder cannot be written to.
    let _ = fs::remove_file(&path);
    let missing = match tried {
        Ok(missing) => missing,
        Err(error) => {
            let advice = "give a writable folder with --data-dir";
            return vec![Check::warning(
                "kernel",
                format!("{name}; the check in {} failed: {error}", folder.display()),
                advice,
            )];
        }
    };
    if missing.is_empty() {
        let detail = format!("{name}: sendfile, fallocate, RWF_NOWAIT and cachestat work in {}", folder.display());
        return vec![Check::ok("kernel", detail)];
    }
    let check = |(feature, advice): (&str, &str)| {
        Check::warning("kernel", format!("{name}: no {feature} in {}", folder.display()), advice)
    };
    missing.into_iter().map(check).collect()
}

/// The features that are not there, each with what that means.
fn try_features(path: &Path) -> std::io::Result<Vec<(&'static str, &'static str)>> {
    let file = RealFs.open(path, &OpenOptions::create_new())?;
    file.write_all_at(&[7; PROBE_BYTES], 0)?;
    let mut missing = Vec::new();
    let mut buffer = [0; 4096];
    if !matches!(file.try_read_at_nowait(&mut buffer, 0), Ok(Some(4096))) {
        missing.push(("RWF_NOWAIT", "reads of recent records may wait for the disk on a reactor; use Linux 4.14 or later with ext4, xfs or btrfs"));
    }
    if matches!(file.residency(0, PROBE_BYTES as u64), Ok(Residency::Unknown) | Err(_)) {
        missing.push((
            "cachestat",
            "the broker finds out by trying whether a read waits for the disk; Linux 6.5 or later has it",
        ));
    }
    let (near, mut far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let sent = file.send_to(near.as_fd(), 0, 4096);
    if !matches!(sent, Ok(1..)) {
        missing.push(("sendfile", "the broker copies records to consumers through its memory, which costs CPU"));
    }
    // The other end is not read: it is to be there as long as something is sent.
    let _ = far.flush();
    let plain = fs::OpenOptions::new().write(true).open(path)?;
    let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
    if rustix::fs::fallocate(&plain, flags, 0, 1 << 20).is_err() {
        missing.push((
            "fallocate",
            "the broker cannot reserve space ahead, so files may be fragmented; ext4, xfs, btrfs and tmpfs have it",
        ));
    }
    Ok(missing)
}
