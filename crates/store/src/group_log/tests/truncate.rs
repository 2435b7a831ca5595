use super::*;

#[test]
fn cutting_takes_the_end_of_every_partition_and_no_more() {
    for checkpoint_at in [None, Some(10), Some(25), Some(39)] {
        let (fs, group, logs) = create();
        let mut positions = Vec::new();
        for n in 0..40 {
            positions.push(group.end_position());
            for (index, log) in logs.iter().enumerate() {
                if index < 2 {
                    let batch = produced(index as i64, 0, n, &[&value("orders", i64::from(n))]);
                    log.append(&batch, &client()).unwrap();
                }
            }
            if Some(n) == checkpoint_at {
                group.checkpoint().unwrap();
            }
        }
        fill(&logs[2], 2);
        let cut = logs[1].position_of(Offset(20)).unwrap().unwrap();
        let shorter = group.truncate_to(cut).unwrap();
        assert_eq!(shorter.len(), 3);
        assert_eq!(logs.iter().map(|log| log.log_end().0).collect::<Vec<_>>(), [21, 20, 0]);
        expect_filled(&logs[0], 0..21);
        expect_filled(&logs[1], 0..20);
        assert_eq!(logs[1].producers()[0].last_sequence, 19);
        assert_eq!(logs[1].durable_end(), Offset(20));
        logs[1].append(&produced(1, 0, 20, &[&value("orders", 20)]), &client()).unwrap();
        fill(&logs[2], 1);
        drop((logs, group));
        let (group, _) = open(&fs);
        let logs = group.partitions();
        expect_filled(&logs[0], 0..21);
        expect_filled(&logs[1], 0..21);
        expect_filled(&logs[2], 0..1);
        assert_eq!(logs[1].producers()[0].last_sequence, 20);
    }
}

#[test]
fn cutting_at_the_end_changes_nothing() {
    let (_fs, group, logs) = create();
    fill(&logs[0], 5);
    assert!(group.truncate_to(group.end_position()).unwrap().is_empty());
    expect_filled(&logs[0], 0..5);
}
