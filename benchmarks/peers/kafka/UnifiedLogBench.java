/*
 * Kafka's own log layer, called in-process: what a broker does with a batch, without its network.
 *
 * Reads one command a line from standard input, does it, prints one JSON line. The JVM stays, so
 * that work is measured warm and in turn with another program's. Commands (NAME=VALUE each):
 *
 *   append  records=1000 bytes=N            append ready-made batches of 100-byte values, as leader,
 *                                           copies in turn; the first one is not timed
 *   fill    name=x records=1000 bytes=N     the same into a log that stays for the next four
 *   read    name=x count=N seed=S           read(offset, 1 byte) at random offsets
 *   iterate name=x                          every record as an object, every checksum, from files
 *   fetch   name=x                          the same through fetches of 1 MiB into memory
 *   recover name=x                          load after an unclean stop: checksums, both indexes
 *   partitions name=x count=N               make N cleanly closed partitions with a record each
 *   partitions ... records=1000 bytes=N     each with so many bytes of ready-made batches
 *   load    name=x                          start a log manager (two threads) on them: all end
 *                                           offsets known; after a kill it recovers them
 *   clean   name=x/y,x/z threads=1          clean closed partitions below DIRECTORY, all but the
 *                                           active segment, with so many cleaners side by side
 *   lookup  name=PATH base=B count=N        as many lookups in an offset index, of the offsets in
 *                                           PATH.asked (8 bytes each), again and again
 *   crc     name=PATH count=N               a file's CRC-32C as often, from memory
 *
 * Compiled and run in one step by `java -cp 'libs/*' UnifiedLogBench.java DIRECTORY`.
 */

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32C;
import kafka.log.Cleaner;
import kafka.log.LogManager;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import kafka.server.RequestLocal;
import kafka.server.metadata.ConfigRepository;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

public class UnifiedLogBench {
    static final int VALUE_SIZE = 100;
    static final int FETCH_SIZE = 1 << 20; // a consumer's fetch

    final Path root;
    final KafkaScheduler scheduler = new KafkaScheduler(1);
    final BrokerTopicStats stats = new BrokerTopicStats(false);
    final RequestLocal requestLocal = RequestLocal.withThreadConfinedCaching();
    final Map<String, UnifiedLog> logs = new HashMap<>();
    int number;

    UnifiedLogBench(Path root) {
        this.root = root;
        scheduler.startup();
    }

    // ---- logs ---------------------------------------------------------------------------------

    static LogConfig config() {
        Properties settings = new Properties();
        settings.put("segment.bytes", String.valueOf(1 << 30));
        settings.put("retention.ms", "-1");
        return new LogConfig(settings);
    }

