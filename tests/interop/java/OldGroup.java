/*
 * A producer and a group of two consumers of any of Kafka's clients since 0.10.
 *
 * Arguments: the broker, the topic, the group, how many records, and further settings of the
 * producer as NAME=VALUE. With transactional.id, all records are one transaction. They are sent
 * when each consumer has one of the topic's two partitions. Prints "record MEMBER PARTITION VALUE"
 * for each record that was read, and at the end "committed PARTITION OFFSET".
 */

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

public class OldGroup {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";

    static void produce(String[] words, int count) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("key.serializer", STRINGS + "Serializer");
        settings.put("value.serializer", STRINGS + "Serializer");
        settings.put("acks", "all");
        for (int n = 4; n < words.length; n++) {
            int middle = words[n].indexOf('=');
            settings.put(words[n].substring(0, middle), words[n].substring(middle + 1));
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            // By name: 0.10 has no transactions.
            boolean once = settings.containsKey("transactional.id");
            for (String call : new String[] {"initTransactions", "beginTransaction"}) {
                if (once) KafkaProducer.class.getMethod(call).invoke(producer);
            }
            for (int n = 0; n < count; n++) {
                producer.send(new ProducerRecord<>(words[1], n % 2, "k" + n, "v" + n));
            }
            producer.flush();
            if (once) KafkaProducer.class.getMethod("commitTransaction").invoke(producer);
        }
    }

    static KafkaConsumer<String, String> member(String[] words) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed"); // 0.10 ignores it
        settings.put("heartbeat.interval.ms", "300");
        settings.put("key.deserializer", STRINGS + "Deserializer");
        settings.put("value.deserializer", STRINGS + "Deserializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Collections.singletonList(words[1]));
        return consumer;
    }

    /** A consumer on a thread of its own, since the poll of old clients waits for the group. */
    static class Member extends Thread {
        final KafkaConsumer<String, String> consumer;
        final int number;
        volatile int assigned;

        Member(String[] words, int number) {
            consumer = member(words);
            this.number = number;
        }

        @Override
        @SuppressWarnings("deprecation")
        public void run() {
            while (!isDone()) {
                for (ConsumerRecord<String, String> record : consumer.poll(200)) {
                    System.out.println(
                        "record " + number + " " + record.partition() + " " + record.value());
                    read.incrementAndGet();
                }
                consumer.commitSync();
                assigned = consumer.assignment().size();
            }
            for (TopicPartition each : consumer.assignment()) {
                long offset = consumer.committed(each).offset();
                System.out.println("committed " + each.partition() + " " + offset);
            }
            consumer.close();
        }
    }

    static final AtomicInteger read = new AtomicInteger();
    static int count;

    static boolean isDone() {
        return read.get() >= count;
    }

    public static void main(String[] words) throws Exception {
        count = Integer.parseInt(words[3]);
        Member[] members = {new Member(words, 0), new Member(words, 1)};
        for (Member each : members) each.start();
        while (members[0].assigned != 1 || members[1].assigned != 1) Thread.sleep(50);
        produce(words, count);
        for (Member each : members) each.join();
    }
}
