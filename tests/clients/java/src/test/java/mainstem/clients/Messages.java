package mainstem.clients;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** Messages as the tests compare them: keys, values and headers by content, null apart from empty. */
final class Messages {
  private Messages() {}

  record Named(String name, List<Byte> value) {}

  record Message(List<Byte> key, List<Byte> value, List<Named> headers) {}

  static List<Byte> list(byte[] bytes) {
    if (bytes == null) {
      return null;
    }
    List<Byte> list = new ArrayList<>(bytes.length);
    for (byte b : bytes) {
      list.add(b);
    }
    return list;
  }

  static byte[] utf8(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  static ProducerRecord<byte[], byte[]> record(String topic, String key, String value, String... headers) {
    ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, utf8(key), utf8(value));
    for (int i = 0; i < headers.length; i += 2) {
      record.headers().add(headers[i], utf8(headers[i + 1]));
    }
    return record;
  }

  static List<ProducerRecord<byte[], byte[]>> numbered(String topic, int from, int count) {
    List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (int i = from; i < from + count; i++) {
      records.add(record(topic, "k" + i, "v" + i));
    }
    return records;
  }

  /** Sends everything and returns the acknowledged offsets. */
  static List<Long> send(List<ProducerRecord<byte[], byte[]>> records, Map<String, Object> settings) throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    List<Long> offsets = new ArrayList<>();
    try (KafkaProducer<byte[], byte[]> producer = Cluster.producer(settings)) {
      for (ProducerRecord<byte[], byte[]> record : records) {
        sent.add(producer.send(record));
      }
      for (Future<RecordMetadata> future : sent) {
        offsets.add(future.get(60, TimeUnit.SECONDS).offset());
      }
    }
    return offsets;
  }

  /** Polls until `count` records have come. */
  static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
    List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
    Cluster.waitUntil(count + " messages arrive", () -> {
      consumer.poll(Duration.ofMillis(500)).forEach(found::add);
      return found.size() >= count;
    });
    return found;
  }

  /** Reads partition 0 from the start. */
  static List<ConsumerRecord<byte[], byte[]>> readFromStart(String topic, int count) {
    try (KafkaConsumer<byte[], byte[]> consumer = Cluster.consumer(Map.of())) {
      consumer.assign(List.of(new TopicPartition(topic, 0)));
      return read(consumer, count);
    }
  }

  private static List<Named> named(Iterable<Header> headers) {
    List<Named> list = new ArrayList<>();
    headers.forEach(h -> list.add(new Named(h.key(), list(h.value()))));
    return list;
  }

  static List<Message> sentContent(List<ProducerRecord<byte[], byte[]>> records) {
    return records.stream().map(r -> new Message(list(r.key()), list(r.value()), named(r.headers()))).toList();
  }

  static List<Message> content(List<ConsumerRecord<byte[], byte[]>> records) {
    return records.stream().map(r -> new Message(list(r.key()), list(r.value()), named(r.headers()))).toList();
  }

  static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
    return records.stream().map(r -> new String(Objects.requireNonNull(r.value()), StandardCharsets.UTF_8)).toList();
  }

  static List<Long> offsets(List<ConsumerRecord<byte[], byte[]>> records) {
    return records.stream().map(ConsumerRecord::offset).toList();
  }

  static List<Long> upTo(int count) {
    Long[] offsets = new Long[count];
    Arrays.setAll(offsets, i -> (long) i);
    return List.of(offsets);
  }
}
