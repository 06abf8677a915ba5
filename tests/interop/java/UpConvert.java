/*
 * What the log cleaner of Kafka 4 makes of messages v0 and v1 when it keeps every record.
 *
 * Reads one command a line from standard input, "IN OUT", and answers each with "ok" or the
 * simple name of the exception's class. Compiled and run in one step by
 * `java -cp 'libs/*' UpConvert.java`.
 */

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

public class UpConvert {
    static final RecordFilter KEEP_ALL = new RecordFilter(0, 0) {
        @Override
        protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
            return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
        }

        @Override
        protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
            return true;
        }
    };

    static void convert(String in, String out) throws Exception {
        ByteBuffer rest = ByteBuffer.wrap(Files.readAllBytes(Path.of(in)));
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        while (rest.hasRemaining()) { // it stops early when its buffer is full
            MemoryRecords.FilterResult result = MemoryRecords.readableRecords(rest.slice())
                .filterTo(KEEP_ALL, ByteBuffer.allocate(1 << 20), BufferSupplier.NO_CACHING);
            ByteBuffer buffer = result.outputBuffer();
            buffer.flip();
            byte[] part = new byte[buffer.remaining()];
            buffer.get(part);
            made.write(part);
            rest.position(rest.position() + result.bytesRead());
        }
        Files.write(Path.of(out), made.toByteArray());
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = commands.readLine()) != null) {
            String[] words = line.split(" ");
            try {
                convert(words[0], words[1]);
                System.out.println("ok");
            } catch (RuntimeException error) {
                System.out.println(error.getClass().getSimpleName());
            }
        }
    }
}
