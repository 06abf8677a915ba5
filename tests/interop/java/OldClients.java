/*
 * The clients of Kafka 0.8.2, told what to do line by line: both of its producers and its
 * SimpleConsumer, since no newer client speaks to a broker of that age.
 *
 * Fields are separated by tabs, bytes are base64, "-" is null; each line but "send" is answered
 * by "ok" or "error ...".
 *
 *   send TOPIC KEY VALUE               put a record aside
 *   old HOST PORT CODEC                send what was put aside by the Scala producer, as one wrapper
 *   new HOST PORT CODEC                the same by the Java producer
 *   dump HOST PORT FILE TOPIC...       beginning, end and records of each topic's partition 0
 *   commit HOST PORT GROUP TOPIC N     commit offset N of partition 0 in versions 0 and 1, and read
 *                                      it again in both; answered by the errors and offsets
 *   quit
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class OldClients {
    static final List<KeyedMessage<byte[], byte[]>> aside = new ArrayList<>();

    static byte[] bytes(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field);
    }

    static void sendOld(String[] words) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", words[1] + ":" + words[2]);
        settings.put("serializer.class", "kafka.serializer.DefaultEncoder");
        settings.put("producer.type", "sync");
        settings.put("request.required.acks", "1");
        settings.put("compression.codec", words[3]);
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(settings));
        producer.send(aside);
        producer.close();
    }

    static void sendNew(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[1] + ":" + words[2]);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("acks", "all");
        settings.put("linger.ms", "50");
        settings.put("compression.type", words[3]);
        List<Future<?>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (KeyedMessage<byte[], byte[]> each : aside) {
                sent.add(producer.send(
                    new ProducerRecord<>(each.topic(), 0, each.key(), each.message())));
            }
            for (Future<?> each : sent) each.get();
        }
    }

    static String quoted(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return '"' + Base64.getEncoder().encodeToString(data) + '"';
    }

    static long offset(SimpleConsumer consumer, String topic, long when)
            throws InterruptedException {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new HashMap<>();
        asked.put(new TopicAndPartition(topic, 0), new PartitionOffsetRequestInfo(when, 1));
        OffsetRequest request = new OffsetRequest(asked, (short) 0, "judge");
        for (int attempt = 0; attempt < 40; attempt++) { // its leader may have to be chosen yet
            long[] found = consumer.getOffsetsBefore(request).offsets(topic, 0);
            if (found.length > 0) return found[0];
            Thread.sleep(100);
        }
        throw new IllegalStateException(topic + " has no leader");
    }

    static void dump(String[] words) throws Exception {
        SimpleConsumer consumer =
            new SimpleConsumer(words[1], Integer.parseInt(words[2]), 10_000, 1 << 16, "judge");
        try (Writer out = Files.newBufferedWriter(Path.of(words[3]))) {
            out.write("{\"partitions\":{");
            for (int n = 4; n < words.length; n++) {
                long begin = offset(consumer, words[n], -2L);
                long end = offset(consumer, words[n], -1L);
                out.write((n > 4 ? ",\n" : "\n") + "\"" + words[n] + "-0\":{\"beginning_offset\":"
                    + begin + ",\"end_offset\":" + end + ",\n\"read_uncommitted\":[");
                String comma = "\n";
                long next = begin;
                while (next < end) {
                    FetchResponse response = consumer.fetch(
                        new FetchRequestBuilder().addFetch(words[n], 0, next, 1 << 20).build());
                    if (response.hasError()) {
                        throw new IllegalStateException(
                            words[n] + ": error " + response.errorCode(words[n], 0));
                    }
                    for (MessageAndOffset each : response.messageSet(words[n], 0)) {
                        if (each.offset() < next) continue; // of the wrapper that holds it
                        out.write(comma + "{\"offset\":" + each.offset()
                            + ",\"timestamp\":-1,\"timestampType\":\"NoTimestampType\",\"key\":"
                            + quoted(each.message().key()) + ",\"value\":"
                            + quoted(each.message().payload()) + ",\"headers\":[]}");
                        comma = ",\n";
                        next = each.offset() + 1;
                    }
                }
                out.write("]}");
            }
            out.write("}}\n");
        } finally {
            consumer.close();
        }
    }

    static String commit(String[] words) {
        SimpleConsumer consumer =
            new SimpleConsumer(words[1], Integer.parseInt(words[2]), 10_000, 1 << 16, "judge");
        try {
            TopicAndPartition partition = new TopicAndPartition(words[4], 0);
            StringBuilder found = new StringBuilder();
            for (short version = 0; version < 2; version++) {
                Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(partition, new OffsetAndMetadata(
                    Long.parseLong(words[5]) + version, "of version " + version, -1L));
                found.append(" ").append(consumer.commitOffsets(new OffsetCommitRequest(
                    words[3], offsets, 1, "judge", version)).errorCode(partition));
            }
            for (short version = 0; version < 2; version++) {
                OffsetMetadataAndError read = consumer.fetchOffsets(new OffsetFetchRequest(
                    words[3], List.of(partition), version, 2, "judge")).offsets().get(partition);
                found.append(" ").append(read.error()).append(":").append(read.offset());
            }
            return found.toString();
        } finally {
            consumer.close();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = commands.readLine()) != null && !line.equals("quit")) {
            String[] words = line.split("\t", -1);
            try {
                switch (words[0]) {
                    case "send":
                        aside.add(new KeyedMessage<>(words[1], bytes(words[2]), bytes(words[3])));
                        continue;
                    case "old": sendOld(words); break;
                    case "new": sendNew(words); break;
                    case "dump": dump(words); break;
                    case "commit":
                        System.out.println("ok" + commit(words));
                        System.out.flush();
                        continue;
                    default: throw new IllegalArgumentException("unknown command " + words[0]);
                }
                aside.clear();
                System.out.println("ok");
            } catch (Exception error) {
                System.out.println(("error " + error + " in " + line).replace('\n', ' '));
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
