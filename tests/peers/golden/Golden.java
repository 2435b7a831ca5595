// Writes golden bytes with Kafka's own generated classes.
//
//   java -cp "<Kafka's jars>" Golden.java INPUT > OUTPUT
//
// A line of INPUT is `Name <tab> version <tab> json`, a line of OUTPUT `Name <tab> version <tab> hex <tab> json`.
// The JSON goes through the class's JsonConverter, so fields are matched by name;
// `default` in its place is the value of the class without anything set.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Golden {
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.");

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ObjectMapper mapper = new ObjectMapper();
        for (String line : Files.readAllLines(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t", 3);
            short version = Short.parseShort(parts[1]);
            String hex = parts[2].equals("default")
                ? defaultHex(parts[0], version)
                : hex(parts[0], mapper.readTree(parts[2]), version);
            output.println(parts[0] + "\t" + version + "\t" + hex + "\t" + parts[2]);
        }
        output.flush();
    }

    private static String hex(String name, JsonNode json, short version) throws Exception {
        try {
            Class<?> converter = converter(name);
            Method read = converter.getMethod("read", JsonNode.class, short.class);
            return hex((Message) read.invoke(null, json, version), version);
        } catch (Exception problem) {
            throw new Exception(name + " " + version + ": " + json, problem);
        }
    }

    /** The value that the class has when nothing is set; `refused` when it is null and the version has no null. */
    private static String defaultHex(String name, short version) throws Exception {
        Class<?> message = converter(name).getMethod("read", JsonNode.class, short.class).getReturnType();
        try {
            return hex((Message) message.getConstructor().newInstance(), version);
        } catch (NullPointerException problem) {
            return "refused";
        }
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        StringBuilder text = new StringBuilder();
        while (buffer.hasRemaining()) {
            text.append(String.format("%02x", buffer.get()));
        }
        return text.toString();
    }

    /** Requests, responses and headers are called `<Name>Data` there. */
    private static Class<?> converter(String name) throws ClassNotFoundException {
        for (String suffix : List.of("Data", "")) {
            for (String prefix : PACKAGES) {
                try {
                    return Class.forName(prefix + name + suffix + "JsonConverter");
                } catch (ClassNotFoundException ignored) {
                    // The next package.
                }
            }
        }
        throw new ClassNotFoundException("no JsonConverter of " + name);
    }
}
