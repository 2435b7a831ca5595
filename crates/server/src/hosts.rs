//! Limits of connections by host: names become addresses when the setting changes, and only then.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, ToSocketAddrs};

use parking_lot::Mutex;

/// The addresses that the hosts of `max.connections.per.ip.overrides` had when it was set. A resolver may take its
/// time, and every change of any setting asks.
#[derive(Debug)]
pub(crate) struct HostLimits {
    resolve: fn(&str) -> std::io::Result<Vec<IpAddr>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    setting: BTreeMap<String, i32>,
    by_address: HashMap<IpAddr, usize>,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits { resolve, known: Mutex::default() }
    }
}

impl HostLimits {
    /// The limit of each address. A host without an address is named in the log, and its limit does not apply.
    pub(crate) fn by_address(&self, setting: &BTreeMap<String, i32>) -> HashMap<IpAddr, usize> {
        let mut known = self.known.lock();
        if known.setting != *setting {
            let by_address = setting.iter().flat_map(|(host, limit)| self.of_host(host, *limit)).collect();
            *known = Known { setting: setting.clone(), by_address };
        }
        known.by_address.clone()
    }

    fn of_host(&self, host: &str, limit: i32) -> Vec<(IpAddr, usize)> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match (self.resolve)(host) {
            Ok(addresses) => addresses.into_iter().map(|address| (address, limit)).collect(),
            Err(error) => {
                tracing::warn!(
                    "max.connections.per.ip.overrides: {host} has no address, so its limit does not apply: {error}"
                );
                Vec::new()
            }
        }
    }
}

fn resolve(host: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn counted(host: &str) -> std::io::Result<Vec<IpAddr>> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        resolve(host)
    }

    #[test]
    fn hosts_are_looked_up_when_the_setting_changes_and_only_then() {
        let hosts = HostLimits { resolve: counted, known: Mutex::default() };
        let setting = BTreeMap::from([("127.0.0.9".to_owned(), 3), ("::ffff:127.0.0.8".to_owned(), 4)]);
        let addresses = HashMap::from([(IpAddr::from([127, 0, 0, 9]), 3), (IpAddr::from([127, 0, 0, 8]), 4)]);
        for _ in 0..3 {
            assert_eq!(hosts.by_address(&setting), addresses);
            assert_eq!(ASKED.load(Ordering::Relaxed), 2);
        }
        assert!(hosts.by_address(&BTreeMap::new()).is_empty());
        assert_eq!(hosts.by_address(&setting), addresses);
        assert_eq!(ASKED.load(Ordering::Relaxed), 4);
    }
}
