//! A deadline is met exactly: a wait is never over too early, and every caller sees what was due at that
//! moment.

use std::time::Duration;

use mainstem_coordinator::{GroupError, Reply};
use proptest::prelude::*;

use crate::bed::{Bed, GROUP, Join};

/// What a DeleteGroups is answered after `silence` of the only member, whose session lasts `session_ms`; the clock
/// stood at `start` when the member was heard last. The timers have fired up to that moment, as a broker lets them.
fn delete_after(start: Duration, session_ms: i32, silence: Duration) -> Result<(), GroupError> {
    let mut bed = Bed::new();
    bed.pass(start);
    let token = bed.join(&Join { session_timeout_ms: session_ms, ..Join::default() });
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    bed.sync(&joined.member_id, joined.generation, &[]);
    // The clock goes on without a look at the timers: those of an operation come first all the same.
    bed.skip(silence);
    bed.fire_due();
    let token = bed.token();
    for outcome in bed.shard.delete_group(token, GROUP) {
        bed.run(outcome);
    }
    match &bed.answers[&token] {
        Reply::DeleteGroup(result) => result.clone(),
        other => panic!("a deletion was answered {other:?}"),
    }
}

#[test]
fn a_session_lasts_until_its_last_nanosecond_whatever_the_clock_showed_when_it_began() {
    let session = Duration::from_secs(6);
    for start_ns in [0, 1, 499_999, 500_000, 900_001, 999_999] {
        let start = Duration::from_nanos(start_ns);
        for (silence, expected) in [
            (session - Duration::from_nanos(1), Err(GroupError::NonEmptyGroup)),
            (session, Ok(())),
            (session + Duration::from_nanos(1), Ok(())),
            (session + Duration::from_millis(2), Ok(())),
        ] {
            assert_eq!(delete_after(start, 6_000, silence), expected, "from {start:?}, after {silence:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_member_is_gone_exactly_when_its_session_is_over(
        start_ns in 0..2_000_000u64,
        session_ms in 6_000..60_000i32,
        around_ns in -3_000_000..3_000_000i64,
    ) {
        let silence_ns = i64::from(session_ms) * 1_000_000 + around_ns;
        let deleted = delete_after(
            Duration::from_nanos(start_ns),
            session_ms,
            Duration::from_nanos(silence_ns as u64),
        );
        prop_assert_eq!(deleted.is_ok(), around_ns >= 0);
    }
}
