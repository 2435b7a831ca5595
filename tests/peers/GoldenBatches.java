// Record batches by Kafka's Java client, as golden files for `crates/record`, and the reverse check.
//
//   java -cp 'KAFKA_JARS/*' GoldenBatches.java write FOLDER   writes one file for each batch below
//   java -cp 'KAFKA_JARS/*' GoldenBatches.java check FOLDER   reads the same files, written by Mainstem, and compares
//
// The records follow a formula, so that either side can tell what must be in a file.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.Utils;

public class GoldenBatches {
    static final long START = 1_700_000_000_000L;
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static long timestamp(int i) {
        return START + i * 10L - (i == 2 ? 25 : 0);
    }

    static byte[] key(int i) {
        return i % 3 == 0 ? null : utf8("key-" + i);
    }

    static byte[] value(int i, int repeat) {
        return i % 4 == 3 ? null : utf8(("value " + i + " \u00e9 ").repeat(repeat));
    }

    static Header[] headers(int i) {
        if (i % 2 == 0) return new Header[0];
        return new Header[] {
            new RecordHeader("h1", utf8("v" + i)), new RecordHeader("h2", null), new RecordHeader("\u00e9", new byte[0])};
    }

    static MemoryRecordsBuilder builder(String codec, TimestampType type, long baseOffset, long appendTime,
                                        long producerId, short producerEpoch, int baseSequence, boolean transactional) {
        return MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.MAGIC_VALUE_V2, Compression.of(codec).build(),
            type, baseOffset, appendTime, producerId, producerEpoch, baseSequence, transactional, false, 7);
    }

    static MemoryRecords messages(MemoryRecordsBuilder builder, int count, int repeat) {
        for (int i = 0; i < count; i++) builder.append(timestamp(i), key(i), value(i, repeat), headers(i));
        return builder.build();
    }

    static void write(Path folder) throws Exception {
        for (String codec : CODECS) {
            save(folder, "small-" + codec, messages(plain(codec), 10, 1));
            if (!codec.equals("none")) save(folder, "large-" + codec, messages(plain(codec), 40, 700));
        }
        save(folder, "transactional", messages(
            builder("none", TimestampType.CREATE_TIME, 100, -1, 4711, (short) 3, 2_000_000_000, true), 3, 1));
        save(folder, "append-time", messages(
            builder("lz4", TimestampType.LOG_APPEND_TIME, 5, START + 99, -1, (short) -1, -1, false), 3, 1));
        save(folder, "commit", MemoryRecords.withEndTransactionMarker(
            103, START, 7, 4711, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 12)));
        save(folder, "abort", MemoryRecords.withEndTransactionMarker(
            103, START, 7, 4711, (short) 3, new EndTransactionMarker(ControlRecordType.ABORT, 12)));
        var voters = List.of(new LeaderChangeMessage.Voter().setVoterId(1));
        save(folder, "leader-change", MemoryRecords.withLeaderChangeMessage(0, START, 7, ByteBuffer.allocate(256),
            new LeaderChangeMessage().setVersion((short) 0).setLeaderId(1).setVoters(voters).setGrantingVoters(voters)));
        save(folder, "snapshot-header", MemoryRecords.withSnapshotHeaderRecord(0, START, 7, ByteBuffer.allocate(256),
            new SnapshotHeaderRecord().setLastContainedLogTimestamp(START + 1)));
        save(folder, "snapshot-footer", MemoryRecords.withSnapshotFooterRecord(3, START, 7, ByteBuffer.allocate(256),
            new SnapshotFooterRecord()));
    }

    static MemoryRecordsBuilder plain(String codec) {
        return builder(codec, TimestampType.CREATE_TIME, 0, -1, -1, (short) -1, -1, false);
    }

    static void save(Path folder, String name, MemoryRecords records) throws Exception {
        ByteBuffer bytes = records.buffer().duplicate();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        Files.write(folder.resolve(name + ".batch"), copy);
    }

    static void check(Path folder) throws Exception {
        for (String codec : CODECS) {
            compare(folder, "small-" + codec, codec, 10, 1);
            if (!codec.equals("none")) compare(folder, "large-" + codec, codec, 40, 700);
        }
        System.out.println("Kafka reads every batch");
    }

    static void compare(Path folder, String name, String codec, int count, int repeat) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(folder.resolve(name + ".batch"))));
        int i = 0;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            require(batch.compressionType().name.equals(codec), name + " is " + batch.compressionType());
            require(batch.maxTimestamp() == timestamp(count - 1), name + ": maximum timestamp " + batch.maxTimestamp());
            for (Record record : batch) {
                record.ensureValid();
                String what = name + ", record " + i;
                require(record.offset() == i, what + ": offset " + record.offset());
                require(record.timestamp() == timestamp(i), what + ": timestamp " + record.timestamp());
                require(Arrays.equals(bytes(record.key()), key(i)), what + ": key");
                require(Arrays.equals(bytes(record.value()), value(i, repeat)), what + ": value");
                require(Arrays.equals(record.headers(), headers(i)), what + ": headers");
                i++;
            }
        }
        require(i == count, name + " has " + i + " records");
    }

    static byte[] bytes(ByteBuffer buffer) {
        return buffer == null ? null : Utils.toArray(buffer);
    }

    static void require(boolean holds, String problem) {
        if (!holds) throw new AssertionError(problem);
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        Files.createDirectories(folder);
        if (arguments[0].equals("write")) write(folder);
        else check(folder);
    }
}
