import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Administers a cluster with the Java client: AdminCalls BOOTSTRAP. A call per line on standard input, words as hex
 * separated by blanks; an answer per line on standard output, JSON: what was found, or {"error": the exception's name}.
 */
public class AdminCalls {
    private static Admin admin;
    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("default.api.timeout.ms", "30000");
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (Admin opened = Admin.create(properties)) {
            admin = opened;
            for (String line = calls.readLine(); line != null; line = calls.readLine()) {
                String[] words = Arrays.stream(line.split(" ")).map(AdminCalls::text).toArray(String[]::new);
                Object answer;
                try {
                    answer = answer(words[0], Arrays.copyOfRange(words, 1, words.length));
                } catch (ExecutionException error) {
                    Throwable cause = error.getCause();
                    answer = Map.of("error", cause.getClass().getSimpleName(), "message", "" + cause.getMessage());
                }
                System.out.println(json(answer));
                System.out.flush();
            }
        }
    }

    private static Object answer(String call, String[] words) throws Exception {
        return switch (call) {
            case "describeCluster" -> cluster();
            case "describeConfigs" -> configs(words);
            case "describeFeatures" -> features();
            case "updateFeature" -> {
                var update = new FeatureUpdate(Short.parseShort(words[1]), FeatureUpdate.UpgradeType.valueOf(words[2]));
                var options = new UpdateFeaturesOptions().validateOnly(words.length > 3);
                admin.updateFeatures(Map.of(words[0], update), options).all().get();
                yield "done";
            }
            case "createTopic" -> {
                admin.createTopics(List.of(new NewTopic(words[0], Integer.parseInt(words[1]), (short) 3)
                    .configs(Map.of("retention.ms", "86400000")))).all().get();
                yield "done";
            }
            case "createPartitions" -> {
                admin.createPartitions(Map.of(words[0], NewPartitions.increaseTo(Integer.parseInt(words[1])))).all().get();
                yield "done";
            }
            case "deleteTopic" -> {
                admin.deleteTopics(TopicCollection.ofTopicNames(List.of(words[0]))).all().get();
                yield "done";
            }
            case "listTopics" -> new TreeSet<>(admin.listTopics().names().get());
            case "describeTopic" -> topic(words[0]);
            case "listOffsets" -> offsets(partition(words[0], words[1]));
            case "produce" -> produce(words);
            case "describeLogDirs" -> logDirs(words[0]);
            case "incrementalAlterConfigs" -> {
                var op = new AlterConfigOp(new ConfigEntry(words[2], words[3]), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(resource(words[0], words[1]), List.of(op))).all().get();
                yield "done";
            }
            case "deleteRecords" -> admin.deleteRecords(Map.of(partition(words[0], words[1]),
                RecordsToDelete.beforeOffset(Long.parseLong(words[2])))).lowWatermarks()
                .get(partition(words[0], words[1])).get().lowWatermark();
            case "reassign" -> {
                Optional<NewPartitionReassignment> target = words.length == 2 ? Optional.empty()
                    : Optional.of(new NewPartitionReassignment(
                        Arrays.stream(words).skip(2).map(Integer::parseInt).collect(Collectors.toList())));
                admin.alterPartitionReassignments(Map.of(partition(words[0], words[1]), target)).all().get();
                yield "done";
            }
            case "listReassignments" -> admin.listPartitionReassignments().reassignments().get().keySet().stream()
                .map(TopicPartition::toString).sorted().toList();
            case "electLeaders" -> {
                var elected = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(words[0], words[1])))
                    .partitions().get();
                yield elected.values().stream()
                    .map(error -> error.map(one -> one.getClass().getSimpleName()).orElse("done")).toList();
            }
            case "describeProducers" -> admin.describeProducers(List.of(partition(words[0], words[1])))
                .partitionResult(partition(words[0], words[1])).get().activeProducers().stream()
                .map(one -> List.of(one.producerEpoch(), one.lastSequence())).toList();
            case "describeAcls" -> admin.describeAcls(AclBindingFilter.ANY).values().get().size();
            case "createAcl" -> {
                admin.createAcls(List.of(new AclBinding(
                    new ResourcePattern(ResourceType.TOPIC, words[0], PatternType.LITERAL),
                    new AccessControlEntry("User:someone", "*", AclOperation.READ, AclPermissionType.ALLOW)))).all().get();
                yield "done";
            }
            case "deleteAcls" -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get().size();
            case "describeMetadataQuorum" -> quorum();
            case "alterGroupOffset" -> {
                admin.alterConsumerGroupOffsets(words[0], Map.of(partition(words[1], words[2]),
                    new OffsetAndMetadata(Long.parseLong(words[3])))).all().get();
                yield "done";
            }
            case "listGroups" -> admin.listGroups().all().get().stream().map(GroupListing::groupId).sorted().toList();
            case "describeGroup" -> admin.describeConsumerGroups(List.of(words[0])).all().get().get(words[0])
                .groupState().name();
            case "listGroupOffsets" -> {
                Map<String, Object> found = new TreeMap<>();
                admin.listConsumerGroupOffsets(words[0]).partitionsToOffsetAndMetadata().get()
                    .forEach((place, offset) -> found.put(place.toString(), offset.offset()));
                yield found;
            }
            case "deleteGroupOffset" -> {
                admin.deleteConsumerGroupOffsets(words[0], Set.of(partition(words[1], words[2]))).all().get();
                yield "done";
            }
            case "deleteGroup" -> {
                admin.deleteConsumerGroups(List.of(words[0])).all().get();
                yield "done";
            }
            case "alterClientQuota" -> new Quotas(admin).alter(words);
            case "describeClientQuotas" -> new Quotas(admin).describe(words);
            default -> throw new IllegalArgumentException(call);
        };
    }

    private static Object cluster() throws Exception {
        var found = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", found.clusterId().get());
        answer.put("controller", found.controller().get().id());
        answer.put("nodes", found.nodes().get().stream().map(Node::id).sorted().toList());
        answer.put("operations", found.authorizedOperations().get().size());
        return answer;
    }

    private static Object configs(String[] words) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        ConfigResource resource = resource(words[0], words[1]);
        Map<String, Object> answer = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource), options).all().get().get(resource).entries())
            answer.put(entry.name(), Arrays.asList(entry.value(), entry.source().name(), entry.type().name(),
                entry.isReadOnly(), entry.synonyms().size(), entry.documentation() != null));
        return answer;
    }

    private static Object features() throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        var found = admin.describeFeatures().featureMetadata().get();
        found.supportedFeatures().forEach((name, range) -> answer.put(name, List.of((int) range.minVersion(),
            (int) range.maxVersion(), Optional.ofNullable(found.finalizedFeatures().get(name))
                .map(level -> (int) level.maxVersionLevel()).orElse(0))));
        return answer;
    }

    private static Object topic(String name) throws Exception {
        TopicDescription found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        return found.partitions().stream().map(one -> List.of(one.partition(), one.leader().id(),
            one.replicas().stream().map(Node::id).toList(), one.isr().stream().map(Node::id).sorted().toList())).toList();
    }

    private static Object offsets(TopicPartition partition) throws Exception {
        return List.of(
            admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get().offset(),
            admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset(),
            admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get().offset());
    }

    private static Object produce(String[] words) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text)) {
            long last = -1;
            for (int i = 2; i < words.length; i++)
                last = producer.send(new ProducerRecord<>(words[0], Integer.parseInt(words[1]), null, words[i]))
                    .get().offset();
            return last;
        }
    }

    private static Object logDirs(String topic) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        var brokers = admin.describeCluster().nodes().get().stream().map(Node::id).toList();
        for (var broker : admin.describeLogDirs(brokers).allDescriptions().get().entrySet())
            answer.put("" + broker.getKey(), broker.getValue().values().stream().map(dir -> List.of(
                dir.error() == null, dir.totalBytes().orElse(-1) > 0, dir.replicaInfos().keySet().stream()
                    .filter(one -> one.topic().equals(topic)).map(TopicPartition::toString).sorted().toList())).toList());
        return answer;
    }

    private static Object quorum() throws Exception {
        QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("leader", found.leaderId());
        answer.put("voters", found.voters().stream().map(QuorumInfo.ReplicaState::replicaId).sorted().toList());
        answer.put("nodes", new TreeSet<>(found.nodes().keySet()));
        answer.put("known", found.highWatermark() > 0 && found.leaderEpoch() > 0);
        return answer;
    }

    private static ConfigResource resource(String type, String name) {
        return new ConfigResource(ConfigResource.Type.valueOf(type), name);
    }

    private static TopicPartition partition(String topic, String index) {
        return new TopicPartition(topic, Integer.parseInt(index));
    }

    private static String text(String word) {
        return word.equals("-") ? "" : new String(HexFormat.of().parseHex(word), StandardCharsets.UTF_8);
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map)
            return map.entrySet().stream().map(each -> json(each.getKey()) + ": " + json(each.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        if (value instanceof Collection<?> all)
            return all.stream().map(AdminCalls::json).collect(Collectors.joining(", ", "[", "]"));
        if (value instanceof String text)
            return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + "\"";
        return String.valueOf(value);
    }
}
