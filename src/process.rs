//! Processes of this machine, as `/proc` shows them: who listens on a port, and how much CPU somebody used. Nothing of
//! it exists elsewhere than on Linux; then nobody is found.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// In which state `/proc/net/tcp` has a socket that listens.
const LISTENING: &str = "0A";

/// A process that listens on a port of this machine, if its files may be looked at.
pub fn listening_on(port: u16) -> Option<u32> {
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| fs::read_to_string(path).ok());
    let inodes: Vec<String> = sockets.flat_map(|table| inodes_of(&table, port)).collect();
    if inodes.is_empty() {
        return None;
    }
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.into_iter().find(|process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().filter_map(Result::ok);
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|to| links.iter().any(|link| to.as_os_str() == link.as_str()))
    })
}

fn inodes_of(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let listens = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(|local| local.ends_with(&suffix)) && state == Some(LISTENING)
    };
    table.lines().filter(listens).filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned)).collect()
}

/// The process behind an address of this machine.
pub fn behind(address: &str) -> Option<u32> {
    use std::net::ToSocketAddrs;
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().ok()?.collect();
    let ours = addresses.iter().find(|address| is_ours(address))?;
    listening_on(ours.port())
}

/// Whether an address is one of this machine: only there something can be bound to it.
fn is_ours(address: &SocketAddr) -> bool {
    address.ip().is_loopback() || std::net::UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok()
}

/// The CPU time that a process has used so far, of all its threads.
pub fn cpu_of(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_secs_f64(ticks as f64 / a_second as f64))
}

/// The bytes that a process has read from files so far, those included that it sent to a socket without looking at
/// them.
pub fn bytes_read_by(process: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar:"))?.trim().parse().ok()
}

/// Has the system kill this process when the one that started it ends, however that ends. An error: it has ended
/// already. Where the system cannot do that, nothing happens.
pub fn end_with_parent(parent: u32) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let now = getppid().map_or(0, |process| process.as_raw_nonzero().get() as u32);
        anyhow::ensure!(now == parent, "process {parent}, which started this process, has ended");
    }
    Ok(())
}

/// The CPU time that this process has used so far.
pub fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(behind(&address.to_string()), Some(std::process::id()));
            drop(listener);
            assert_eq!(listening_on(address.port()), None);
        }
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let begun = own_cpu();
        while own_cpu() - begun < Duration::from_millis(20) {
            std::hint::black_box(vec![0u8; 4096]);
        }
        if cfg!(target_os = "linux") {
            assert!(cpu_of(std::process::id()).is_some());
        }
    }
}
