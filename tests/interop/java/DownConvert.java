/*
 * Kafka's own conversions between message formats, on files (Kafka 3.9, the last that has them).
 *
 * Reads one command a line from standard input, and answers each with "ok" or the simple name of
 * the exception's class:
 *
 *   down MAGIC FIRST_OFFSET IN OUT              MemoryRecords.downConvert, for an old fetcher
 *   rebuild MAGIC BASE_OFFSET CODEC APPEND_TIME EPOCH IN OUT
 *       LogValidator, as a leader whose topic has that format; APPEND_TIME -1 is CreateTime
 *
 * Compiled and run in one step by `java -cp 'libs/*' DownConvert.java`.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

public class DownConvert {
    static MemoryRecords read(String path) throws Exception {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Path.of(path))));
    }

    static void write(String path, MemoryRecords records) throws Exception {
        ByteBuffer buffer = records.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(Path.of(path), bytes);
    }

    /** A clock that stands still. */
    static Time clock(long now) {
        return (Time) Proxy.newProxyInstance(
            DownConvert.class.getClassLoader(),
            new Class<?>[] {Time.class},
            (proxy, method, arguments) ->
                method.getName().equals("milliseconds") ? (Object) now : (Object) 0L);
    }

    static final LogValidator.MetricsRecorder NO_METRICS = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    };

    static void rebuild(String[] words) throws Exception {
        MemoryRecords records = read(words[6]);
        CompressionType source = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches())
            if (batch.compressionType() != CompressionType.NONE)
                source = batch.compressionType();
        long appendTime = Long.parseLong(words[4]);
        LogValidator validator = new LogValidator(
            records, new TopicPartition("t", 0), clock(appendTime), source,
            Compression.of(CompressionType.forName(words[3])).build(), false,
            Byte.parseByte(words[1]),
            appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            Long.MAX_VALUE, Long.MAX_VALUE, Integer.parseInt(words[5]), AppendOrigin.COORDINATOR,
            MetadataVersion.latestProduction());
        write(words[7], validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(Long.parseLong(words[2])), NO_METRICS,
            BufferSupplier.NO_CACHING).validatedRecords);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = commands.readLine()) != null) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("down"))
                    write(words[4], read(words[3]).downConvert(
                        Byte.parseByte(words[1]), Long.parseLong(words[2]), Time.SYSTEM).records());
                else
                    rebuild(words);
                System.out.println("ok");
            } catch (RuntimeException error) {
                System.out.println(error.getClass().getSimpleName());
            }
        }
    }
}
