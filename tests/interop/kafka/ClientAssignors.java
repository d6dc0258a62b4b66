import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The assignors of Kafka's Java client. A line in: assignor, generation, topics as name=partitions, then members as
 * id|instance|topics|owned|generation|user data. A line out: of each member what it is given, and the user data that it
 * sends with its next subscription, "-" if none.
 */
public class ClientAssignors {
    private static final Map<String, Supplier<ConsumerPartitionAssignor>> ASSIGNORS =
        Map.of(
            "range", RangeAssignor::new,
            "roundrobin", RoundRobinAssignor::new,
            "sticky", StickyAssignor::new,
            "cooperative-sticky", CooperativeStickyAssignor::new);

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    @SuppressWarnings("removal") // the constructor of ConsumerGroupMetadata, which has no successor yet
    private static String answer(String[] words) {
        Supplier<ConsumerPartitionAssignor> assignor = ASSIGNORS.get(words[0]);
        int generation = Integer.parseInt(words[1]);
        Map<String, Subscription> members = new LinkedHashMap<>();
        for (int at = 3; at < words.length; at++) {
            String[] parts = words[at].split("\\|", -1);
            ByteBuffer data = parts[5].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(parts[5]));
            var subscription = new Subscription(
                List.of(items(parts[2], ",")), data, places(parts[3]), Integer.parseInt(parts[4]), Optional.empty());
            if (!parts[1].equals("-")) {
                subscription.setGroupInstanceId(Optional.of(parts[1]));
            }
            members.put(parts[0], subscription);
        }
        var given = assignor.get().assign(cluster(words[2]), new GroupSubscription(members)).groupAssignment();
        return members.entrySet().stream()
            .map(member -> {
                Assignment assignment = given.get(member.getKey());
                ConsumerPartitionAssignor own = assignor.get();
                own.onAssignment(assignment, new ConsumerGroupMetadata("g", generation, member.getKey(), Optional.empty()));
                ByteBuffer data = own.subscriptionUserData(Set.copyOf(member.getValue().topics()));
                return member.getKey() + "|" + text(assignment.partitions()) + "|" + (data == null ? "-" : hex(data));
            })
            .collect(Collectors.joining(" "));
    }

    private static Cluster cluster(String topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : items(topics, ",")) {
            int end = topic.indexOf('=');
            for (int number = 0; number < Integer.parseInt(topic.substring(end + 1)); number++) {
                partitions.add(new PartitionInfo(topic.substring(0, end), number, null, new Node[0], new Node[0]));
            }
        }
        return new Cluster("c", List.of(), partitions, Set.of(), Set.of());
    }

    private static List<TopicPartition> places(String text) {
        List<TopicPartition> found = new ArrayList<>();
        for (String place : items(text, ",")) {
            int end = place.lastIndexOf(':');
            found.add(new TopicPartition(place.substring(0, end), Integer.parseInt(place.substring(end + 1))));
        }
        return found;
    }

    private static String text(List<TopicPartition> places) {
        return places.stream().map(each -> each.topic() + ":" + each.partition()).collect(Collectors.joining(","));
    }

    private static String[] items(String text, String separator) {
        return text.isEmpty() ? new String[0] : text.split(separator);
    }

    private static String hex(ByteBuffer data) {
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
