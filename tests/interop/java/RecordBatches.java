import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/**
 * Builds and reads record batches with the Java client's own classes. A command per line on standard input, words
 * separated by blanks, bytes in hex and "-" for null; an answer per line on standard output, JSON.
 */
public class RecordBatches {
    private static final HexFormat HEX = HexFormat.of();
    private static final int LARGEST_RECORD = 1 << 30;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" "));
            } catch (RuntimeException e) {
                answer = "{\"error\": " + quoted(e.toString()) + "}";
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        return switch (words[0]) {
            case "build" -> built(words);
            case "marker" -> marker(words);
            case "read" -> read(HEX.parseHex(words[1]));
            case "errors" -> errors();
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    /** build codec base_offset producer_id producer_epoch base_sequence transactional leader_epoch record... */
    private static String built(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 16), (byte) 2, Compression.of(words[1]).build(), TimestampType.CREATE_TIME,
            Long.parseLong(words[2]), -1L, Long.parseLong(words[3]), Short.parseShort(words[4]),
            Integer.parseInt(words[5]), Boolean.parseBoolean(words[6]), Integer.parseInt(words[7]));
        for (int i = 8; i < words.length; i++) {
            String[] parts = words[i].split(",", -1);
            List<Header> headers = new ArrayList<>();
            for (int h = 4; h < parts.length; h += 2)
                headers.add(new RecordHeader(new String(bytes(parts[h]), StandardCharsets.UTF_8), bytes(parts[h + 1])));
            builder.appendWithOffset(Long.parseLong(parts[0]), Long.parseLong(parts[1]), bytes(parts[2]),
                bytes(parts[3]), headers.toArray(new Header[0]));
        }
        return hexOf(builder.build());
    }

    /** marker type producer_id producer_epoch coordinator_epoch timestamp offset leader_epoch */
    private static String marker(String[] words) {
        EndTransactionMarker marker =
            new EndTransactionMarker(ControlRecordType.valueOf(words[1]), Integer.parseInt(words[4]));
        return hexOf(MemoryRecords.withEndTransactionMarker(Long.parseLong(words[6]), Long.parseLong(words[5]),
            Integer.parseInt(words[7]), Long.parseLong(words[2]), Short.parseShort(words[3]), marker));
    }

    private static String hexOf(MemoryRecords records) {
        byte[] bytes = new byte[records.sizeInBytes()];
        records.buffer().get(bytes);
        return quoted(HEX.formatHex(bytes));
    }

    private static String read(byte[] data) {
        List<String> batches = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            batches.add(described((DefaultRecordBatch) batch));
        }
        return batches.toString();
    }

    private static String described(DefaultRecordBatch batch) {
        List<String> records = new ArrayList<>();
        for (Record record : batch) {
            record.ensureValid();
            records.add(described(record));
        }
        String marker = "null";
        if (batch.isControlBatch()) {
            EndTransactionMarker end = EndTransactionMarker.deserialize(batch.iterator().next());
            marker = "[" + quoted(end.controlType().name()) + ", " + end.coordinatorEpoch() + "]";
        }
        return "{\"base_offset\": " + batch.baseOffset() + ", \"last_offset\": " + batch.lastOffset()
            + ", \"leader_epoch\": " + batch.partitionLeaderEpoch() + ", \"codec\": " + batch.compressionType().id
            + ", \"log_append_time\": " + (batch.timestampType() == TimestampType.LOG_APPEND_TIME)
            + ", \"base_timestamp\": " + batch.baseTimestamp() + ", \"max_timestamp\": " + batch.maxTimestamp()
            + ", \"producer_id\": " + batch.producerId() + ", \"producer_epoch\": " + batch.producerEpoch()
            + ", \"base_sequence\": " + batch.baseSequence() + ", \"last_sequence\": " + batch.lastSequence()
            + ", \"transactional\": " + batch.isTransactional() + ", \"control\": " + batch.isControlBatch()
            + ", \"delete_horizon\": "
            + (batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : "null")
            + ", \"offset_of_max_timestamp\": " + batch.offsetOfMaxTimestamp(LARGEST_RECORD).orElse(-1L)
            + ", \"marker\": " + marker + ", \"records\": " + records + "}";
    }

    private static String described(Record record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add("[" + quoted(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))) + ", "
                + hexOrNull(header.value()) + "]");
        return "[" + record.offset() + ", " + record.timestamp() + ", " + hexOrNull(bytesOf(record.key())) + ", "
            + hexOrNull(bytesOf(record.value())) + ", " + headers + "]";
    }

    private static String errors() {
        List<String> all = new ArrayList<>();
        for (Errors error : Errors.values())
            all.add("[" + error.code() + ", " + quoted(error.name()) + ", "
                + (error.exception() instanceof RetriableException) + ", "
                + (error.exception() instanceof InvalidMetadataException) + "]");
        return all.toString();
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : HEX.parseHex(word);
    }

    private static byte[] bytesOf(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static String hexOrNull(byte[] bytes) {
        return bytes == null ? "null" : quoted(HEX.formatHex(bytes));
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + "\"";
    }
}
