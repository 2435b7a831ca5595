//! Produce.

use mainstem_kafka_wire::Records;
use mainstem_kafka_wire::messages::produce_request::ProduceRequest;
use mainstem_kafka_wire::messages::{FetchResponse, InitProducerIdRequest, InitProducerIdResponse, ProduceResponse};
use mainstem_record::{BatchBuilder, Codec, layout};
use mainstem_types::TimestampMs;

use super::super::canonical::Names;
use super::super::script::Script;
use super::cluster::wait_for_producer_ids;
use crate::support::batches::{TIME_MS, at_times, batch, compressed, patched, sequenced, with};
use crate::support::requests::{Topic, fetch, from, produce, produce_all};

/// Records of these tests are old, and must not be removed by retention meanwhile.
pub(super) const KEPT: (&str, &str) = ("retention.ms", "-1");

/// We say in words what is wrong with a batch, Kafka does so only sometimes; it answers in the order of a hash map.
fn wordless(response: &mut ProduceResponse<'static>, _: &mut Names) {
    response.responses.iter_mut().for_each(|topic| topic.partition_responses.sort_by_key(|partition| partition.index));
    for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partition_responses) {
        partition.error_message = None;
    }
}

fn ask(script: &mut Script, name: &str, version: i16, request: &ProduceRequest<'_>) {
    script.ask_shaped(name, version, request, wordless);
}

#[test]
fn produce_in_all_versions() {
    let mut script = Script::start("produce_in_all_versions");
    let topic = script.create("produce", 2, &[KEPT]);
    let good = batch(&["a", "b"]);
    let mut corrupt = good.clone();
    *corrupt.last_mut().unwrap() ^= 1;
    let two = [good.clone(), good.clone()].concat();
    let old_format = patched(good.clone(), layout::MAGIC, &[1]);
    for version in 3..=13 {
        for acks in [-1, 1, 5] {
            ask(&mut script, &format!("acks {acks}"), version, &produce(version, topic, 0, acks, &good));
        }
        script.tell("acks 0", version, &produce(version, topic, 0, 0, &good));
        script.tell("acks 0 to an unknown topic", version, &produce(version, Topic::UNKNOWN, 0, 0, &good));
        ask(&mut script, "unknown topic", version, &produce(version, Topic::UNKNOWN, 0, -1, &good));
        let several =
            vec![(1, Records::borrowed(&good)), (9, Records::borrowed(&good)), (-1, Records::borrowed(&good))];
        ask(&mut script, "unknown partitions", version, &produce_all(version, topic, -1, several));
        for (name, bad) in
            [("no batch", &b""[..]), ("two batches", &two), ("format 1", &old_format), ("checksum", &corrupt)]
        {
            ask(&mut script, name, version, &produce(version, topic, 1, -1, bad));
        }
        let zstd = compressed(Codec::Zstd, &["a"]);
        ask(&mut script, "zstd", version, &produce(version, topic, 1, -1, &zstd));
    }
    script.ask::<_, FetchResponse<'static>>("what is there", 12, &fetch(12, topic, vec![from(0, 0), from(1, 0)]));
    script.finish();
}

/// Batches that a client must not send. Name and batch.
fn forbidden() -> Vec<(&'static str, Vec<u8>)> {
    let good = batch(&["a", "b"]);
    let i16_at = |at, value: i16| patched(good.clone(), at, &value.to_be_bytes());
    let i32_at = |at, value: i32| patched(good.clone(), at, &value.to_be_bytes());
    let mut cut = good.clone();
    cut.truncate(good.len() - 3);
    let mut longer = good.clone();
    longer.extend_from_slice(&[0, 0]);
    let length = (longer.len() - layout::LENGTH_OVERHEAD) as i32;
    let longer = patched(longer, layout::BATCH_LENGTH, &length.to_be_bytes());
    let mut gap = BatchBuilder::new();
    gap.append_at(0, TimestampMs(TIME_MS), None, Some(b"a"), &[]);
    gap.append_at(2, TimestampMs(TIME_MS), None, Some(b"b"), &[]);
    vec![
        ("base offset", patched(good.clone(), layout::BASE_OFFSET, &5i64.to_be_bytes())),
        ("count larger", i32_at(layout::RECORD_COUNT, 3)),
        ("count smaller", i32_at(layout::RECORD_COUNT, 1)),
        ("count zero", i32_at(layout::RECORD_COUNT, 0)),
        ("count negative", i32_at(layout::RECORD_COUNT, -1)),
        ("last offset", i32_at(layout::LAST_OFFSET_DELTA, 4)),
        ("a gap in the offsets", gap.build().unwrap()),
        ("control", i16_at(layout::ATTRIBUTES, 0x20)),
        ("delete horizon", i16_at(layout::ATTRIBUTES, 0x40)),
        ("format 3", patched(good.clone(), layout::MAGIC, &[3])),
        ("format 0", patched(good.clone(), layout::MAGIC, &[0])),
        ("length too large", i32_at(layout::BATCH_LENGTH, 1_000)),
        ("length too small", i32_at(layout::BATCH_LENGTH, 40)),
        ("length negative", i32_at(layout::BATCH_LENGTH, -1)),
        ("cut", cut),
        ("bytes behind the records", longer),
        ("a short header", good[..20].to_vec()),
        ("producer without sequence", patched(good.clone(), layout::PRODUCER_ID, &7i64.to_be_bytes())),
        ("epoch without producer", i16_at(layout::PRODUCER_EPOCH, 3)),
        ("sequence without producer", i32_at(layout::BASE_SEQUENCE, 3)),
        ("no time", at_times(Codec::None, &[-1, -1])),
        ("time before 1970", at_times(Codec::None, &[-5])),
        ("far future", at_times(Codec::None, &[TIME_MS, 7_000_000_000_000])),
        ("far future, compressed", at_times(Codec::Gzip, &[7_000_000_000_000, TIME_MS, 7_000_000_000_000])),
    ]
}

