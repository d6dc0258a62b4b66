import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client in the same two roles as tests/interop/transaction_client.py, and one call for the cluster:
 * Transactions BOOTSTRAP produce ID TIMEOUT_MS;
 * Transactions BOOTSTRAP process ID GROUP INPUT OUTPUT COUNT;
 * Transactions BOOTSTRAP feature LEVEL sets transaction.version.
 */
public class Transactions {
    private static final BufferedReader INPUT =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private static final List<Future<RecordMetadata>> SENDS = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        if (arguments[1].equals("feature")) {
            feature(arguments[0], Short.parseShort(arguments[2]));
        } else if (arguments[1].equals("produce")) {
            produce(producer(arguments[0], arguments[2], arguments[3]));
        } else {
            process(arguments);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void feature(String bootstrap, short level) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            var found = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version");
            boolean down = found != null && found.maxVersionLevel() > level;
            var type = down ? FeatureUpdate.UpgradeType.SAFE_DOWNGRADE : FeatureUpdate.UpgradeType.UPGRADE;
            admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate(level, type)),
                new UpdateFeaturesOptions()).all().get();
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id, String timeout) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", timeout);
        properties.put("request.timeout.ms", "5000");
        properties.put("delivery.timeout.ms", "60000");
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void produce(KafkaProducer<byte[], byte[]> producer) throws Exception {
        for (String line = INPUT.readLine(); line != null && !line.isEmpty(); line = INPUT.readLine()) {
            try {
                call(producer, line.split(" "));
                System.out.println("{\"ok\": true}");
            } catch (Exception error) {
                Throwable inner = error.getCause() == null ? error : error.getCause();
                String text = String.valueOf(error.getMessage()).replaceAll("[^ -~]|[\"\\\\]", " ");
                System.out.printf("{\"error\": \"%s\", \"text\": \"%s: %s\"}%n", inner.getClass().getSimpleName(),
                    error.getClass().getSimpleName(), text);
            }
        }
    }

    private static void call(KafkaProducer<byte[], byte[]> producer, String[] words) throws Exception {
        switch (words[0]) {
            case "init" -> producer.initTransactions();
            case "begin" -> {
                SENDS.clear();
                producer.beginTransaction();
            }
            case "send" -> SENDS.add(
                producer.send(new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, bytes(words[3]))));
            case "flush" -> {
                producer.flush();
                for (Future<RecordMetadata> send : SENDS) {
                    send.get();
                }
            }
            case "offset" -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(words[2], Integer.parseInt(words[3])),
                    new OffsetAndMetadata(Long.parseLong(words[4]))), new ConsumerGroupMetadata(words[1]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void process(String[] arguments) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(arguments[0], arguments[2], "60000");
        producer.initTransactions();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", arguments[0], "group.id", arguments[3], "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "session.timeout.ms", "3000", "heartbeat.interval.ms", "500",
            "isolation.level", "read_committed", "max.poll.records", "3"),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(arguments[4]));
        int count = Integer.parseInt(arguments[6]);
        int done = 0;
        while (done < count) {
            var records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(arguments[5], record.partition(), null, record.value()));
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.flush();
            System.out.printf("{\"sent\": %d}%n", records.count());
            INPUT.readLine();
            producer.commitTransaction();
            done += records.count();
            System.out.printf("{\"committed\": %d}%n", done);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
