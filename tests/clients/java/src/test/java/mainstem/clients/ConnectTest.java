package mainstem.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.connect.cli.AbstractConnectCli;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.cli.ConnectStandalone;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.runtime.Herder;
import org.apache.kafka.connect.util.FutureCallback;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Kafka Connect copies the lines of a file into a topic, and those of the topic into another file. */
class ConnectTest {
  @TempDir Path folder;

  private final String id = Cluster.freshName("connect");

  private Map<String, String> worker() {
    Map<String, String> settings = new HashMap<>();
    settings.put("bootstrap.servers", Cluster.bootstrap());
    settings.put("key.converter", "org.apache.kafka.connect.storage.StringConverter");
    settings.put("value.converter", "org.apache.kafka.connect.storage.StringConverter");
    settings.put("listeners", "http://127.0.0.1:0");
    settings.put("plugin.discovery", "service_load");
    settings.put("plugin.path", folder.toString());
    settings.put("offset.flush.interval.ms", "200");
    return settings;
  }

  private static void put(Herder herder, Map<String, String> config) throws Exception {
    FutureCallback<Herder.Created<org.apache.kafka.connect.runtime.rest.entities.ConnectorInfo>> done = new FutureCallback<>();
    herder.putConnectorConfig(config.get("name"), config, false, done);
    done.get(60, TimeUnit.SECONDS);
  }

  /** Starts a worker with both connectors, and waits until the second file says what the first does. */
  private void copy(AbstractConnectCli<?, ?> cli, Map<String, String> settings, String topic) throws Exception {
    Path from = folder.resolve(topic + ".in");
    Path to = folder.resolve(topic + ".out");
    Files.writeString(from, "one\ntwo\n");
    Connect<?> connect = cli.startConnect(settings);
    try {
      put(connect.herder(), Map.of("name", topic + "-source", "connector.class", "FileStreamSource", "tasks.max", "1",
          "file", from.toString(), "topic", topic));
      put(connect.herder(), Map.of("name", topic + "-sink", "connector.class", "FileStreamSink", "tasks.max", "1",
          "file", to.toString(), "topics", topic));
      waitForText(to, "one\ntwo\n");
      Files.writeString(from, "three\n", StandardOpenOption.APPEND);
      waitForText(to, "one\ntwo\nthree\n");
    } finally {
      connect.stop();
      connect.awaitStop();
    }
  }

  private static void waitForText(Path file, String text) {
    Cluster.waitUntil(file + " says: " + text, () -> {
      try {
        return Files.exists(file) && Files.readString(file).equals(text);
      } catch (java.io.IOException failed) {
        throw new AssertionError(failed);
      }
    });
  }

  @Test
  void aStandaloneWorkerCopiesAFile() throws Exception {
    Map<String, String> settings = worker();
    settings.put("offset.storage.file.filename", folder.resolve("offsets").toString());
    copy(new ConnectStandalone(), settings, Cluster.newTopic("lines", 1));
  }

  @Test
  void aDistributedWorkerKeepsItsStateInCompactedTopics() throws Exception {
    Map<String, String> settings = worker();
    settings.put("group.id", id);
    for (String kind : List.of("offset", "config", "status")) {
      settings.put(kind + ".storage.topic", id + "-" + kind);
      settings.put(kind + ".storage.replication.factor", "1");
    }
    settings.put("offset.storage.partitions", "2");
    settings.put("status.storage.partitions", "2");
    settings.put("scheduled.rebalance.max.delay.ms", "0");
    copy(new ConnectDistributed(), settings, Cluster.newTopic("lines", 1));
    try (Admin admin = Cluster.admin()) {
      for (String kind : List.of("offset", "config", "status")) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, id + "-" + kind);
        var described = admin.describeConfigs(List.of(resource)).all().get(60, TimeUnit.SECONDS).get(resource);
        assertEquals("compact", described.get("cleanup.policy").value(), kind);
      }
    }
  }
}
