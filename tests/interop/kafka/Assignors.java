import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Kafka's assignors. A line in: assignor, "same" or "different" subscriptions, topics as id=partitions, then members as
 * id|instance|topics|old assignment. A line out: the order in which a hash set has the topics of the first member, then
 * the assignment of each member.
 */
public class Assignors {
    private static final Map<String, ConsumerGroupPartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) {
        Map<Uuid, Integer> topics = new LinkedHashMap<>();
        for (String topic : items(words[2], ",")) {
            topics.put(uuid(topic.substring(0, 32)), Integer.parseInt(topic.substring(33)));
        }
        Map<String, Member> members = new LinkedHashMap<>();
        for (int at = 3; at < words.length; at++) {
            String[] parts = words[at].split("\\|", -1);
            members.put(parts[0], Member.of(parts));
        }
        var type = words[1].equals("same") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        var given = ASSIGNORS.get(words[0]).assign(new Group(members, type), new Topics(topics)).members();
        var order = new HashSet<>(members.values().iterator().next().topics);
        return order.stream().map(Assignors::hex).collect(Collectors.joining(","))
            + " "
            + members.keySet().stream()
                .map(id -> id + "|" + text(given.containsKey(id) ? given.get(id).partitions() : Map.of()))
                .collect(Collectors.joining(" "));
    }

    private static String text(Map<Uuid, Set<Integer>> partitions) {
        Map<String, String> sorted = new TreeMap<>();
        partitions.forEach((id, numbers) -> {
            if (!numbers.isEmpty()) {
                sorted.put(hex(id), new TreeSet<>(numbers).stream().map(String::valueOf).collect(Collectors.joining(".")));
            }
        });
        return sorted.entrySet().stream().map(each -> each.getKey() + ":" + each.getValue()).collect(Collectors.joining(";"));
    }

    private static String[] items(String text, String separator) {
        return text.isEmpty() ? new String[0] : text.split(separator);
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private record Member(Optional<String> instance, Set<Uuid> topics, Map<Uuid, Set<Integer>> old)
        implements MemberSubscription, MemberAssignment {

        static Member of(String[] parts) {
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String topic : items(parts[2], ",")) {
                topics.add(uuid(topic));
            }
            Map<Uuid, Set<Integer>> old = new LinkedHashMap<>();
            for (String entry : items(parts[3], ";")) {
                Set<Integer> numbers = new LinkedHashSet<>();
                for (String number : entry.substring(33).split("\\.")) {
                    numbers.add(Integer.parseInt(number));
                }
                old.put(uuid(entry.substring(0, 32)), numbers);
            }
            var instance = parts[1].equals("-") ? Optional.<String>empty() : Optional.of(parts[1]);
            return new Member(instance, topics, Collections.unmodifiableMap(old));
        }

        @Override
        public Optional<String> rackId() {
            return Optional.empty();
        }

        @Override
        public Optional<String> instanceId() {
            return instance;
        }

        @Override
        public Set<Uuid> subscribedTopicIds() {
            return topics;
        }

        @Override
        public Map<Uuid, Set<Integer>> partitions() {
            return old;
        }
    }

    private record Group(Map<String, Member> members, SubscriptionType type) implements GroupSpec {
        @Override
        public Collection<String> memberIds() {
            return members.keySet();
        }

        @Override
        public SubscriptionType subscriptionType() {
            return type;
        }

        @Override
        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return members.values().stream().anyMatch(member -> member.old.getOrDefault(topic, Set.of()).contains(partition));
        }

        @Override
        public boolean isPartitionAssignable(Uuid topic, int partition) {
            return true;
        }

        @Override
        public MemberSubscription memberSubscription(String id) {
            return members.get(id);
        }

        @Override
        public MemberAssignment memberAssignment(String id) {
            return members.get(id);
        }
    }

    private record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
