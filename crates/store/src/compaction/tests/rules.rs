//! One rule a test: which records and batches stay.

use super::*;
use crate::partition_log::tests::{clean, create, open};
use mainstem_record::Codec;

fn shown(kept: &[(i64, &str, Option<&str>)]) -> Vec<Kept> {
    kept.iter().map(|(offset, key, value)| (*offset, key.to_string(), value.map(str::to_string))).collect()
}

#[test]
fn the_newest_record_of_each_key_stays_under_its_offset() {
    let (_, log) = create(compacted());
    put(&log, &[("a", Some("1")), ("b", Some("1")), ("a", Some("2"))]);
    put(&log, &[("c", Some("1"))]);
    put(&log, &[("b", Some("2")), ("d", Some("1"))]);
    seal(&log);
    let done = compact(&log);
    let expected = [(2, "a", Some("2")), (3, "c", Some("1")), (4, "b", Some("2")), (5, "d", Some("1"))];
    let mut expected = shown(&expected);
    expected.push((6, "~".into(), Some("end".into())));
    assert_eq!(contents(&log), expected);
    assert_eq!((done.from.0, done.to.0, done.keys), (0, 6, 4));
    assert_eq!((done.records_read, done.records_kept), (6, 4));
    check_every_offset(&log);
    // The batch that lost nothing is the same, the one that lost two records has the offsets it had.
    let headers: Vec<_> =
        batches(&log).into_iter().map(|(h, _)| (h.base_offset.0, h.last_offset().0, h.record_count)).collect();
    assert_eq!(headers, [(0, 2, 1), (3, 3, 1), (4, 5, 2), (6, 6, 1)]);
}

#[test]
fn what_is_past_the_map_stays_and_the_next_pass_goes_on_there() {
    let (_, log) = create(LogConfig { segment_bytes: 2000, ..compacted() });
    for round in 0..4 {
        for key in ["a", "b", "c", "d", "e"] {
            put(&log, &[(key, Some(&format!("{round}")))]);
        }
    }
    seal(&log);
    // Room for three keys.
    let few = CleanerLimits { dedupe_bytes: 4 * 24, load_factor: 0.75, ..LIMITS };
    let mut passes = 0;
    loop {
        let before = table(&contents(&log));
        let Some(done) = compact_at(&log, NOW.0, &few).filter(|done| done.to > done.from) else { break };
        passes += 1;
        assert_eq!(table(&contents(&log)), before);
        assert!(done.keys <= 3 && done.to.0 <= 20);
        if done.to.0 == 20 {
            break;
        }
    }
    assert!(passes > 3, "{passes}");
    let offsets: Vec<_> = contents(&log).iter().map(|kept| kept.0).collect();
    assert_eq!(offsets, [15, 16, 17, 18, 19, 20]);
}

#[test]
fn tombstones_stay_for_their_time_and_then_go() {
    let (_, log) = create(compacted());
    put(&log, &[("a", Some("1")), ("b", Some("1"))]);
    put(&log, &[("a", None), ("c", Some("1"))]);
    seal(&log);
    compact(&log);
    let with_tombstone = shown(&[(1, "b", Some("1")), (2, "a", None), (3, "c", Some("1"))]);
    assert_eq!(contents(&log)[..3], with_tombstone);
    let horizon = |log: &PartitionLog| batches(log)[1].0.delete_horizon();
    assert_eq!(horizon(&log), Some(TimestampMs(NOW.0 + 1000)));
    // A later pass does not begin the time anew.
    seal(&log);
    compact_at(&log, NOW.0 + 999, &LIMITS).unwrap();
    assert_eq!(contents(&log)[..3], with_tombstone);
    assert_eq!(horizon(&log), Some(TimestampMs(NOW.0 + 1000)));
    seal(&log);
    compact_at(&log, NOW.0 + 1000, &LIMITS).unwrap();
    assert_eq!(contents(&log)[..2], shown(&[(1, "b", Some("1")), (3, "c", Some("1"))]));
    check_every_offset(&log);
}

#[test]
fn records_without_a_key_go_and_are_counted() {
    let (fs, log) = create(LogConfig { cleanup_compact: false, ..compacted() });
    let mut builder = BatchBuilder::new();
    builder.append(NOW, None, Some(b"no key"), &[]).append(NOW, Some(b"a"), Some(b"1"), &[]);
    log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
    seal(&log);
    log.close().unwrap();
    let (log, _) = open(&fs, clean(), compacted());
    assert_eq!(compact(&log).records_without_key, 1);
    assert_eq!(contents(&log)[..1], shown(&[(1, "a", Some("1"))]));
}

#[test]
fn batches_are_rebuilt_in_their_codec() {
    for codec in Codec::ALL {
        let (_, log) = create(LogConfig { segment_bytes: 4000, ..compacted() });
        let many: Vec<_> = (0..20).map(|n| format!("key {n}")).collect();
        let pairs: Vec<Pair<'_>> = many.iter().map(|key| (key.as_str(), Some("a value, a value"))).collect();
        log.append(&batch_of(BatchBuilder::new().codec(codec), &pairs), &client()).unwrap();
        put(&log, &[("key 3", Some("new"))]);
        seal(&log);
        compact(&log);
        let (header, _) = batches(&log)[0];
        assert_eq!((header.attributes.codec(), header.record_count, header.last_offset().0), (Some(codec), 19, 19));
        assert!(!contents(&log).iter().any(|(offset, ..)| *offset == 3));
    }
}

