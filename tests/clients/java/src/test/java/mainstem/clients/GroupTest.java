package mainstem.clients;

import static mainstem.clients.Messages.numbered;
import static mainstem.clients.Messages.read;
import static mainstem.clients.Messages.send;
import static mainstem.clients.Messages.texts;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GroupTest {
  private static final Set<Integer> ALL = Set.of(0, 1, 2, 3);

  /** A member whose polls the test makes itself; it counts how often it was assigned something anew. */
  private static final class Member implements ConsumerRebalanceListener, AutoCloseable {
    final KafkaConsumer<byte[], byte[]> consumer;
    int rebalances;

    Member(String group, String topic, Map<String, Object> more) {
      Map<String, Object> settings = new java.util.HashMap<>(Map.of("group.id", group));
      settings.putAll(more);
      consumer = Cluster.consumer(settings);
      consumer.subscribe(List.of(topic), this);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      rebalances++;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

    Set<Integer> assigned() {
      consumer.poll(Duration.ofMillis(100));
      Set<Integer> partitions = new TreeSet<>();
      consumer.assignment().forEach(p -> partitions.add(p.partition()));
      return partitions;
    }

    @Override
    public void close() {
      consumer.close();
    }
  }

  @ParameterizedTest
  @ValueSource(classes = {RangeAssignor.class, CooperativeStickyAssignor.class})
  void twoMembersShareThePartitionsAndOneTakesOver(Class<?> assignor) throws Exception {
    String topic = Cluster.newTopic("shared", 4);
    String group = Cluster.freshName("group");
    Map<String, Object> settings = Map.of("partition.assignment.strategy", assignor.getName());
    try (Member second = new Member(group, topic, settings)) {
      try (Member first = new Member(group, topic, settings)) {
        Cluster.waitUntil("two members own two partitions each", () -> {
          Set<Integer> one = first.assigned();
          Set<Integer> two = second.assigned();
          Set<Integer> union = new HashSet<>(one);
          union.addAll(two);
          return one.size() == 2 && two.size() == 2 && union.equals(ALL);
        });
      }
      Cluster.waitUntil("the second member takes over", () -> second.assigned().equals(ALL));
    }
  }

  @Test
  void aGroupResumesWhereItCommitted() throws Exception {
    String topic = Cluster.newTopic("resume", 1);
    String group = Cluster.freshName("group");
    TopicPartition at = new TopicPartition(topic, 0);
    send(numbered(topic, 0, 20), Map.of());
    try (Member member = new Member(group, topic, Map.of())) {
      assertEquals(20, read(member.consumer, 20).size());
      member.consumer.commitSync(Map.of(at, new OffsetAndMetadata(7, "a note")));
    }
    send(numbered(topic, 20, 5), Map.of());
    try (Member member = new Member(group, topic, Map.of())) {
      List<String> values = texts(read(member.consumer, 18));
      assertEquals("v7", values.get(0));
      assertEquals("v24", values.get(17));
      assertEquals(new OffsetAndMetadata(7, "a note").metadata(), member.consumer.committed(Set.of(at)).get(at).metadata());
    }
  }

  @Test
  void aStaticMemberReturnsToItsPartitionsWithoutARebalance() throws Exception {
    String topic = Cluster.newTopic("static", 4);
    String group = Cluster.freshName("group");
    Map<String, Object> one = Map.of("group.instance.id", "one");
    try (Member two = new Member(group, topic, Map.of("group.instance.id", "two"))) {
      Set<Integer> owned;
      try (Member first = new Member(group, topic, one)) {
        Cluster.waitUntil("both own two partitions", () -> first.assigned().size() == 2 & two.assigned().size() == 2);
        owned = first.assigned();
      }
      int rebalances = two.rebalances;
      Set<Integer> kept = two.assigned();
      try (Member returned = new Member(group, topic, one)) {
        Cluster.waitUntil("it owns what it owned before", () -> two.assigned().equals(kept) & returned.assigned().equals(owned));
      }
      assertEquals(rebalances, two.rebalances);
    }
  }

  @Test
  void groupsAreListedAndDescribed() throws Exception {
    String topic = Cluster.newTopic("described", 2);
    String group = Cluster.freshName("group");
    try (Admin admin = Cluster.admin(); Member member = new Member(group, topic, Map.of())) {
      Cluster.waitUntil("the member owns both partitions", () -> member.assigned().size() == 2);
      var listed = admin.listConsumerGroups().valid().get(60, TimeUnit.SECONDS);
      assertEquals(1, listed.stream().filter(g -> g.groupId().equals(group)).count());
      ConsumerGroupDescription description = admin.describeConsumerGroups(List.of(group)).all().get(60, TimeUnit.SECONDS).get(group);
      assertEquals(GroupState.STABLE, description.groupState());
      assertEquals(2, description.members().iterator().next().assignment().topicPartitions().size());
      member.consumer.commitSync(Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(0)));
      var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(60, TimeUnit.SECONDS);
      assertEquals(Set.of(new TopicPartition(topic, 1)), offsets.keySet());
    }
  }
}
