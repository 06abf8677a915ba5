/*
 * Kafka's own producers, consumers and admin client, told what to do line by line.
 *
 * Reads one command a line from standard input, fields separated by tabs, and answers each with
 * one line, "ok ..." or "error CLASS MESSAGE"; only "send" is not answered, its outcome comes
 * with "flush". Bytes are base64, "-" is null. What a consumer sees is written to a file, in the
 * shape of tests/data's expectations.json.
 *
 *   bootstrap ADDRESS                         the broker; forgets the clients of the one before
 *   create TOPIC PARTITIONS [NAME=VALUE]...   a topic and its settings
 *   alter TOPIC [NAME=VALUE]...               change settings of a topic
 *   producer NAME [NAME=VALUE]...             a producer, its transactions initialised
 *   begin | commit | abort NAME
 *   send NAME TOPIC PARTITION TIMESTAMP KEY VALUE [HEADER=VALUE]...
 *   flush NAME                                offsets given since the last flush; "?" for a failure
 *   drop NAME                                 close at once: a transaction stays open
 *   burst NAME TOPIC PARTITION PREFIX TRANSACTION   send until "rest": PREFIX0, PREFIX1 ...;
 *                                             TRANSACTION records a transaction, 0 for none
 *   rest NAME                                 end a burst and its producer; how many values were acknowledged
 *                                             (committed) from the first one on, without a gap
 *   acked NAME                                the same while it goes on
 *   delete TOPIC PARTITION OFFSET             delete-records
 *   dump FILE TOPIC-PARTITION...              everything a consumer may learn
 *   quit
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Clients {
    static final Duration SOON = Duration.ofSeconds(20);
    static final int LONGEST = 300; // a longer field is written as its length and hash
    static final int ASKED_TIMES = 60;
    static String address;
    static Admin admin;
    static final Map<String, Sender> senders = new HashMap<>();

    /** A producer and what became of what it sent. */
    static class Sender {
        final KafkaProducer<byte[], byte[]> producer;
        final List<Future<RecordMetadata>> sent = new ArrayList<>();
        Thread burst;
        volatile boolean resting;
        final AtomicLong acked = new AtomicLong(); // values 0 to acked - 1 of the burst

        Sender(Properties settings) {
            producer = new KafkaProducer<>(settings);
        }

        void burst(String topic, int partition, String prefix, int transaction) {
            List<Future<RecordMetadata>> open = new ArrayList<>();
            try {
                for (long next = 0; !resting; ) {
                    if (transaction > 0) producer.beginTransaction();
                    for (int n = 0; n < Math.max(transaction, 20); n++, next++) {
                        byte[] value = (prefix + next).getBytes(StandardCharsets.UTF_8);
                        byte[] key = ("k" + next % 97).getBytes(StandardCharsets.UTF_8);
                        open.add(producer.send(new ProducerRecord<>(topic, partition, key, value)));
                    }
                    if (transaction > 0) producer.commitTransaction();
                    for (Future<RecordMetadata> each : open) each.get();
                    acked.set(next);
                    open.clear();
                }
            } catch (KafkaException | ExecutionException | InterruptedException gone) {
                resting = true; // the broker was killed: what was acknowledged stands
            }
        }

        long rest() throws InterruptedException {
            resting = true;
            burst.join(300); // longer where the broker lives, but for ever where it was killed
            producer.close(Duration.ZERO); // else it would go on with the next broker
            burst.join();
            return acked.get();
        }
    }

    static byte[] bytes(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field);
    }

    static Properties settings(String[] words, int from) {
        Properties found = new Properties();
        found.put("bootstrap.servers", address);
        for (int n = from; n < words.length; n++) {
            int middle = words[n].indexOf('=');
            found.put(words[n].substring(0, middle), words[n].substring(middle + 1));
        }
        return found;
    }

    static void bootstrap(String to) {
        senders.values().forEach(sender -> sender.producer.close(Duration.ZERO));
        senders.clear();
        if (admin != null) admin.close(Duration.ZERO);
        address = to;
        admin = Admin.create(settings(new String[0], 0));
    }

    static void create(String[] words) throws Exception {
        Map<String, String> configs = new HashMap<>();
        settings(words, 3).forEach((name, value) -> configs.put((String) name, (String) value));
        configs.remove("bootstrap.servers");
        NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), (short) 1);
        admin.createTopics(List.of(topic.configs(configs))).all().get();
    }

    static void alter(String[] words) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        settings(words, 2).forEach((name, value) -> {
            if (name.equals("bootstrap.servers")) return;
            ConfigEntry entry = new ConfigEntry((String) name, (String) value);
            changes.add(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        });
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, words[1]);
        admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
    }

    static void producer(String[] words) {
        Properties settings = settings(words, 2);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.putIfAbsent("linger.ms", "1");
        settings.putIfAbsent("max.block.ms", "20000");
        settings.putIfAbsent("reconnect.backoff.max.ms", "100");
        Sender before = senders.put(words[1], new Sender(settings));
        if (before != null) before.producer.close(Duration.ZERO);
        if (settings.containsKey("transactional.id")) {
            senders.get(words[1]).producer.initTransactions();
        }
    }

    static void send(String[] words) {
        Long timestamp = words[4].equals("-") ? null : Long.valueOf(words[4]);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            words[2], Integer.valueOf(words[3]), timestamp, bytes(words[5]), bytes(words[6]));
        for (int n = 7; n < words.length; n++) {
            int middle = words[n].lastIndexOf('/');
            String name = new String(bytes(words[n].substring(0, middle)), StandardCharsets.UTF_8);
            record.headers().add(name, bytes(words[n].substring(middle + 1)));
        }
        Sender sender = senders.get(words[1]);
        try {
            sender.sent.add(sender.producer.send(record));
        } catch (KafkaException refused) {
            sender.sent.add(CompletableFuture.failedFuture(refused));
        }
    }

    static String flush(String name) throws InterruptedException {
        Sender sender = senders.get(name);
        sender.producer.flush();
        StringBuilder offsets = new StringBuilder();
        for (Future<RecordMetadata> each : sender.sent) {
            String offset;
            try {
                offset = Long.toString(each.get().offset());
            } catch (ExecutionException failure) {
                offset = "?" + failure.getCause().getClass().getSimpleName();
            }
            offsets.append(offsets.length() == 0 ? "" : " ").append(offset);
        }
        sender.sent.clear();
        return offsets.toString();
    }

    static void burst(String[] words) {
        Sender sender = senders.get(words[1]);
        int partition = Integer.parseInt(words[3]);
        int transaction = Integer.parseInt(words[5]);
        sender.burst = new Thread(() -> sender.burst(words[2], partition, words[4], transaction));
        sender.burst.setDaemon(true);
        sender.burst.start();
    }

    // --- what a consumer learns ------------------------------------------------------------------

    static KafkaConsumer<byte[], byte[]> consumer(String isolation) {
        Properties settings = settings(new String[0], 0);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", "10");
        settings.put("max.poll.records", "5000");
        return new KafkaConsumer<>(settings);
    }

    /** Every record from the beginning on, up to the end that the isolation level shows. */
    static List<ConsumerRecord<byte[], byte[]>> read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition place, long end) {
        consumer.assign(List.of(place));
        consumer.seek(place, consumer.beginningOffsets(List.of(place)).get(place));
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long until = System.currentTimeMillis() + SOON.toMillis();
        while (consumer.position(place) < end) {
            if (System.currentTimeMillis() > until) {
                throw new IllegalStateException(
                    place + " was read to " + consumer.position(place) + ", not to " + end);
            }
            consumer.poll(Duration.ofMillis(50)).forEach(found::add);
        }
        return found;
    }

    static String quoted(byte[] data) throws Exception {
        if (data == null) return "null";
        if (data.length <= LONGEST) return '"' + Base64.getEncoder().encodeToString(data) + '"';
        StringBuilder hash = new StringBuilder();
        for (byte each : MessageDigest.getInstance("SHA-256").digest(data)) {
            hash.append(String.format("%02x", each));
        }
        return "{\"length\":" + data.length + ",\"sha256\":\"" + hash + "\"}";
    }

    static String shown(ConsumerRecord<byte[], byte[]> record) throws Exception {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(headers.length() == 0 ? "[" : ",[");
            headers.append(quoted(header.key().getBytes(StandardCharsets.UTF_8)));
            headers.append(',').append(quoted(header.value())).append(']');
        }
        Optional<Integer> epoch = record.leaderEpoch();
        return "{\"partition\":" + record.partition() + ",\"offset\":" + record.offset()
            + ",\"timestamp\":" + record.timestamp()
            + ",\"timestampType\":\"" + record.timestampType() + "\""
            + ",\"leaderEpoch\":" + (epoch.isPresent() ? epoch.get().toString() : "null")
            + ",\"key\":" + quoted(record.key()) + ",\"value\":" + quoted(record.value())
            + ",\"headers\":[" + headers + "]}";
    }

    /** Offsets by time: around some of the timestamps that are there, and outside of all. */
    static String times(KafkaConsumer<byte[], byte[]> consumer, TopicPartition place,
            List<ConsumerRecord<byte[], byte[]>> records) {
        TreeSet<Long> there = new TreeSet<>();
        records.forEach(record -> there.add(Math.max(record.timestamp(), 0)));
        TreeSet<Long> asked = new TreeSet<>(List.of(0L));
        List<Long> all = new ArrayList<>(there);
        LongConsumer around = when -> asked.addAll(List.of(when, when + 1));
        int step = Math.max(1, all.size() / ASKED_TIMES);
        for (int n = 0; n < all.size(); n += step) around.accept(all.get(n));
        if (!all.isEmpty()) around.accept(there.last());
        List<String> answers = new ArrayList<>();
        for (long when : asked) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place, when)).get(place);
            answers.add("[" + when + ","
                + (found == null ? "null,null" : found.offset() + "," + found.timestamp()) + "]");
        }
        return String.join(",", answers);
    }

    static String producers(TopicPartition place) throws Exception {
        List<String> found = new ArrayList<>();
        var described = admin.describeProducers(List.of(place)).partitionResult(place).get();
        for (ProducerState state : described.activeProducers()) {
            found.add("{\"producer_id\":" + state.producerId()
                + ",\"epoch\":" + state.producerEpoch()
                + ",\"last_sequence\":" + state.lastSequence()
                + ",\"last_timestamp\":" + state.lastTimestamp()
                + ",\"coordinator_epoch\":" + state.coordinatorEpoch().orElse(-1)
                + ",\"current_txn_start_offset\":"
                + (state.currentTransactionStartOffset().isPresent()
                    ? state.currentTransactionStartOffset().getAsLong() : "null") + "}");
        }
        return String.join(",", found);
    }

    static void dump(String[] words) throws Exception {
        try (Writer out = Files.newBufferedWriter(Path.of(words[1]));
                var uncommitted = consumer("read_uncommitted");
                var committed = consumer("read_committed")) {
            out.write("{\"partitions\":{\n");
            for (int n = 2; n < words.length; n++) {
                int middle = words[n].lastIndexOf('-');
                TopicPartition place = new TopicPartition(
                    words[n].substring(0, middle), Integer.parseInt(words[n].substring(middle + 1)));
                out.write((n > 2 ? ",\n" : "") + "\"" + place + "\":" );
                dumpOne(out, place, uncommitted, committed);
            }
            out.write("}}\n");
        }
    }

    /** Everything of one partition, from a moment in which nobody appended to it. */
    static void dumpOne(Writer out, TopicPartition place, KafkaConsumer<byte[], byte[]> uncommitted,
            KafkaConsumer<byte[], byte[]> committed) throws Exception {
        for (int attempt = 0; attempt < 10; attempt++) {
            StringWriter told = new StringWriter();
            long end = tell(told, place, uncommitted, committed);
            if (uncommitted.endOffsets(List.of(place)).get(place) == end) {
                out.write(told.toString());
                return;
            }
        }
        throw new IllegalStateException(place + " does not come to rest");
    }

    /** Returns the end offset; what an old broker cannot answer is left out. */
    static long tell(Writer out, TopicPartition place, KafkaConsumer<byte[], byte[]> uncommitted,
            KafkaConsumer<byte[], byte[]> committed) throws Exception {
        long begin = uncommitted.beginningOffsets(List.of(place)).get(place);
        long end = uncommitted.endOffsets(List.of(place)).get(place);
        var records = read(uncommitted, place, end);
        out.write("{\"beginning_offset\":" + begin + ",\"end_offset\":" + end
            + ",\n\"offsets_for_times\":[" + times(uncommitted, place, records) + "]");
        try { // before 0.11 there are no transactions, before 2.8 nobody tells of the producers
            long stable = committed.endOffsets(List.of(place)).get(place);
            List<String> offsets = new ArrayList<>();
            read(committed, place, stable).forEach(r -> offsets.add(Long.toString(r.offset())));
            out.write(",\n\"last_stable_offset\":" + stable
                + ",\n\"read_committed_offsets\":[" + String.join(",", offsets) + "]");
            out.write(",\n\"producers\":[" + producers(place) + "]");
        } catch (UnsupportedVersionException old) {
            out.flush();
        } catch (ExecutionException old) {
            if (!(old.getCause() instanceof UnsupportedVersionException)) throw old;
        }
        out.write(",\n\"read_uncommitted\":[\n");
        String comma = "";
        for (var record : records) {
            out.write(comma + shown(record));
            comma = ",\n";
        }
        out.write("]}");
        return end;
    }

    static String run(String[] words) throws Exception {
        Sender sender = words.length > 1 ? senders.get(words[1]) : null;
        switch (words[0]) {
            case "bootstrap": bootstrap(words[1]); return "";
            case "create": create(words); return "";
            case "producer": producer(words); return "";
            case "begin": sender.producer.beginTransaction(); return "";
            case "commit": sender.producer.commitTransaction(); return "";
            case "abort": sender.producer.abortTransaction(); return "";
            case "send": send(words); return null;
            case "flush": return flush(words[1]);
            case "drop": senders.remove(words[1]).producer.close(Duration.ZERO); return "";
            case "burst": burst(words); return "";
            case "rest": return Long.toString(sender.rest());
            case "acked": return Long.toString(sender.acked.get());
            case "alter": alter(words); return "";
            case "delete":
                TopicPartition place = new TopicPartition(words[1], Integer.parseInt(words[2]));
                RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(words[3]));
                admin.deleteRecords(Map.of(place, before)).all().get();
                return "";
            case "dump": dump(words); return "";
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = commands.readLine()) != null && !line.equals("quit")) {
            try {
                String answer = run(line.split("\t", -1));
                if (answer != null) System.out.println("ok " + answer);
            } catch (Exception error) {
                System.out.println(("error " + error + " in " + line).replace('\n', ' '));
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0); // open transactions stay open
    }
}
