import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Kafka's tools one after the other in this one JVM. A line of standard input is a call:
 * what the tool is to read, the class and its arguments, each as hex, separated by blanks ("-" is the empty text).
 * The answer is a line of JSON: exit code, standard output and standard error.
 */
public class Tools {
    /** Where a tool wanted to end the process. Some catch it and try again: the first time counts. */
    private static class Exited extends Error { }

    private static Integer code;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(Tools::text).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int status = run(words[1], Arrays.copyOfRange(words, 2, words.length));
            System.out.flush();
            System.err.flush();
            System.setErr(errors);
            answers.printf("{\"code\": %d, \"out\": %s, \"err\": %s}%n", status, quoted(out), quoted(err));
            answers.flush();
        }
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
        Runtime.getRuntime().halt(0);  // tools leave threads behind
    }

    private static void end(int status) {
        code = code == null ? status : code;
        throw new Exited();
    }

    private static int run(String tool, String[] arguments) throws Exception {
        code = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                error.getCause().printStackTrace();
                return 1;
            }
        }
        return code == null ? 0 : code;
    }

    private static String text(String word) {
        return word.equals("-") ? "" : new String(java.util.HexFormat.of().parseHex(word), StandardCharsets.UTF_8);
    }

    private static String quoted(ByteArrayOutputStream bytes) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : bytes.toString(StandardCharsets.UTF_8).toCharArray())
            quoted.append(one < ' ' || one == '"' || one == '\\' ? String.format("\\u%04x", (int) one) : one);
        return quoted.append('"').toString();
    }
}
