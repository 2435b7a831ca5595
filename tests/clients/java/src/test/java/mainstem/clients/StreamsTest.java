package mainstem.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A word count: its words go through a repartition topic, its counts into a changelog, from which another instance goes on. */
class StreamsTest {
  @TempDir Path folder;

  private final String input = Cluster.freshName("words");
  private final String output = Cluster.freshName("counts");
  private final String application = Cluster.freshName("word-count");

  private KafkaStreams wordCount(String stateFolder) {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.<String, String>as("words").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
        .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
        .toStream()
        .to(output, Produced.with(Serdes.String(), Serdes.Long()));
    Properties settings = new Properties();
    settings.put("bootstrap.servers", Cluster.bootstrap());
    settings.put("application.id", application);
    settings.put("state.dir", folder.resolve(stateFolder).toString());
    settings.put("commit.interval.ms", 100);
    settings.put("repartition.purge.interval.ms", 100);
    settings.put("statestore.cache.max.bytes", 0);
    settings.put("processing.guarantee", "at_least_once");
    settings.put("auto.offset.reset", "earliest");
    // An instance that ends does not leave its group: the next one waits until its session is over.
    settings.put("session.timeout.ms", 6000);
    settings.put("heartbeat.interval.ms", 500);
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    streams.start();
    return streams;
  }

  private static void say(String topic, List<String> lines) {
    try (KafkaProducer<byte[], byte[]> producer = Cluster.producer(Map.of())) {
      lines.forEach(line -> producer.send(new ProducerRecord<>(topic, line.getBytes())));
    }
  }

  /** Reads until every count is as expected. */
  private void waitForCounts(KafkaConsumer<byte[], byte[]> consumer, Map<String, Long> seen, Map<String, Long> expected) {
    Cluster.waitUntil("the words are counted: " + expected, () -> {
      consumer.poll(Duration.ofMillis(100)).forEach(record ->
          seen.put(new String(record.key()), Serdes.Long().deserializer().deserialize(output, record.value())));
      return expected.entrySet().stream().allMatch(count -> count.getValue().equals(seen.get(count.getKey())));
    });
  }

  private static <T> T get(org.apache.kafka.common.KafkaFuture<T> future) throws Exception {
    return future.get(60, TimeUnit.SECONDS);
  }

  @Test
  void wordsAreCountedAndAnotherInstanceGoesOn() throws Exception {
    String repartition = application + "-words-repartition";
    String changelog = application + "-counts-changelog";
    Map<String, Long> seen = new HashMap<>();
    try (Admin admin = Cluster.admin(); KafkaConsumer<byte[], byte[]> consumer = Cluster.consumer(Map.of())) {
      get(admin.createTopics(List.of(
          new org.apache.kafka.clients.admin.NewTopic(input, 2, (short) 1),
          new org.apache.kafka.clients.admin.NewTopic(output, 1, (short) 1))).all());
      Cluster.waitUntil("the topics are there", () -> Cluster.partitionsWithLeader(admin, input) == 2 && Cluster.partitionsWithLeader(admin, output) == 1);
      consumer.assign(List.of(new TopicPartition(output, 0)));
      say(input, List.of("all streams lead to kafka", "hello kafka streams", "join kafka summit"));
      try (KafkaStreams streams = wordCount("first")) {
        waitForCounts(consumer, seen, Map.of("kafka", 3L, "streams", 2L, "summit", 1L));
        assertTrue(get(admin.listTopics().names()).containsAll(List.of(repartition, changelog)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, changelog);
        assertEquals("compact", get(admin.describeConfigs(List.of(resource)).all()).get(resource).get("cleanup.policy").value());
        Cluster.waitUntil("what was read of the repartition topic is deleted", () -> deleted(admin, repartition) > 0);
        streams.close(Duration.ofSeconds(30));
      }
      say(input, List.of("hello again kafka"));
      try (KafkaStreams streams = wordCount("second")) {
        waitForCounts(consumer, seen, Map.of("kafka", 4L, "hello", 2L, "again", 1L, "summit", 1L));
        streams.close(Duration.ofSeconds(30));
      }
    }
  }

  private static long deleted(Admin admin, String topic) {
    TopicPartition first = new TopicPartition(topic, 0);
    TopicPartition second = new TopicPartition(topic, 1);
    try {
      var offsets = get(admin.listOffsets(Map.of(first, OffsetSpec.earliest(), second, OffsetSpec.earliest())).all());
      return offsets.get(first).offset() + offsets.get(second).offset();
    } catch (Exception failed) {
      throw new AssertionError(failed);
    }
  }
}
