//! The broker-wide limits: how many connections there are, and how many bytes of requests are in flight.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts connections, in all and by address of the peer.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    open: Mutex<Open>,
    none_left: Condvar,
}

/// How many connections there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionMaxima {
    pub total: usize,
    pub per_ip: usize,
    /// In place of `per_ip` for their addresses.
    pub overrides: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Open {
    max: ConnectionMaxima,
    total: usize,
    by_ip: HashMap<IpAddr, usize>,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("max.connections={0} connections are open")]
    Total(usize),
    #[error("max.connections.per.ip={0} connections are open from its address")]
    PerIp(usize),
}

/// One open connection; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Place {
    limits: Arc<ConnectionLimits>,
    ip: IpAddr,
}

impl ConnectionLimits {
    pub fn new(max: ConnectionMaxima) -> Arc<Self> {
        let open = Open { max, total: 0, by_ip: HashMap::new() };
        Arc::new(ConnectionLimits { open: Mutex::new(open), none_left: Condvar::new() })
    }

    /// Other limits for connections from here on; those that are open stay.
    pub fn set(&self, max: ConnectionMaxima) {
        self.open.lock().max = max;
    }

    /// Takes a place for a peer at `ip`. An IPv4 address inside IPv6 counts as the IPv4 address.
    pub fn enter(self: &Arc<Self>, ip: IpAddr) -> Result<Place, Refused> {
        let ip = ip.to_canonical();
        let mut open = self.open.lock();
        if open.total >= open.max.total {
            return Err(Refused::Total(open.max.total));
        }
        let from_ip = open.by_ip.get(&ip).copied().unwrap_or(0);
        let per_ip_max = open.max.overrides.get(&ip).copied().unwrap_or(open.max.per_ip);
        if from_ip >= per_ip_max {
            return Err(Refused::PerIp(per_ip_max));
        }
        open.by_ip.insert(ip, from_ip + 1);
        open.total += 1;
        Ok(Place { limits: Arc::clone(self), ip })
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.open.lock().total
    }

    /// Blocks the calling thread until no connection is open, at most until `deadline`. Says whether none is.
    pub fn wait_until_none(&self, deadline: Instant) -> bool {
        let mut open = self.open.lock();
        while open.total > 0 {
            if self.none_left.wait_until(&mut open, deadline).timed_out() {
                return open.total == 0;
            }
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.limits.open.lock();
        open.total -= 1;
        if let Some(count) = open.by_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                open.by_ip.remove(&self.ip);
            }
        }
        if open.total == 0 {
            self.limits.none_left.notify_all();
        }
    }
}

/// The bytes of large requests that may be in flight over the whole broker.
///
/// Connections wait in the order in which they asked. A request that is larger than the whole budget is admitted when
/// nothing else is in flight.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
}

/// One unit: the semaphore counts in 32 bits.
const UNIT_BYTES: u64 = 1024;

/// Part of the budget; dropping it gives it back.
pub(crate) type Claim = OwnedSemaphorePermit;

impl Budget {
    pub fn new(bytes: u64) -> Self {
        let units_max =
            u32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
        Budget { units: Arc::new(Semaphore::new(units_max as usize)), units_max }
    }

    fn units_of(&self, bytes: usize) -> u32 {
        u32::try_from((bytes as u64).div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.units_max)
    }

    /// Takes `bytes` now, or nothing when they are not free.
    pub fn try_claim(&self, bytes: usize) -> Option<Claim> {
        Arc::clone(&self.units).try_acquire_many_owned(self.units_of(bytes)).ok()
    }

    /// Takes `bytes` when they become free.
    pub fn claim(&self, bytes: usize) -> impl Future<Output = Option<Claim>> + Send + 'static {
        let units = Arc::clone(&self.units).acquire_many_owned(self.units_of(bytes));
        async move { units.await.ok() }
    }

    /// Bytes that are free now.
    pub fn free_bytes(&self) -> u64 {
        self.units.available_permits() as u64 * UNIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn places_are_counted_in_all_and_by_address() {
        let max = |total| ConnectionMaxima { total, per_ip: 2, overrides: HashMap::from([(ip(9), 1)]) };
        let limits = ConnectionLimits::new(max(4));
        let first = limits.enter(ip(1)).unwrap();
        let mapped = std::net::Ipv4Addr::new(127, 0, 0, 1).to_ipv6_mapped();
        let _second = limits.enter(mapped.into()).unwrap();
        assert_eq!(limits.enter(ip(1)).unwrap_err(), Refused::PerIp(2));
        let _third = limits.enter(ip(9)).unwrap();
        assert_eq!(limits.enter(ip(9)).unwrap_err(), Refused::PerIp(1));
        let _fourth = limits.enter(ip(2)).unwrap();
        assert_eq!(limits.enter(ip(3)).unwrap_err(), Refused::Total(4));
        drop(first);
        assert_eq!(limits.open(), 3);
        let _again = limits.enter(ip(1)).unwrap();
        limits.set(max(5));
        let _fifth = limits.enter(ip(3)).unwrap();
        limits.set(max(1));
        assert_eq!((limits.open(), limits.enter(ip(4)).unwrap_err()), (5, Refused::Total(1)));
    }

    #[test]
    fn waiting_for_none_ends_with_the_last_place() {
        let limits = ConnectionLimits::new(ConnectionMaxima { total: 3, per_ip: 3, overrides: HashMap::new() });
        assert!(limits.wait_until_none(Instant::now()));
        let place = limits.enter(ip(1)).unwrap();
        assert!(!limits.wait_until_none(Instant::now()));
        let thread = std::thread::spawn(move || drop(place));
        assert!(limits.wait_until_none(Instant::now() + std::time::Duration::from_secs(30)));
        thread.join().unwrap();
    }

    #[test]
    fn a_claim_larger_than_the_budget_takes_all_of_it() {
        let budget = Budget::new(10 * UNIT_BYTES);
        let all = budget.try_claim(1 << 40).unwrap();
        assert_eq!(budget.free_bytes(), 0);
        assert!(budget.try_claim(1).is_none());
        drop(all);
        assert_eq!(budget.free_bytes(), 10 * UNIT_BYTES);
    }
}
