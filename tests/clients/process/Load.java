// The load of Kafka's Java client: an idempotent producer (acks=all) that numbers its messages.
//
//   java -cp 'KAFKA_JARS/*' Load.java BOOTSTRAP TOPIC PARTITIONS
//
// Message n goes to partition n % PARTITIONS. For each acknowledged message a line on standard output: `acknowledged NUMBER
// PARTITION OFFSET`; for each failed one `failed NUMBER: REASON`. When standard input ends it sends no more, waits for what is under
// way, says `sent COUNT` and ends.

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Load {
    static final int UNDER_WAY_MAX = 5000;
    /** So that the test's machine has time for the broker, too. */
    static final int MESSAGES_BETWEEN_PAUSES = 100;

    static final BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.US_ASCII));

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        Thread input = new Thread(Load::readToTheEnd);
        input.start();
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0],
                "enable.idempotence", true,
                "acks", "all",
                "linger.ms", 2,
                "batch.size", 2048,
                "request.timeout.ms", 5000,
                "delivery.timeout.ms", 300_000,
                "reconnect.backoff.max.ms", 200,
                "retry.backoff.max.ms", 200);
        int sent = 0;
        Semaphore room = new Semaphore(UNDER_WAY_MAX);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            while (input.isAlive()) {
                room.acquire();
                int number = sent;
                sent += 1;
                byte[] value = Integer.toString(number).getBytes(StandardCharsets.US_ASCII);
                producer.send(new ProducerRecord<>(topic, number % partitions, null, value), (metadata, failure) -> {
                    say(line(number, metadata, failure));
                    room.release();
                });
                if (sent % MESSAGES_BETWEEN_PAUSES == 0) {
                    Thread.sleep(2);
                }
            }
            producer.flush();
        }
        say("sent " + sent);
    }

    static String line(int number, RecordMetadata metadata, Exception failure) {
        return failure == null
                ? "acknowledged " + number + " " + metadata.partition() + " " + metadata.offset()
                : "failed " + number + ": " + failure;
    }

    static synchronized void say(String line) {
        try {
            out.write(line);
            out.newLine();
            out.flush();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    static void readToTheEnd() {
        try {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
