//! Random use, in which a reopen is an ordinary step.

use mainstem_env::CrashPolicy;
use mainstem_journal::{Location, SegmentBase};
use proptest::prelude::*;

use crate::support::{Entries, Rig, Step};

fn step() -> impl Strategy<Value = Step> {
    let policy = prop_oneof![
        Just(CrashPolicy::Nothing),
        Just(CrashPolicy::Everything),
        any::<u64>().prop_map(CrashPolicy::Torn),
    ];
    prop_oneof![
        12 => (0..400u32).prop_map(|payload_len| Step::Append { payload_len }),
        12 => (0..400u32).prop_map(|payload_len| Step::AppendInMemory { payload_len }),
        1 => Just(Step::WriteOut),
        2 => Just(Step::Roll),
        3 => Just(Step::Flush),
        2 => Just(Step::Checkpoint),
        2 => (0..4usize).prop_map(|segments| Step::Delete { segments }),
        1 => Just(Step::RemoveDeleted),
        2 => (0..5usize).prop_map(|entries| Step::Truncate { entries }),
        1 => Just(Step::ReleaseIdle),
        2 => Just(Step::CloseAndReopen),
        2 => Just(Step::KillAndReopen),
        3 => policy.prop_map(|policy| Step::CrashAndReopen { policy }),
    ]
}

/// The tail cache holds the same bytes as the files, or says that it does not hold them.
fn check_tail(rig: &Rig) -> Result<(), String> {
    let Some(end) = rig.journal.end() else { return Ok(()) };
    for position in 0..end.position {
        let at = Location::new(end.segment, position);
        let Some(cached) = rig.journal.tail(at, 64) else { continue };
        let mut bytes = vec![0; cached.len()];
        let count = rig.journal.read_at(at, &mut bytes).map_err(|error| error.to_string())?;
        if count != cached.len() || bytes[..] != cached[..] {
            return Err(format!("the tail cache differs at {at}"));
        }
    }
    if rig.journal.tail(end, 64).is_some() {
        return Err("the tail cache has bytes past the end".to_owned());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_is_the_list_of_its_entries(steps in proptest::collection::vec(step(), 1..60)) {
        let mut rig = Rig::new().unwrap();
        for (number, step) in steps.iter().enumerate() {
            // A check reads all files, so nothing is in memory alone afterwards.
            let checked = number % 4 == 3 || number + 1 == steps.len();
            let done = rig.run(step);
            let done = done.and_then(|()| match checked {
                true => rig.check().and_then(|()| check_tail(&rig)),
                false => Ok(()),
            });
            prop_assert!(done.is_ok(), "{:?}: {}", step, done.unwrap_err());
        }
    }

    #[test]
    fn a_scan_from_any_entry_finds_the_rest(lens in proptest::collection::vec(0..200u32, 1..30), from in any::<prop::sample::Index>()) {
        let mut rig = Rig::new().unwrap();
        for payload_len in &lens {
            rig.run(&Step::Append { payload_len: *payload_len }).unwrap();
        }
        let mut all = Entries::default();
        rig.journal.scan(Location::new(SegmentBase(0), 0), &mut all).unwrap();
        let index = from.index(all.seen.len());
        let mut rest = Entries::expecting(index as u64);
        let outcome = rig.journal.scan(all.seen[index].0, &mut rest).unwrap();
        prop_assert_eq!(&rest.seen[..], &all.seen[index..]);
        prop_assert_eq!(Some(outcome.end), rig.journal.end());
    }
}
