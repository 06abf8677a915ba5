/*
 * Aborts a transaction by its markers, as kafka-transactions.sh does with one that hangs.
 *
 * Arguments: the broker, and the topic of one partition. Prints the producers of the partition
 * before and after that.
 */

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

public class AbortHanging {
    static ProducerState state(Admin admin, TopicPartition partition) throws Exception {
        ProducerState found = admin.describeProducers(Collections.singletonList(partition))
            .partitionResult(partition).get().activeProducers().get(0);
        System.out.println(found);
        return found;
    }

    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("transactional.id", "hangs");
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        settings.put("key.serializer", bytes);
        settings.put("value.serializer", bytes);
        TopicPartition partition = new TopicPartition(words[1], 0);
        Properties admins = new Properties();
        admins.put("bootstrap.servers", words[0]);
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(words[1], 0, null, "open".getBytes())).get();
        try (Admin admin = Admin.create(admins)) {
            ProducerState state = state(admin, partition);
            admin.abortTransaction(new AbortTransactionSpec(
                partition, state.producerId(), (short) state.producerEpoch(),
                state.coordinatorEpoch().orElse(0))).all().get();
            state(admin, partition);
        }
        Runtime.getRuntime().halt(0); // the producer is not closed: it would abort, too
    }
}
