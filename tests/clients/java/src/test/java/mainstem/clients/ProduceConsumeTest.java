package mainstem.clients;

import static mainstem.clients.Messages.content;
import static mainstem.clients.Messages.numbered;
import static mainstem.clients.Messages.offsets;
import static mainstem.clients.Messages.read;
import static mainstem.clients.Messages.readFromStart;
import static mainstem.clients.Messages.record;
import static mainstem.clients.Messages.send;
import static mainstem.clients.Messages.sentContent;
import static mainstem.clients.Messages.texts;
import static mainstem.clients.Messages.upTo;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ProduceConsumeTest {
  @ParameterizedTest
  @ValueSource(strings = {"none", "gzip", "snappy", "lz4", "zstd"})
  void messagesOfEveryShapeSurviveEveryCodec(String codec) throws Exception {
    String topic = Cluster.newTopic("codec", 1);
    List<ProducerRecord<byte[], byte[]>> sent = List.of(
        record(topic, "key", "value", "first", "1", "first", "again", "empty", "", "null", null),
        record(topic, null, "no key"),
        record(topic, "no value", null),
        record(topic, null, null, "only", "header"),
        record(topic, "", ""),
        record(topic, "schlüssel", "wert → 値", "größe", "ü"),
        record(topic, "long", "compressible ".repeat(2000)));
    assertEquals(upTo(sent.size()), send(sent, Map.of("compression.type", codec)));
    var received = readFromStart(topic, sent.size());
    assertEquals(upTo(sent.size()), offsets(received));
    assertEquals(sentContent(sent), content(received));
  }

  @Test
  void aMessageOfOneMegabyte() throws Exception {
    String topic = Cluster.newTopic("big", 1);
    byte[] big = new byte[1_000_000];
    for (int i = 0; i < big.length; i++) {
      big[i] = (byte) (i * 7 % 251);
    }
    List<ProducerRecord<byte[], byte[]>> sent = List.of(new ProducerRecord<>(topic, 0, null, big), record(topic, "after", "small"));
    send(sent, Map.of());
    assertEquals(sentContent(sent), content(readFromStart(topic, 2)));
  }

  @Test
  void seekBackAndForth() throws Exception {
    String topic = Cluster.newTopic("seek", 1);
    send(numbered(topic, 0, 100), Map.of());
    TopicPartition at = new TopicPartition(topic, 0);
    try (KafkaConsumer<byte[], byte[]> consumer = Cluster.consumer(Map.of())) {
      consumer.assign(List.of(at));
      assertEquals(upTo(100), offsets(read(consumer, 100)));
      for (long target : List.of(37L, 99L, 0L)) {
        consumer.seek(at, target);
        assertEquals("v" + target, texts(read(consumer, 1)).get(0));
      }
      assertEquals(Map.of(at, 0L), consumer.beginningOffsets(List.of(at)));
      assertEquals(Map.of(at, 100L), consumer.endOffsets(List.of(at)));
      consumer.seekToEnd(List.of(at));
      assertEquals(100, consumer.position(at));
    }
  }

  @Test
  void offsetsForTimes() throws Exception {
    String topic = Cluster.newTopic("times", 1);
    long base = System.currentTimeMillis() - 3_600_000; // too young for retention
    List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      sent.add(new ProducerRecord<>(topic, 0, base + 1000L * i, null, Messages.utf8("v" + i)));
    }
    send(sent, Map.of());
    TopicPartition at = new TopicPartition(topic, 0);
    try (KafkaConsumer<byte[], byte[]> consumer = Cluster.consumer(Map.of())) {
      consumer.assign(List.of(at));
      for (Map.Entry<Long, Long> row : Map.of(base, 0L, base + 4000, 4L, base + 4001, 5L).entrySet()) {
        assertEquals(row.getValue(), consumer.offsetsForTimes(Map.of(at, row.getKey())).get(at).offset());
      }
      assertNull(consumer.offsetsForTimes(Map.of(at, base + 9001)).get(at));
      assertEquals(base + 3000, read(consumer, 10).get(3).timestamp());
    }
  }

  @Test
  void theIdempotentProducerKeepsOrder() throws Exception {
    String topic = Cluster.newTopic("idempotent", 1);
    Map<String, Object> settings = Map.of("enable.idempotence", true, "acks", "all", "max.in.flight.requests.per.connection", 5, "batch.size", 512);
    var sent = numbered(topic, 0, 3000);
    assertEquals(upTo(3000), send(sent, settings));
    assertEquals(sentContent(sent), content(readFromStart(topic, 3000)));
  }

  @ParameterizedTest
  @ValueSource(strings = {"0", "1", "all"})
  void everyKindOfAcknowledgement(String acks) throws Exception {
    String topic = Cluster.newTopic("acks", 1);
    send(numbered(topic, 0, 10), Map.of("enable.idempotence", false, "acks", acks));
    assertEquals(upTo(10), offsets(readFromStart(topic, 10)));
  }
}