#[test]
fn the_last_batch_of_a_producer_stays_without_records() {
    let (fs, log) = create(compacted());
    log.append(&batch_of(producer(7, 0), &[("a", Some("1"))]), &client()).unwrap();
    log.append(&batch_of(producer(7, 1), &[("a", Some("2")), ("b", Some("2"))]), &client()).unwrap();
    put(&log, &[("a", Some("3")), ("b", Some("3"))]);
    seal(&log);
    compact(&log);
    let (header, _) = batches(&log)[0];
    assert_eq!((header.base_offset.0, header.last_offset().0, header.record_count), (1, 2, 0));
    assert_eq!((header.producer_id.0, header.last_sequence()), (7, 2));
    // Without any snapshot, and after a crash: the sequence is known.
    let crashed = fs.crash(mainstem_env::CrashPolicy::Everything);
    let folder = std::path::Path::new(crate::partition_log::tests::FOLDER);
    for entry in mainstem_env::Fs::read_dir(&crashed, folder).unwrap() {
        if entry.name.to_str().unwrap().ends_with(".snapshot") {
            mainstem_env::Fs::remove_file(&crashed, &folder.join(&entry.name)).unwrap();
        }
    }
    let (log, _) = open(&crashed, Default::default(), compacted());
    assert_eq!(log.producers()[0].last_sequence, 2);
    let again = log.append(&batch_of(producer(7, 1), &[("a", Some("2")), ("b", Some("2"))]), &client()).unwrap();
    assert!(again.duplicate && again.base_offset.0 == 1);
    // Once the producer has gone on, the empty batch goes.
    log.append(&batch_of(producer(7, 3), &[("c", Some("1"))]), &client()).unwrap();
    seal(&log);
    compact(&log);
    assert_eq!(batches(&log)[0].0.base_offset.0, 3);
}

#[test]
fn aborted_records_go_and_the_marker_after_its_time() {
    let (_, log) = create(compacted());
    put(&log, &[("a", Some("committed"))]);
    log.append(&batch_of(producer(7, 0).transactional(), &[("a", Some("aborted"))]), &client()).unwrap();
    let marker = end_transaction(&log, 7, false);
    log.append(&batch_of(producer(7, 1).transactional(), &[("b", Some("committed"))]), &client()).unwrap();
    end_transaction(&log, 7, true);
    seal(&log);
    assert_eq!(log.aborted_transactions(Offset(0), log.log_end()).unwrap().len(), 1);
    compact(&log);
    let kinds = |log: &PartitionLog| -> Vec<(i64, bool, i32)> {
        batches(log).iter().map(|(h, _)| (h.base_offset.0, h.attributes.is_control(), h.record_count)).collect()
    };
    // The aborted value is no newer value of its key.
    assert_eq!(kinds(&log)[..4], [(0, false, 1), (2, true, 1), (3, false, 1), (4, true, 1)]);
    // Readers that began before may still hold the aborted records.
    assert_eq!(log.aborted_transactions(Offset(0), log.log_end()).unwrap().len(), 1);
    seal(&log);
    compact(&log);
    assert!(log.aborted_transactions(Offset(0), log.log_end()).unwrap().is_empty());
    let horizon = batches(&log)[1].0.delete_horizon();
    assert_eq!((batches(&log)[1].0.base_offset.0, horizon), (marker, Some(TimestampMs(NOW.0 + 1000))));
    seal(&log);
    compact_at(&log, NOW.0 + 1000, &LIMITS).unwrap();
    // The marker of the commit stays as long as a record of its transaction does.
    assert_eq!(kinds(&log)[..3], [(0, false, 1), (3, false, 1), (4, true, 1)]);
}

#[test]
fn open_transactions_and_what_follows_them_are_not_touched() {
    let (_, log) = create(compacted());
    put(&log, &[("a", Some("1"))]);
    put(&log, &[("a", Some("2"))]);
    seal(&log);
    log.append(&batch_of(producer(7, 0).transactional(), &[("a", Some("open"))]), &client()).unwrap();
    put(&log, &[("a", Some("3"))]);
    seal(&log);
    checkpoint(&log);
    let work = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    assert_eq!((work.first_dirty.0, work.end.0), (0, 2), "the segment that holds the first open record is not");
    compact(&log);
    assert_eq!(contents(&log)[0], (1, "a".into(), Some("2".into())));
}

#[test]
fn nothing_above_the_high_watermark_is_compacted() {
    let (_, log) = create(compacted());
    put(&log, &[("a", Some("1"))]);
    put(&log, &[("a", Some("2"))]);
    seal(&log);
    assert_eq!(log.cleanable(NOW, Offset(1)).unwrap().unwrap().dirty_bytes, 0);
    assert_eq!(log.cleanable(NOW, Offset(2)).unwrap().unwrap().end, Offset(2));
    assert!(log.cleanable(NOW, Offset(2)).unwrap().unwrap().is_due());
    // What no checkpoint on the disk covers is not compacted either.
    let work = log.cleanable(NOW, Offset(2)).unwrap().unwrap();
    let done = log.compact(&work, &LIMITS, NOW, &mut Unthrottled).unwrap();
    assert_eq!((done.from, done.to, contents(&log).len()), (Offset(0), Offset(0), 3));
}

#[test]
fn other_policies_and_active_segments_are_left_alone() {
    let (_, log) = create(LogConfig { cleanup_compact: false, ..compacted() });
    put(&log, &[("a", Some("1"))]);
    assert_eq!(log.cleanable(NOW, log.log_end()).unwrap(), None);
    log.set_config(Arc::new(compacted()));
    assert!(!log.cleanable(NOW, log.log_end()).unwrap().unwrap().is_due());
}
