package org.apache.kafka.common.utils;

/** The file connectors of Kafka 4.3, the newest that are published, ask this for their version; Kafka 4.4 has moved it. */
public final class AppInfoParser {
  private AppInfoParser() {}

  public static String getVersion() {
    return "4.3.1";
  }
}
