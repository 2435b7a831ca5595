package mainstem.clients;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The broker under test, and clients of it with settings that all tests share. */
final class Cluster {
  static final Duration LIMIT = Duration.ofSeconds(60);

  private Cluster() {}

  static String bootstrap() {
    String address = System.getenv("MAINSTEM_BOOTSTRAP");
    if (address == null) {
      throw new IllegalStateException("MAINSTEM_BOOTSTRAP is not set; run `cargo xtask test clients`");
    }
    return address;
  }

  static Admin admin() {
    return Admin.create(Map.of("bootstrap.servers", bootstrap()));
  }

  static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
    Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap(), "linger.ms", 20));
    settings.putAll(more);
    return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
  }

  static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", bootstrap());
    settings.put("group.protocol", "classic");
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", false);
    settings.put("session.timeout.ms", 30_000);
    settings.put("heartbeat.interval.ms", 500);
    settings.putAll(more);
    return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  static String freshName(String kind) {
    return kind + "-" + UUID.randomUUID();
  }

  static String newTopic(String kind, int partitions) throws Exception {
    String name = freshName(kind);
    try (Admin admin = admin()) {
      admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get(60, TimeUnit.SECONDS);
      waitUntil("the topic is there", () -> partitionsWithLeader(admin, name) == partitions);
    }
    return name;
  }

  static int partitionsWithLeader(Admin admin, String topic) {
    try {
      TopicDescription description = admin.describeTopics(List.of(topic)).allTopicNames().get(60, TimeUnit.SECONDS).get(topic);
      int count = 0;
      for (TopicPartitionInfo partition : description.partitions()) {
        count += partition.leader() == null ? 0 : 1;
      }
      return count;
    } catch (Exception notYet) {
      return 0;
    }
  }

  static void waitUntil(String what, BooleanSupplier condition) {
    long end = System.nanoTime() + LIMIT.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) {
        throw new AssertionError("within " + LIMIT + " it did not happen: " + what);
      }
      try {
        Thread.sleep(20);
      } catch (InterruptedException stopped) {
        throw new IllegalStateException(stopped);
      }
    }
  }
}
