//! How long errors that pass are waited out: a broker may restart while somebody reads.

use std::time::{Duration, Instant};

use mainstem_client::FetchError;

use crate::output::note;

pub struct Patience {
    most: Duration,
    failing_since: Option<Instant>,
}

impl Patience {
    pub fn new(most: Duration) -> Self {
        Patience { most, failing_since: None }
    }

    pub fn renew(&mut self) {
        if self.failing_since.take().is_some() {
            note("mainstem: reading again");
        }
    }

    pub fn allows(&mut self, error: &FetchError) -> bool {
        let FetchError::Client(passing) = error else { return false };
        if !passing.is_retriable() {
            return false;
        }
        let since = *self.failing_since.get_or_insert_with(|| {
            note(&format!("mainstem: {error}; retrying for {} s", self.most.as_secs_f64()));
            Instant::now()
        });
        since.elapsed() < self.most
    }
}
