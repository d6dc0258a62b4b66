import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a consumer group: GroupMember BOOTSTRAP GROUP TOPIC STRATEGY INSTANCE SESSION_MS PROTOCOL; leaves when its
 * input ends.
 */
public class GroupMember {
    private static volatile boolean stopped;

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) {
                // the same as the end
            }
            stopped = true;
        });
        input.setDaemon(true);
        input.start();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                properties(arguments), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            if (arguments[2].startsWith("^") && arguments[6].equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(arguments[2]));
            } else if (arguments[2].startsWith("^")) {
                consumer.subscribe(Pattern.compile(arguments[2]));
            } else {
                consumer.subscribe(List.of(arguments[2]));
            }
            String said = "";
            while (!stopped) {
                var records = consumer.poll(Duration.ofMillis(100));
                String now = assigned(consumer.assignment());
                if (!now.equals(said)) {
                    said = now;
                    System.out.println(now);
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.printf("{\"record\": [\"%s\", %d, %d, \"%s\"]}%n", record.topic(), record.partition(),
                        record.offset(), new String(record.value(), StandardCharsets.UTF_8));
                }
            }
        }
    }

    private static Properties properties(String[] arguments) {
        String assignor = arguments[3].equals("cooperative-sticky") ? "CooperativeStickyAssignor" : "RangeAssignor";
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("metadata.max.age.ms", "1000");
        properties.put("auto.commit.interval.ms", "500");
        properties.put("group.protocol", arguments[6]);
        if (arguments[6].equals("classic")) {
            properties.put("session.timeout.ms", arguments[5]);
            properties.put("heartbeat.interval.ms", "500");
            properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        }
        if (!arguments[4].equals("-")) {
            properties.put("group.instance.id", arguments[4]);
        }
        return properties;
    }

    private static String assigned(Set<TopicPartition> partitions) {
        return partitions.stream()
            .map(each -> String.format("[\"%s\", %d]", each.topic(), each.partition()))
            .collect(Collectors.toCollection(TreeSet::new)).stream()
            .collect(Collectors.joining(", ", "{\"assigned\": [", "]}"));
    }
}
