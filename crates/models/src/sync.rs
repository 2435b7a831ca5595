//! What the modelled files import as `crate::sync`, on `shuttle`.

pub use shuttle::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// With the interface of `parking_lot`: a lock that is never poisoned.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
