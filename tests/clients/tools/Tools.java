import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's tools one after the other in one process, because starting a process takes longer than most of them.
 *
 * <p>Each line of the input is a JSON object: {"class", "args", "stdin"} runs a tool and gives {"output", "status"}, with what it
 * printed to both streams; {"join": group, "topic", "bootstrap"} starts a member of a group, {"leave": group} ends it.
 */
public class Tools {
    /** Thrown where a process would end. Some tools catch it and end again: the first end counts. */
    private static final class Exited extends RuntimeException {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private static Integer status;
    private static int printedAtExit;

    private static void exit(int wanted) {
        if (status == null) {
            status = wanted;
            printedAtExit = printed.size();
        }
        throw new Exited();
    }

    private static final class Member extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final String topic;
        volatile boolean hasPartitions;
        private volatile boolean ends;

        Member(String bootstrap, String group, String topic) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", group);
            properties.put("client.id", "member");
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            this.topic = topic;
        }

        @Override
        public void run() {
            consumer.subscribe(List.of(topic));
            while (!ends) {
                consumer.poll(Duration.ofMillis(50));
                hasPartitions = !consumer.assignment().isEmpty();
            }
            consumer.close();
        }

        void end() throws InterruptedException {
            ends = true;
            join();
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((wanted, message) -> exit(wanted));
        Exit.setHaltProcedure((wanted, message) -> exit(wanted));
        Map<String, Member> members = new HashMap<>();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = mapper.readTree(line);
            ObjectNode answer = mapper.createObjectNode();
            if (request.has("class")) {
                run(request, answer);
            } else if (request.has("join")) {
                String group = request.get("join").asText();
                Member member = new Member(request.get("bootstrap").asText(), group, request.get("topic").asText());
                member.start();
                while (!member.hasPartitions && member.isAlive()) Thread.sleep(10);
                members.put(group, member);
            } else {
                members.remove(request.get("leave").asText()).end();
            }
            answers.println(mapper.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static void run(JsonNode request, ObjectNode answer) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("args").forEach(argument -> arguments.add(argument.asText()));
        printed = new ByteArrayOutputStream();
        status = null;
        PrintStream both = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        try {
            Class<?> tool = Class.forName(request.get("class").asText());
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(String[]::new));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Exited)) {
                failure.getCause().printStackTrace(both);
                status = 1;
                printedAtExit = printed.size();
            }
        }
        int length = status == null ? printed.size() : printedAtExit;
        String output = new String(printed.toByteArray(), 0, length, StandardCharsets.UTF_8);
        answer.put("output", output).put("status", status == null ? 0 : status);
    }
}