/// Batches that we refuse otherwise than Kafka, or that it takes.
fn refused_otherwise() -> Vec<(&'static str, Vec<u8>)> {
    let good = batch(&["a", "b"]);
    let attributes = |value: i16| patched(good.clone(), layout::ATTRIBUTES, &value.to_be_bytes());
    vec![
        ("append time", attributes(0x08)),
        ("codec 5", attributes(5)),
        ("no gzip", attributes(1)),
        ("no snappy", attributes(2)),
        ("no lz4", attributes(3)),
        ("no zstd", attributes(4)),
        ("rubbish behind the batch", [good.clone(), vec![1, 2, 3]].concat()),
    ]
}

#[test]
fn produce_refuses_otherwise() {
    let mut script = Script::start("produce_refuses_otherwise");
    let topic = script.create("produce-refuses-otherwise", 1, &[KEPT]);
    for version in [7, 13] {
        for (name, bad) in refused_otherwise() {
            let reason =
                "INVALID_RECORD or INVALID_TIMESTAMP, where Kafka has an error of its own (-1) or takes the batch";
            let script = script.except(&["error_code", "base_offset", "log_start_offset"], reason);
            let response: ProduceResponse<'static> =
                script.ask_shaped(name, version, &produce(version, topic, 0, -1, &bad), wordless);
            let code = response.responses[0].partition_responses[0].error_code;
            let expected = if name == "append time" { 32 } else { 87 };
            assert!(script.records() || code == expected, "{name}: {code}");
        }
    }
    script.finish();
}

#[test]
fn produce_refuses() {
    let mut script = Script::start("produce_refuses");
    let topic = script.create("produce-refuses", 1, &[KEPT]);
    for version in [3, 8, 13] {
        for (name, bad) in forbidden() {
            ask(&mut script, name, version, &produce(version, topic, 0, -1, &bad));
        }
    }
    script.finish();
}

#[test]
fn produce_obeys_the_settings_of_topics() {
    let mut script = Script::start("produce_obeys_the_settings_of_topics");
    let small = script.create("produce-small", 1, &[KEPT, ("max.message.bytes", "100")]);
    let segment =
        script.create("produce-segment", 1, &[KEPT, ("segment.bytes", "1048576"), ("max.message.bytes", "9000000")]);
    let compacted = script.create("produce-compacted", 1, &[KEPT, ("cleanup.policy", "compact")]);
    let past = script.create("produce-past", 1, &[KEPT, ("message.timestamp.before.max.ms", "1000")]);
    let in_sync = script.create("produce-in-sync", 1, &[KEPT, ("min.insync.replicas", "2")]);
    let fits = batch(&[&"x".repeat(20)]);
    let large = batch(&[&"x".repeat(40)]);
    let huge = batch(&[&"x".repeat(1_100_000)]);
    let mut keys = BatchBuilder::new();
    keys.append(TimestampMs(TIME_MS), Some(b"k"), Some(b"a"), &[]);
    let keyed = keys.build().unwrap();
    keys.append(TimestampMs(TIME_MS), None, Some(b"b"), &[]).append(TimestampMs(TIME_MS), None, None, &[]);
    let partly = keys.build().unwrap();
    let partly_gzip = keys.clone().codec(Codec::Gzip).build().unwrap();
    for version in [3, 7, 8, 9, 13] {
        ask(&mut script, "fits", version, &produce(version, small, 0, -1, &fits));
        ask(&mut script, "too large", version, &produce(version, small, 0, -1, &large));
        ask(&mut script, "larger than a segment", version, &produce(version, segment, 0, -1, &huge));
        ask(&mut script, "with a key", version, &produce(version, compacted, 0, -1, &keyed));
        ask(&mut script, "partly without a key", version, &produce(version, compacted, 0, -1, &partly));
        ask(&mut script, "partly without a key, gzip", version, &produce(version, compacted, 0, -1, &partly_gzip));
        ask(&mut script, "too old", version, &produce(version, past, 0, -1, &batch(&["a", "b"])));
        ask(&mut script, "too few in sync, all", version, &produce(version, in_sync, 0, -1, &fits));
        ask(&mut script, "too few in sync, one", version, &produce(version, in_sync, 0, 1, &fits));
    }
    script.finish();
}

