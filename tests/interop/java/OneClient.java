/*
 * One producer and one consumer of any of Kafka's clients since 0.9, one step after another, so
 * that a recording of it can be repeated.
 *
 * Arguments: the broker, the topic (of one partition), the group, and further settings as
 * p.NAME=VALUE of the producer and c.NAME=VALUE of the consumer. With transactional.id the batches
 * are one transaction, and an aborted one follows. Prints "record OFFSET VALUE" for each record
 * that was read, "committed OFFSET", and "error TEXT" where the commit is refused.
 */

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

public class OneClient {
    static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";
    static final int COUNT = 8;

    static Map<String, Object> settings(String[] words, String prefix) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        for (int n = 3; n < words.length; n++) {
            int middle = words[n].indexOf('=');
            if (words[n].startsWith(prefix)) {
                settings.put(
                    words[n].substring(prefix.length(), middle), words[n].substring(middle + 1));
            }
        }
        return settings;
    }

    static void call(Object producer, String method) throws Exception {
        KafkaProducer.class.getMethod(method).invoke(producer); // by name: 0.10 has no transactions
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int n) {
        byte[] key = n % 3 == 0 ? null : ("key " + n).getBytes();
        byte[] value = n % 4 == 3 ? null : ("value " + n).getBytes();
        return new ProducerRecord<>(topic, 0, key, value);
    }

    static void produce(String[] words) throws Exception {
        Map<String, Object> settings = settings(words, "p.");
        settings.put("key.serializer", BYTES + "Serializer");
        settings.put("value.serializer", BYTES + "Serializer");
        settings.putIfAbsent("acks", "all");
        settings.put("linger.ms", "300");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            boolean once = settings.containsKey("transactional.id");
            if (once) call(producer, "initTransactions");
            if (once) call(producer, "beginTransaction");
            producer.partitionsFor(words[1]);
            for (int n = 0; n < COUNT; n++) {
                producer.send(record(words[1], n));
                if (n == 0 || n == COUNT / 2) producer.flush(); // batches of 1, 4 and 3
            }
            producer.flush();
            if (once) {
                call(producer, "commitTransaction");
                Thread.sleep(500); // until its markers are written: else the next one is tried again
                call(producer, "beginTransaction");
                producer.send(record(words[1], COUNT));
                producer.flush();
                call(producer, "abortTransaction");
            }
        }
    }

    @SuppressWarnings("deprecation")
    static void consume(String[] words) throws Exception {
        Map<String, Object> settings = settings(words, "c.");
        settings.put("group.id", words[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        settings.put("key.deserializer", BYTES + "Deserializer");
        settings.put("value.deserializer", BYTES + "Deserializer");
        TopicPartition partition = new TopicPartition(words[1], 0);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Collections.singletonList(words[1]));
            int found = 0;
            while (found < COUNT) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(200)) {
                    String value = each.value() == null ? "null" : new String(each.value());
                    System.out.println("record " + each.offset() + " " + value);
                    found++;
                }
            }
            try {
                consumer.commitSync(Collections.singletonMap(
                    partition, new OffsetAndMetadata(COUNT - 2, "two are left")));
                System.out.println("committed " + consumer.committed(partition).offset());
            } catch (RuntimeException error) {
                System.out.println("error " + error);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        produce(words);
        consume(words);
    }
}
