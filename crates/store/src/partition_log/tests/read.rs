use super::*;
use crate::error::ReadError;
use proptest::prelude::*;

fn read(log: &PartitionLog, from: i64, max_bytes: u32, upper: i64, min_one_batch: bool) -> Vec<(i64, String)> {
    let request = ReadRequest { from: Offset(from), max_bytes, upper: Offset(upper), min_one_batch };
    records(&bytes_of(&log.read(&request).unwrap()))
}

#[test]
fn row_26_offsets_outside_the_log_are_errors_and_the_end_is_empty() {
    let (_, log) = create(small());
    fill(&log, 10);
    log.raise_log_start(Offset(4), Offset(10)).unwrap();
    for offset in [3, 11] {
        let request = ReadRequest { from: Offset(offset), max_bytes: 99, upper: Offset(10), min_one_batch: true };
        match log.read(&request) {
            Err(ReadError::OutOfRange { log_start, log_end, .. }) => {
                assert_eq!((log_start, log_end), (Offset(4), Offset(10)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read(&log, 10, 99, 10, true), []);
    assert_eq!(read(&log, 8, 99, 7, true), [], "above the high watermark, below the log end");
}

#[test]
fn row_27_the_first_batch_comes_whole_even_if_it_is_too_large() {
    let (_, log) = create(LogConfig::default());
    put(&log, &[&"x".repeat(5000)]);
    put(&log, &["small"]);
    assert_eq!(read(&log, 0, 10, 2, true).len(), 1);
    assert_eq!(read(&log, 0, 10, 2, false).len(), 0);
    assert_eq!(read(&log, 1, 10, 2, false).len(), 0);
    assert_eq!(read(&log, 0, 6000, 2, false).len(), 2);
}

#[test]
fn row_28_whole_batches_that_hold_the_offset() {
    let (_, log) = create(LogConfig::default());
    put(&log, &["a", "b", "c"]);
    put(&log, &["d", "e"]);
    assert_eq!(read(&log, 1, 9999, 5, true).len(), 5);
    assert_eq!(read(&log, 4, 9999, 5, true).iter().map(|r| r.0).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_slice_outlives_the_deletion_of_its_segment() {
    let (_, log) = create(LogConfig { retention_bytes: 0, ..small() });
    fill(&log, 40);
    let request = ReadRequest { from: Offset(0), max_bytes: 4000, upper: Offset(40), min_one_batch: true };
    let reading = log.read(&request).unwrap();
    let removed = log.retention_pass(NOW, Offset(40)).unwrap();
    assert!(removed.segments_removed > 0);
    log.config.store(Arc::new(LogConfig { file_delete_delay_ms: 0, ..small() }));
    assert_eq!(records(&bytes_of(&reading))[0].0, 0);
}

#[test]
fn a_wrong_index_is_not_believed() {
    let (fs, log) = create(small());
    fill(&log, 40);
    log.close().unwrap();
    let bases = listing::Listing::read(&fs, Path::new(FOLDER)).unwrap().segments;
    for base in &bases[..bases.len() - 1] {
        let path = log.file(*base, names::INDEX);
        let mut bytes = fs.read_all(&path).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(1) & 0x7f);
        fs.atomic_write(&path, &bytes).unwrap();
    }
    let (log, _) = open(&fs, clean(), small());
    for from in 0..40 {
        assert_eq!(read(&log, from, 4000, 40, true)[0].0, from);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    /// Whatever is asked for: the batches are those that a search through all of them gives.
    #[test]
    fn reads_agree_with_a_search_through_everything(
        counts in prop::collection::vec(1usize..5, 1..60),
        reads in prop::collection::vec((0i64..200, 0u32..2000, 0i64..220, any::<bool>()), 1..40),
    ) {
        let (_, log) = create(small());
        let mut batches: Vec<(i64, i64, usize)> = Vec::new();
        for count in counts {
            let bytes = batch(&vec!["some value of some length"; count]);
            let appended = log.append(&bytes, &client()).unwrap();
            batches.push((appended.base_offset.0, appended.last_offset.0, bytes.len()));
        }
        let end = log.log_end().0;
        for (from, max_bytes, upper, min_one_batch) in reads {
            let (from, upper) = (from % (end + 1), upper % (end + 2));
            let request = ReadRequest { from: Offset(from), max_bytes, upper: Offset(upper), min_one_batch };
            let bytes = bytes_of(&log.read(&request).unwrap());
            let found: Vec<i64> = Batches::new(&bytes).map(|view| view.unwrap().header().base_offset.0).collect();
            let wanted: Vec<_> = batches.iter().filter(|(_, last, _)| *last >= from).filter(|(_, last, _)| *last < upper).collect();
            // A prefix of what is wanted, of one segment, as much as fits.
            prop_assert!(found.iter().zip(&wanted).all(|(found, wanted)| *found == wanted.0) && found.len() <= wanted.len());
            let fits = wanted.first().is_some_and(|first| first.2 <= max_bytes as usize || min_one_batch) && from < upper;
            prop_assert_eq!(found.is_empty(), !fits, "from {} max {} upper {} of {}", from, max_bytes, upper, end);
            prop_assert!(bytes.len() <= max_bytes as usize || (found.len() == 1 && min_one_batch));
            if let Some(next) = wanted.get(found.len()).filter(|_| !found.is_empty()) {
                let segments: Vec<_> = log.state.lock().segments.bases().map(|base| base.0).collect();
                prop_assert!(bytes.len() + next.2 > max_bytes as usize || segments.contains(&next.0));
            }
        }
    }
}
