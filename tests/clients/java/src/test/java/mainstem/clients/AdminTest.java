package mainstem.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class AdminTest {
  private final Admin admin = Cluster.admin();

  @AfterEach
  void close() {
    admin.close();
  }

  private static <T> T get(KafkaFuture<T> future) throws Exception {
    return future.get(60, TimeUnit.SECONDS);
  }

  private static void failsWith(Class<? extends Throwable> cause, KafkaFuture<?> future) {
    assertInstanceOf(cause, assertThrows(ExecutionException.class, () -> get(future)).getCause());
  }

  private ConfigEntry config(String topic, String name) throws Exception {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    Config config = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    return config.get(name);
  }

  private KafkaFuture<Void> alter(String topic, AlterConfigOp.OpType type, String name, String value) {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    return admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), type)))).all();
  }

  @Test
  void topicsAreCreatedDescribedGrownAndDeleted() throws Exception {
    String name = Cluster.freshName("admin");
    NewTopic topic = new NewTopic(name, 2, (short) 1).configs(Map.of("retention.ms", "3600000"));
    var created = admin.createTopics(List.of(topic));
    assertEquals(2, get(created.numPartitions(name)));
    Cluster.waitUntil("the topic is there", () -> Cluster.partitionsWithLeader(admin, name) == 2);
    assertTrue(get(admin.listTopics().names()).contains(name));
    assertEquals(get(created.topicId(name)), get(admin.describeTopics(List.of(name)).allTopicNames()).get(name).topicId());
    assertEquals("3600000", config(name, "retention.ms").value());
    assertEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config(name, "retention.ms").source());
    assertEquals(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config(name, "cleanup.policy").source());
    failsWith(TopicExistsException.class, admin.createTopics(List.of(topic)).all());
    get(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all());
    Cluster.waitUntil("the topic has grown", () -> Cluster.partitionsWithLeader(admin, name) == 5);
    get(admin.deleteTopics(List.of(name)).all());
    Cluster.waitUntil("the topic has gone", () -> Cluster.partitionsWithLeader(admin, name) == 0);
    failsWith(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(name)).all());
  }

  @Test
  void aTopicConfigIsSetAppendedAndTakenBack() throws Exception {
    String topic = Cluster.newTopic("configs", 1);
    String before = config(topic, "segment.bytes").value();
    get(alter(topic, AlterConfigOp.OpType.SET, "segment.bytes", "20971520"));
    assertEquals("20971520", config(topic, "segment.bytes").value());
    get(alter(topic, AlterConfigOp.OpType.DELETE, "segment.bytes", null));
    assertEquals(before, config(topic, "segment.bytes").value());
    failsWith(InvalidConfigurationException.class, alter(topic, AlterConfigOp.OpType.SET, "segment.bytes", "many"));
    failsWith(InvalidConfigurationException.class, alter(topic, AlterConfigOp.OpType.SET, "no.such.config", "1"));
  }

  @Test
  void theClusterIsDescribed() throws Exception {
    var cluster = admin.describeCluster();
    assertEquals(1, get(cluster.nodes()).size());
    assertEquals(Cluster.bootstrap(), get(cluster.nodes()).iterator().next().host() + ":" + get(cluster.nodes()).iterator().next().port());
    assertTrue(get(cluster.clusterId()).length() >= 16);
  }

  @Test
  void offsetsAreListedByKind() throws Exception {
    String topic = Cluster.newTopic("kinds", 1);
    Messages.send(Messages.numbered(topic, 0, 10), Map.of());
    TopicPartition at = new TopicPartition(topic, 0);
    assertEquals(0, get(admin.listOffsets(Map.of(at, OffsetSpec.earliest())).all()).get(at).offset());
    assertEquals(10, get(admin.listOffsets(Map.of(at, OffsetSpec.latest())).all()).get(at).offset());
    var newest = get(admin.listOffsets(Map.of(at, OffsetSpec.maxTimestamp())).all()).get(at);
    assertTrue(newest.offset() >= 0 && newest.offset() < 10 && newest.timestamp() > 0);
  }
}
