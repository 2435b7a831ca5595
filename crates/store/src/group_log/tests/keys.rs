use super::*;

fn keyed(key: Option<&str>, headers: &[(&str, &str)], value: &str) -> Bytes {
    let mut builder = BatchBuilder::new();
    let headers: Vec<_> = headers.iter().map(|(name, value)| RecordHeader::new(name, Some(value.as_bytes()))).collect();
    builder.append(NOW, key.map(str::as_bytes), Some(value.as_bytes()), &headers);
    Bytes::from(builder.build().unwrap())
}

fn offsets(group: &GroupLog, id: u8, key: &str, max: usize) -> Vec<(i32, i64)> {
    let found = group.find_by_key(TopicId([id; 16]), key, max).unwrap();
    found.iter().map(|found| (found.partition.0, found.offset.0)).collect()
}

#[test]
fn records_are_found_by_key_word_and_unique_id_newest_first() {
    let (_fs, group, logs) = create();
    logs[0].append(&keyed(Some("alpha"), &[], "0"), &client()).unwrap();
    logs[1].append(&keyed(None, &[("KEYS", "beta alpha  gamma")], "1"), &client()).unwrap();
    logs[0].append(&keyed(Some("delta"), &[("UNIQ_KEY", "0A0B")], "2"), &client()).unwrap();
    logs[2].append(&keyed(Some("alpha"), &[], "another topic"), &client()).unwrap();
    assert_eq!(offsets(&group, 7, "alpha", 10), [(1, 0), (0, 0)]);
    assert_eq!(offsets(&group, 7, "alpha", 1), [(1, 0)]);
    assert_eq!(offsets(&group, 7, "gamma", 10), [(1, 0)]);
    assert_eq!(offsets(&group, 7, "0A0B", 10), [(0, 1)]);
    assert_eq!(offsets(&group, 8, "alpha", 10), [(0, 0)]);
    assert_eq!(offsets(&group, 7, "none", 10), []);
    assert_eq!(offsets(&group, 7, "", 10), []);
}

#[test]
fn what_is_indexed_is_a_setting() {
    let (fs, group, logs) = create();
    let batch = keyed(Some("own"), &[("KEYS", "word"), ("UNIQ_KEY", "0A0B")], "v");
    let found = |group: &GroupLog| ["own", "word", "0A0B"].map(|key| offsets(group, 7, key, 10).len());
    let set = |key_indexing| logs[0].set_config(Arc::new(LogConfig { key_indexing, ..config() }));
    set(KeyIndexing::None);
    logs[0].append(&batch, &client()).unwrap();
    assert_eq!(found(&group), [0, 0, 0]);
    assert!(!fs.exists(&Path::new(FOLDER).join("index")).unwrap(), "no file without a key");
    set(KeyIndexing::Headers);
    logs[0].append(&batch, &client()).unwrap();
    assert_eq!(found(&group), [0, 1, 1]);
    set(KeyIndexing::All);
    logs[0].append(&batch, &client()).unwrap();
    assert_eq!(found(&group), [1, 2, 2]);
}

#[test]
fn keys_with_the_same_hash_are_told_apart() {
    let (_fs, group, logs) = create();
    // Java's classic pair.
    logs[0].append(&keyed(Some("Aa"), &[], "0"), &client()).unwrap();
    logs[0].append(&keyed(Some("BB"), &[], "1"), &client()).unwrap();
    assert_eq!(offsets(&group, 7, "Aa", 10), [(0, 0)]);
    assert_eq!(offsets(&group, 7, "BB", 10), [(0, 1)]);
}

#[test]
fn index_files_follow_one_another_and_survive_a_restart_at_any_point() {
    let (fs, group, logs) = create();
    for n in 0..70 {
        logs[n % 2].append(&keyed(Some(&format!("key-{}", n % 10)), &[], "v"), &client()).unwrap();
        if n == 33 {
            group.checkpoint().unwrap();
        }
        if n % 7 == 0 {
            assert!(!offsets(&group, 7, "key-0", 10).is_empty());
        }
    }
    let expected = offsets(&group, 7, "key-3", 100);
    assert_eq!(expected.len(), 7);
    let files = fs.read_dir(&Path::new(FOLDER).join("index")).unwrap();
    assert_eq!(files.len(), 4, "{files:?}");
    assert_eq!(files[0].name.to_str().unwrap(), "20231114221320000");
    drop((logs, group));
    let (group, report) = open(&fs);
    assert_eq!(report.views_rebuilt, 0);
    assert_eq!(offsets(&group, 7, "key-3", 100), expected);
    group.close().unwrap();
    drop(group);
    let (group, _) = open_with(&fs, &live(), true);
    assert_eq!(offsets(&group, 7, "key-3", 100), expected);
}