    UnifiedLog open(Path directory, boolean clean) {
        return UnifiedLog.apply(
            directory.toFile(), config(), 0L, 0L, scheduler, stats, Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(1), clean, Option.empty(), true,
            new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    Path directory(String name) throws IOException {
        return Files.createDirectories(root.resolve(name + "-0"));
    }

    static void delete(Path path) throws IOException {
        Files.walkFileTree(path, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes a) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path d, IOException e) throws IOException {
                Files.delete(d);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    static MemoryRecords batch(int records) {
        SimpleRecord[] made = new SimpleRecord[records];
        long now = System.currentTimeMillis();
        for (int i = 0; i < records; i++) {
            byte[] value = new byte[VALUE_SIZE];
            Arrays.fill(value, (byte) ('a' + i % 26));
            made[i] = new SimpleRecord(now, null, value);
        }
        return MemoryRecords.withRecords(Compression.NONE, made);
    }

    /** Copies of a batch, more than a core's caches hold: a broker does not get one again. */
    static MemoryRecords[] copies(MemoryRecords batch, long bytes) {
        int size = batch.sizeInBytes();
        int count = (int) Math.max(1, Math.min(Math.min(bytes, 48 << 20) / size, 100_000));
        MemoryRecords[] made = new MemoryRecords[count];
        for (int i = 0; i < count; i++) {
            ByteBuffer copy = ByteBuffer.allocate(size);
            copy.put(batch.buffer().duplicate()).flip();
            made[i] = MemoryRecords.readableRecords(copy);
        }
        return made;
    }

    void appendOne(UnifiedLog log, MemoryRecords batch) {
        batch.buffer().putLong(0, 0L); // a client's batch begins at 0; the last append stamped it
        log.appendAsLeader(batch, 0, AppendOrigin.CLIENT, log.appendAsLeader$default$4(),
            requestLocal, log.appendAsLeader$default$6());
    }

    // ---- commands -----------------------------------------------------------------------------

    Map<String, Object> append(int records, long bytes) throws IOException {
        MemoryRecords[] batches = copies(batch(records), bytes);
        int size = batches[0].sizeInBytes();
        int count = (int) Math.max(1, bytes / size);
        Path directory = directory("append" + number++);
        UnifiedLog log = open(directory, true);
        long[] took = new long[count];
        appendOne(log, batches[0]);
        long start = System.nanoTime();
        long before = start;
        for (int i = 0; i < count; i++) {
            appendOne(log, batches[i % batches.length]);
            long now = System.nanoTime();
            took[i] = now - before;
            before = now;
        }
        long total = before - start;
        check(log.logEndOffset() == (count + 1L) * records, "end offset");
        log.close();
        delete(directory);
        Map<String, Object> result = result("append", records, size, count, total);
        percentiles(result, took);
        return result;
    }

    Map<String, Object> fill(String name, int records, long bytes) throws IOException {
        MemoryRecords batch = batch(records);
        int size = batch.sizeInBytes();
        int count = (int) Math.max(1, bytes / size);
        UnifiedLog log = open(directory(name), true);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            appendOne(log, batch);
        }
        long total = System.nanoTime() - start;
        log.flush(false);
        logs.put(name, log);
        Map<String, Object> result = result("fill", records, size, count, total);
        result.put("end_offset", log.logEndOffset());
        result.put("directory", log.dir().getPath());
        return result;
    }

    Map<String, Object> read(String name, int count, long seed) {
        UnifiedLog log = logs.get(name);
        long end = log.logEndOffset();
        SplittableRandom random = new SplittableRandom(seed);
        long[] offsets = random.longs(count, 0, end).toArray();
        long[] took = new long[count];
        long found = 0;
        long start = System.nanoTime();
        long before = start;
        for (int i = 0; i < count; i++) {
            FetchDataInfo data = log.read(offsets[i], 1, FetchIsolation.LOG_END, true);
            found += data.records.sizeInBytes();
            long now = System.nanoTime();
            took[i] = now - before;
            before = now;
        }
        check(found > 0, "nothing read");
        Map<String, Object> result = result("read", 1, (int) (found / count), count, before - start);
        percentiles(result, took);
        return result;
    }

    /** Every record with CRC straight from the files, as Kafka's own tools and loader walk them. */
    Map<String, Object> iterate(String name) throws IOException {
        UnifiedLog log = logs.get(name);
        Tally tally = new Tally();
        long start = System.nanoTime();
        for (LogSegment segment : log.logSegments()) {
            for (RecordBatch batch : segment.log().batches()) {
                tally.add(batch);
            }
        }
        return tally.result("iterate", log.logEndOffset(), System.nanoTime() - start);
    }

    /** The same as a consumer does it: fetches of 1 MiB into memory, then walked there. */
    Map<String, Object> fetch(String name) throws IOException {
        UnifiedLog log = logs.get(name);
        long end = log.logEndOffset();
        ByteBuffer buffer = ByteBuffer.allocate(FETCH_SIZE);
        Tally tally = new Tally();
        long start = System.nanoTime();
        for (long offset = 0; offset < end; offset = tally.nextOffset) {
            FetchDataInfo data = log.read(offset, FETCH_SIZE, FetchIsolation.LOG_END, true);
            FileRecords file = (FileRecords) data.records;
            buffer.clear();
            if (file.sizeInBytes() > buffer.capacity()) {
                buffer = ByteBuffer.allocate(file.sizeInBytes());
            }
            file.readInto(buffer, 0);
            for (RecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
                tally.add(batch);
            }
        }
        return tally.result("fetch", end, System.nanoTime() - start);
    }

    /** Walks batches record by record, checksums checked, and knows what must come out. */
    static class Tally {
        long records;
        long bytes;
        long seen;
        long nextOffset;

        void add(RecordBatch batch) {
            batch.ensureValid();
            for (Record record : batch) {
                seen += record.offset() + record.valueSize();
                records++;
            }
            bytes += batch.sizeInBytes();
            nextOffset = batch.nextOffset();
        }

        Map<String, Object> result(String work, long end, long total) {
            check(records == end && seen == end * (end - 1) / 2 + end * VALUE_SIZE, "records");
            Map<String, Object> result = new HashMap<>();
            result.put("work", work);
            result.put("count", records);
            result.put("bytes", bytes);
            result.put("seconds", total / 1e9);
            result.put("mb_per_s", bytes * 1e3 / total);
            result.put("records_per_s", records * 1e9 / total);
            return result;
        }
    }

    Map<String, Object> recover(String name) throws IOException {
        UnifiedLog log = logs.get(name);
        long end = log.logEndOffset();
        long bytes = log.size();
        Path directory = log.dir().toPath();
        log.close();
        // A killed broker leaves no snapshot at the end. Its indexes are there, as big as they get;
        // were they missing, Kafka would recover the segment twice.
        try (var files = Files.newDirectoryStream(directory, "*.snapshot")) {
            for (Path file : files) {
                Files.delete(file);
            }
        }
        long start = System.nanoTime();
        UnifiedLog again = open(directory, false);
        long total = System.nanoTime() - start;
        check(again.logEndOffset() == end, "end offset after recovery");
        logs.put(name, again);
        Map<String, Object> result = new HashMap<>();
        result.put("work", "recover");
        result.put("bytes", bytes);
        result.put("seconds", total / 1e9);
        result.put("mb_per_s", bytes * 1e3 / total);
        return result;
    }

    LogManager manager(String name, int threads) throws IOException {
        var directories = CollectionConverters
            .asScala(java.util.List.of(partitionsRoot(name).toFile())).toSeq();
        var none = CollectionConverters.asScala(new java.util.ArrayList<File>()).toSeq();
        ConfigRepository settings = new ConfigRepository() {
            @Override
            public Properties config(ConfigResource resource) {
                return new Properties();
            }
        };
        return new LogManager(
            directories, none, settings, config(), new CleanerConfig(false), threads,
            Long.MAX_VALUE, 60_000L, 60_000L, 300_000L, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000,
            MetadataVersion.latestProduction(), scheduler, stats, new LogDirFailureChannel(1),
            Time.SYSTEM, true, false, 30_000L);
    }

    Path partitionsRoot(String name) throws IOException {
        return Files.createDirectories(root.resolve(name));
    }

    Map<String, Object> partitions(String name, int count, int records, long bytes)
            throws IOException {
        LogManager manager = manager(name, 2);
        load(manager);
        MemoryRecords one = batch(records);
        long batches = Math.max(1, bytes / one.sizeInBytes());
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            UnifiedLog log = manager.getOrCreateLog(
                new TopicPartition("many", i), true, false, Option.empty(), Option.empty());
            for (long n = 0; n < batches; n++) {
                appendOne(log, one);
            }
        }
        manager.shutdown(-1L);
        Map<String, Object> result = new HashMap<>();
        result.put("work", "partitions");
        result.put("count", count);
        result.put("bytes", batches * one.sizeInBytes() * count);
        result.put("directory", partitionsRoot(name).toString());
        result.put("seconds", (System.nanoTime() - start) / 1e9);
        return result;
    }

    static void load(LogManager manager) {
        manager.loadLogs(config(), scala.collection.immutable.Map$.MODULE$.empty(), log -> false);
    }

    Map<String, Object> load(String name) throws IOException {
        long start = System.nanoTime();
        LogManager manager = manager(name, 2);
        load(manager);
        long total = System.nanoTime() - start;
        int[] count = {0};
        long[] ends = {0};
        manager.allLogs().foreach(log -> {
            count[0]++;
            ends[0] += log.logEndOffset();
            return null;
        });
        double memory = residentMib();
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        double live = (runtime.totalMemory() - runtime.freeMemory()) / 1048576.0;
        manager.shutdown(-1L);
        Map<String, Object> result = new HashMap<>();
        result.put("work", "load");
        result.put("count", count[0]);
        result.put("end_offsets", ends[0]);
        result.put("seconds", total / 1e9);
        result.put("memory", memory);
        result.put("live", live);
        return result;
    }

    /** What the process has of memory now; its heap is as large as it ever was. */
    static double residentMib() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024.0;
            }
        }
        throw new IOException("/proc/self/status does not say VmRSS");
    }

    /** As LogCleaner makes one of so many: Kafka's defaults, its buffers shared among them. */
    static Cleaner cleaner(int id, int threads) throws Exception {
        return new Cleaner(
            id, new SkimpyOffsetMap(134_217_728 / threads), 524_288 / threads / 2, 1_048_588, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "throttler", "entries", Time.SYSTEM), Time.SYSTEM,
            partition -> BoxedUnit.UNIT);
    }

    static void clean(Cleaner cleaner, UnifiedLog log) {
        long end = log.activeSegment().baseOffset();
        LogToClean work = new LogToClean(log.topicPartition(), log, 0, end, false);
        check(cleaner.doClean(work, System.currentTimeMillis())._1().equals(end), "not all");
    }

    Map<String, Object> clean(String[] names, int threads) throws Exception {
        Queue<UnifiedLog> waiting = new ConcurrentLinkedQueue<>();
        List<UnifiedLog> opened = new ArrayList<>();
        for (String name : names) {
            UnifiedLog log = open(root.resolve(name), true);
            log.updateHighWatermark(log.logEndOffset());
            opened.add(log);
        }
        waiting.addAll(opened);
        List<Callable<Void>> work = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Cleaner cleaner = cleaner(i, threads);
            work.add(() -> {
                for (UnifiedLog log = waiting.poll(); log != null; log = waiting.poll()) {
                    clean(cleaner, log);
                }
                return null;
            });
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        long start = System.nanoTime();
        for (Future<Void> done : pool.invokeAll(work)) {
            done.get();
        }
        long total = System.nanoTime() - start;
        pool.shutdown();
        for (UnifiedLog log : opened) {
            log.close();
        }
        Map<String, Object> result = new HashMap<>();
        result.put("work", "clean");
        result.put("seconds", total / 1e9);
        return result;
    }

    /** Kafka's own search of a mapped index; the sum of the positions that one turn finds. */
    Map<String, Object> lookup(String name, long base, int count) throws IOException {
        long[] asked = new long[(int) (Files.size(Path.of(name + ".asked")) / Long.BYTES)];
        ByteBuffer.wrap(Files.readAllBytes(Path.of(name + ".asked"))).asLongBuffer().get(asked);
        int turns = Math.max(1, count / asked.length);
        long sum = 0;
        long total;
        try (OffsetIndex index = new OffsetIndex(new File(name), base, -1, false)) {
            long start = System.nanoTime();
            for (int turn = 0; turn < turns; turn++) {
                for (long offset : asked) {
                    sum += index.lookup(offset).position;
                }
            }
            total = System.nanoTime() - start;
        }
        check(sum % turns == 0, "lookups");
        Map<String, Object> result = new HashMap<>();
        result.put("work", "lookup");
        result.put("count", turns * asked.length);
        result.put("sum", sum / turns);
        result.put("seconds", total / 1e9);
        return result;
    }

    /** The checksum that a broker's batches are validated with. */
    Map<String, Object> crc(String name, int count) throws IOException {
        byte[] data = Files.readAllBytes(Path.of(name));
        CRC32C checksum = new CRC32C();
        checksum.update(data, 0, data.length);
        long value = checksum.getValue();
        long different = 0;
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            checksum.reset();
            checksum.update(data, 0, data.length);
            different |= checksum.getValue() ^ value;
        }
        long total = System.nanoTime() - start;
        check(different == 0, "checksum");
        Map<String, Object> result = new HashMap<>();
        result.put("work", "crc");
        result.put("count", count);
        result.put("value", value);
        result.put("seconds", total / 1e9);
        return result;
    }

    // ---- results ------------------------------------------------------------------------------

    static void check(boolean right, String what) {
        if (!right) {
            throw new IllegalStateException("wrong: " + what);
        }
    }

    static Map<String, Object> result(String work, int records, int size, int count, long total) {
        Map<String, Object> result = new HashMap<>();
        result.put("work", work);
        result.put("records", records);
        result.put("batch_bytes", size);
        result.put("count", count);
        result.put("seconds", total / 1e9);
        result.put("mb_per_s", (double) size * count * 1e3 / total);
        result.put("records_per_s", (double) records * count * 1e9 / total);
        return result;
    }

    static void percentiles(Map<String, Object> result, long[] took) {
        Arrays.sort(took);
        result.put("p50_ns", took[took.length / 2]);
        result.put("p99_ns", took[(int) (took.length * 0.99)]);
        result.put("p999_ns", took[(int) (took.length * 0.999)]);
    }

    static String json(Map<String, Object> result) {
        StringBuilder text = new StringBuilder("{");
        for (Map.Entry<String, Object> entry : new java.util.TreeMap<>(result).entrySet()) {
            if (text.length() > 1) {
                text.append(", ");
            }
            text.append('"').append(entry.getKey()).append("\": ");
            Object value = entry.getValue();
            if (value instanceof Double) {
                text.append(String.format(Locale.ROOT, "%.6g", (Double) value));
            } else if (value instanceof String) {
                text.append('"').append(((String) value).replace("\\", "\\\\").replace("\"", "\\\""));
                text.append('"');
            } else {
                text.append(value);
            }
        }
        return text.append('}').toString();
    }

    Map<String, Object> run(String line) throws Exception {
        String[] words = line.trim().split("\\s+");
        Map<String, String> given = new HashMap<>();
        for (int i = 1; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            given.put(pair[0], pair[1]);
        }
        int records = Integer.parseInt(given.getOrDefault("records", "1000"));
        long bytes = Long.parseLong(given.getOrDefault("bytes", "268435456"));
        int count = Integer.parseInt(given.getOrDefault("count", "100000"));
        long seed = Long.parseLong(given.getOrDefault("seed", "1"));
        String name = given.getOrDefault("name", "log");
        switch (words[0]) {
            case "append": return append(records, bytes);
            case "fill": return fill(name, records, bytes);
            case "read": return read(name, count, seed);
            case "iterate": return iterate(name);
            case "fetch": return fetch(name);
            case "recover": return recover(name);
            case "partitions": return partitions(
                name, count, Integer.parseInt(given.getOrDefault("records", "1")),
                Long.parseLong(given.getOrDefault("bytes", "0")));
            case "load": return load(name);
            case "clean": return clean(
                name.split(","), Integer.parseInt(given.getOrDefault("threads", "1")));
            case "lookup": return lookup(name, Long.parseLong(given.get("base")), count);
            case "crc": return crc(name, count);
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        UnifiedLogBench bench = new UnifiedLogBench(Path.of(arguments[0]).toAbsolutePath());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(json(bench.run(line)));
            System.out.flush();
        }
        System.exit(0); // Kafka's threads would keep the JVM
    }
}
