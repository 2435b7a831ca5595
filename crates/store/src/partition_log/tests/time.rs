use super::*;
use proptest::prelude::*;

#[test]
fn row_37_the_first_record_at_or_after_a_time_also_inside_compressed_batches() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let (_, log) = create(small());
        for batch in 0..20 {
            let times: Vec<_> = (0..5).map(|n| NOW.0 + batch * 100 + n * 10).collect();
            log.append(&batch_in(codec, &times), &client()).unwrap();
        }
        let find = |time| log.find_by_time(TimestampMs(NOW.0 + time), log.log_end()).unwrap();
        let found = find(505).unwrap();
        assert_eq!(
            (found.offset, found.timestamp, found.leader_epoch),
            (Offset(26), TimestampMs(NOW.0 + 510), LeaderEpoch(0))
        );
        assert_eq!(find(-1000).unwrap().offset, Offset(0));
        assert_eq!(find(1940).unwrap().offset, Offset(99));
        assert_eq!(find(1941), None);
        assert_eq!(log.find_by_time(TimestampMs(NOW.0 + 505), Offset(26)).unwrap(), None, "not below the bound");
        log.raise_log_start(Offset(30), Offset(100)).unwrap();
        assert_eq!(find(0).unwrap().offset, Offset(30));
    }
}

#[test]
fn row_36_the_record_with_the_largest_time_is_the_first_of_those() {
    let (fs, log) = create(small());
    assert_eq!(log.find_max_timestamp(log.log_end()).unwrap(), None);
    for time in [5, 900, 30, 900, 7] {
        log.append(&batch_at(NOW.0 + time, &["a"; 4]), &client()).unwrap();
        fill(&log, 10);
    }
    assert_eq!(log.find_max_timestamp(log.log_end()).unwrap().unwrap().offset, Offset(14));
    log.close().unwrap();
    let (log, _) = open(&fs, clean(), small());
    let found = log.find_max_timestamp(log.log_end()).unwrap().unwrap();
    assert_eq!((found.offset, found.timestamp), (Offset(14), TimestampMs(NOW.0 + 900)));
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn lookups_agree_with_a_search_through_all_records(
        batches in prop::collection::vec(prop::collection::vec(0i64..1000, 1..4), 1..60),
        targets in prop::collection::vec(-10i64..1100, 1..20),
        reopen in any::<bool>(),
    ) {
        let (fs, mut log) = create(small());
        let mut all = Vec::new();
        for times in &batches {
            let times: Vec<_> = times.iter().map(|time| NOW.0 + time).collect();
            log.append(&batch_in(Codec::None, &times), &client()).unwrap();
            all.extend(times);
        }
        if reopen {
            log.close().unwrap();
            log = open(&fs, clean(), small()).0;
        }
        for target in targets {
            let found = log.find_by_time(TimestampMs(NOW.0 + target), log.log_end()).unwrap();
            let wanted = all.iter().position(|time| *time >= NOW.0 + target);
            prop_assert_eq!(found.map(|f| f.offset.0), wanted.map(|offset| offset as i64));
        }
        let largest = all.iter().max().unwrap();
        let wanted = all.iter().position(|time| time == largest).unwrap();
        let found = log.find_max_timestamp(log.log_end()).unwrap().unwrap();
        prop_assert_eq!((found.offset.0, found.timestamp.0), (wanted as i64, *largest));
    }
}
