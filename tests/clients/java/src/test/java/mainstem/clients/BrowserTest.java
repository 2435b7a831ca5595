package mainstem.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.junit.jupiter.api.Test;

/** What a web page about the cluster asks, in its order: the cluster, its brokers, its topics, a topic, its producers, its groups. */
class BrowserTest {
  private static <T> T get(KafkaFuture<T> future) throws Exception {
    return future.get(60, TimeUnit.SECONDS);
  }

  @Test
  void everyPageFindsWhatItShows() throws Exception {
    String topic = Cluster.newTopic("browsed", 2);
    Messages.send(Messages.numbered(topic, 0, 10), Map.of("enable.idempotence", true));
    try (Admin admin = Cluster.admin()) {
      var cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
      int node = get(cluster.controller()).id();
      assertTrue(get(cluster.authorizedOperations()).contains(AclOperation.ALTER_CONFIGS));
      assertTrue(get(admin.describeFeatures().featureMetadata()).finalizedFeatures().containsKey("metadata.version"));
      assertEquals(node, get(admin.describeMetadataQuorum().quorumInfo()).leaderId());

      var folders = get(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node).values();
      var sizes = folders.iterator().next();
      assertTrue(sizes.replicaInfos().get(new TopicPartition(topic, 0)).size() > 0);
      assertTrue(sizes.totalBytes().orElse(0) > 0 && sizes.usableBytes().orElse(0) > 0);

      var broker = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(node));
      var loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, String.valueOf(node));
      var settings = new ConfigResource(ConfigResource.Type.TOPIC, topic);
      var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
      var configs = get(admin.describeConfigs(List.of(broker, loggers, settings), options).all());
      assertNotNull(configs.get(broker).get("message.max.bytes").documentation());
      assertNotNull(configs.get(loggers).get("root").value());
      assertEquals("604800000", configs.get(settings).get("retention.ms").value());

      Set<String> names = get(admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
      assertTrue(names.contains(topic));
      var described = get(admin.describeTopics(List.of(topic), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames()).get(topic);
      assertTrue(described.authorizedOperations().contains(AclOperation.DELETE));
      Set<TopicPartition> partitions =
          described.partitions().stream().map(one -> new TopicPartition(topic, one.partition())).collect(Collectors.toSet());
      for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0))) {
        var offsets = get(admin.listOffsets(partitions.stream().collect(Collectors.toMap(one -> one, one -> spec))).all());
        assertEquals(partitions, offsets.keySet());
      }
      var producers = get(admin.describeProducers(partitions).all());
      assertFalse(producers.get(new TopicPartition(topic, 0)).activeProducers().isEmpty());
      assertTrue(get(admin.listPartitionReassignments(partitions).reassignments()).isEmpty());

      String group = Cluster.freshName("browsed");
      var at = Map.of(new TopicPartition(topic, 0), new org.apache.kafka.clients.consumer.OffsetAndMetadata(4));
      get(admin.alterConsumerGroupOffsets(group, at).all());
      assertTrue(get(admin.listGroups(new ListGroupsOptions()).all()).stream().anyMatch(one -> one.groupId().equals(group)));
      assertEquals(group, get(admin.describeConsumerGroups(List.of(group)).all()).get(group).groupId());
      assertEquals(4, get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(new TopicPartition(topic, 0)).offset());
      get(admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(-1))).all());
      get(admin.deleteConsumerGroups(List.of(group)).all());
    }
  }
}
