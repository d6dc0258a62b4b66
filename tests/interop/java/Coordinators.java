import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.utils.Utils;

/** For each line, a group id as hexadecimal UTF-8: the partition, of so many, whose leader coordinates it. */
public class Coordinators {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String group = new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_8);
            System.out.println(Utils.abs(group.hashCode()) % partitions);
        }
    }
}
