import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/**
 * Client quotas with the Java client. An entity is written type=name,type=name; a type alone is its default, and to a
 * filter type=* is any.
 */
class Quotas {
    private final Admin admin;

    Quotas(Admin admin) {
        this.admin = admin;
    }

    /** ENTITY KEY [VALUE [check]]: without a value the quota is removed; to check is to change nothing. */
    Object alter(String[] words) throws Exception {
        Map<String, String> parts = new HashMap<>();
        for (String part : words[0].split(","))
            parts.put(part.split("=")[0], part.contains("=") ? part.substring(part.indexOf('=') + 1) : null);
        Double value = words.length > 2 ? Double.valueOf(words[2]) : null;
        var alteration = new ClientQuotaAlteration(new ClientQuotaEntity(parts),
            List.of(new ClientQuotaAlteration.Op(words[1], value)));
        var options = new AlterClientQuotasOptions().validateOnly(words.length > 3);
        admin.alterClientQuotas(List.of(alteration), options).all().get();
        return "done";
    }

    /** all, or contains ENTITY, or only ENTITY. */
    Object describe(String[] words) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        admin.describeClientQuotas(filter(words)).entities().get()
            .forEach((entity, values) -> answer.put(text(entity), new TreeMap<>(values)));
        return answer;
    }

    private static ClientQuotaFilter filter(String[] words) {
        if (words[0].equals("all"))
            return ClientQuotaFilter.all();
        var components = Arrays.stream(words[1].split(",")).map(Quotas::component).toList();
        return words[0].equals("only") ? ClientQuotaFilter.containsOnly(components) : ClientQuotaFilter.contains(components);
    }

    private static ClientQuotaFilterComponent component(String part) {
        if (!part.contains("="))
            return ClientQuotaFilterComponent.ofDefaultEntity(part);
        String type = part.substring(0, part.indexOf('=')), name = part.substring(part.indexOf('=') + 1);
        return name.equals("*") ? ClientQuotaFilterComponent.ofEntityType(type)
            : ClientQuotaFilterComponent.ofEntity(type, name);
    }

    private static String text(ClientQuotaEntity entity) {
        return new TreeMap<>(entity.entries()).entrySet().stream()
            .map(part -> part.getValue() == null ? part.getKey() : part.getKey() + "=" + part.getValue())
            .collect(Collectors.joining(","));
    }
}
