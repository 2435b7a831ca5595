//! Logs how much data went through the node: every minute at level debug, and at the end.

use std::fmt;

use crate::counters::Totals;

/// Gives the counts between two looks.
#[derive(Debug, Default)]
pub struct TrafficLog {
    before: Totals,
}

impl TrafficLog {
    /// Says in the log what came since the last look, if there were requests.
    pub fn look(&mut self, now: Totals) {
        if now.requests > self.before.requests {
            tracing::debug!("since the last of these lines: {}", Traffic(now.since(&self.before)));
        }
        self.before = now;
    }
}

/// Totals for people.
pub(crate) struct Traffic(pub Totals);

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.0;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (received, sent) = (megabytes(totals.received_bytes), megabytes(totals.sent_bytes));
        write!(f, "{} requests, {received:.1} MB received, {sent:.1} MB sent", totals.requests)?;
        let reads = totals.quick_reads + totals.slow_reads;
        if reads > 0 {
            let share = totals.memory_share() * 100.0;
            write!(f, ", {share:.2} % of {reads} reads of files did not need the disk")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_reads_is_of_the_time_between() {
        let before = Totals { requests: 10, quick_reads: 100, slow_reads: 100, ..Totals::default() };
        let now = Totals { requests: 12, quick_reads: 199, slow_reads: 101, sent_bytes: 2_500_000, ..before };
        let told = Traffic(now.since(&before)).to_string();
        assert_eq!(
            told,
            "2 requests, 0.0 MB received, 2.5 MB sent, 99.00 % of 100 reads of files did not need the disk"
        );
        let nothing_read = Traffic(Totals { requests: 1, ..Totals::default() }).to_string();
        assert_eq!(nothing_read, "1 requests, 0.0 MB received, 0.0 MB sent");
    }
}
