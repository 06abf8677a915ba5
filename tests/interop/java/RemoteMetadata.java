/*
 * Records of __remote_log_metadata, written by Kafka's own RemoteLogMetadataSerde: the value of
 * each record in base64, one a line.
 */

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

public class RemoteMetadata {
    /** Calls the constructor with the most parameters; Kafka 4 added a last one, a boolean. */
    static RemoteLogMetadata longest(Class<?> type, Object... arguments) throws Exception {
        Constructor<?> longest = type.getConstructors()[0];
        for (Constructor<?> each : type.getConstructors()) {
            longest = each.getParameterCount() > longest.getParameterCount() ? each : longest;
        }
        List<Object> all = new ArrayList<>(List.of(arguments));
        while (all.size() < longest.getParameterCount()) {
            all.add(true);
        }
        return (RemoteLogMetadata) longest.newInstance(all.toArray());
    }

    public static void main(String[] args) throws Exception {
        Uuid topic = new Uuid(1, 2);
        Uuid segment = new Uuid(-3, 4);
        TopicIdPartition partition =
            new TopicIdPartition(topic, new TopicPartition("t\u00fc.-", 7));
        RemoteLogSegmentId id = new RemoteLogSegmentId(partition, segment);
        Map<Integer, Long> epochs = Map.of(12, 40L, 3, 10L, 0, 0L);
        List<RemoteLogMetadata> records = new ArrayList<>();
        for (RemoteLogSegmentState state : RemoteLogSegmentState.values()) {
            Optional<CustomMetadata> custom = state.ordinal() % 2 == 0
                ? Optional.empty() : Optional.of(new CustomMetadata(new byte[state.ordinal()]));
            records.add(new RemoteLogSegmentMetadata(
                id, 0, 99, -1, 5, 1700000000000L, 4096, custom, state, epochs));
            records.add(longest(RemoteLogSegmentMetadata.class,
                id, 10L, 99L, 1600000000000L, 5, 1700000000000L, 4096, custom, state, epochs));
            records.add(new RemoteLogSegmentMetadataUpdate(id, 1700000000001L, custom, state, 6));
            records.add(longest(RemoteLogSegmentMetadataSnapshot.class,
                segment, 10L, 99L, 1600000000000L, 5, 1700000000000L, 4096, custom, state, epochs));
        }
        for (RemotePartitionDeleteState state : RemotePartitionDeleteState.values()) {
            records.add(new RemotePartitionDeleteMetadata(partition, state, 1700000000002L, 7));
        }
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        for (RemoteLogMetadata each : records) {
            System.out.println(Base64.getEncoder().encodeToString(serde.serialize(each)));
        }
    }
}