#[test]
fn produce_to_internal_topics() {
    let mut script = Script::start("produce_to_internal_topics");
    super::cluster::wait_for_coordinator(&mut script);
    let internal = Topic { name: "__consumer_offsets", ..Topic::UNKNOWN };
    for version in [3, 9, 12] {
        ask(&mut script, "a client", version, &produce(version, internal, 0, -1, &batch(&["a"])));
    }
    script.finish();
}

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

#[test]
fn log_append_time() {
    let mut script = Script::start("log_append_time");
    let topic = script.create("append-time", 1, &[("message.timestamp.type", "LogAppendTime")]);
    for version in [3, 9, 13] {
        for codec in CODECS.into_iter().filter(|codec| version >= 7 || *codec != Codec::Zstd) {
            let sent = compressed(codec, &["a", "b"]);
            ask(&mut script, &format!("{codec:?}"), version, &produce(version, topic, 0, -1, &sent));
        }
        let marked = patched(batch(&["a"]), layout::ATTRIBUTES, &8i16.to_be_bytes());
        script.except(&["record_errors"], "the batch as a whole is marked, no record is at fault");
        ask(&mut script, "marked by the client", version, &produce(version, topic, 0, -1, &marked));
        let future = at_times(Codec::None, &[7_000_000_000_000]);
        ask(&mut script, "far future", version, &produce(version, topic, 0, -1, &future));
    }
    script.ask::<_, FetchResponse<'static>>("what is there", 12, &fetch(12, topic, vec![from(0, 0)]));
    script.finish();
}

#[test]
fn recompression() {
    let mut script = Script::start("recompression");
    for target in ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] {
        let name: &'static str = format!("recompress-{target}").leak();
        let topic = script.create(name, 1, &[KEPT, ("compression.type", target)]);
        for codec in CODECS {
            let sent = with(BatchBuilder::new().codec(codec), &["a", "bb", &"c".repeat(300)]);
            ask(&mut script, &format!("{codec:?} to {target}"), 9, &produce(9, topic, 0, -1, &sent));
        }
        let request = fetch(12, topic, vec![from(0, 0)]);
        script.ask::<_, FetchResponse<'static>>(&format!("what is in {target}"), 12, &request);
    }
    script.finish();
}

#[test]
fn producer_sequences() {
    let mut script = Script::start("producer_sequences");
    let topic = script.create("sequences", 2, &[KEPT]);
    wait_for_producer_ids(&mut script);
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let response: InitProducerIdResponse = script.ask("an id", 4, &request);
    let id = response.producer_id;
    let mut send = |name: &str, partition, batch: Vec<u8>| {
        let reason =
            "of a batch that comes again Kafka tells the time of its records, as if it were that of the append";
        script.except(&["log_append_time_ms"], reason);
        ask(&mut script, name, 9, &produce(9, topic, partition, -1, &batch));
    };
    for sequence in 0..7 {
        send("in order", 0, sequenced(id, 0, sequence * 2, &["a", "b"]));
    }
    for sequence in 0..7 {
        send(&format!("again {sequence}"), 0, sequenced(id, 0, sequence * 2, &["a", "b"]));
    }
    send("again, with another end", 0, sequenced(id, 0, 12, &["a"]));
    send("a gap", 0, sequenced(id, 0, 16, &["a"]));
    send("the next", 0, sequenced(id, 0, 14, &["a"]));
    send("new epoch, not from zero", 0, sequenced(id, 1, 15, &["a"]));
    send("new epoch", 0, sequenced(id, 1, 0, &["a"]));
    send("old epoch", 0, sequenced(id, 0, 15, &["a"]));
    send("old epoch again", 0, sequenced(id, 0, 14, &["a"]));
    send("new epoch again", 0, sequenced(id, 1, 0, &["a"]));
    send("nothing known, large sequence", 1, sequenced(id, 5, i32::MAX - 1, &["a"]));
    send("over the end", 1, sequenced(id, 5, i32::MAX, &["a", "b"]));
    send("over the end again", 1, sequenced(id, 5, i32::MAX, &["a", "b"]));
    send("after the end", 1, sequenced(id, 5, 1, &["a"]));
    send("zero again", 1, sequenced(id, 5, 0, &["a"]));
    send("negative", 1, sequenced(id, 5, -2, &["a"]));
    send("another id", 1, sequenced(id + 1_000_000, 3, 77, &["a"]));
    let request = fetch(12, topic, vec![from(0, 0), from(1, 0)]);
    script.ask::<_, FetchResponse<'static>>("what is there", 12, &request);
    script.finish();
}
