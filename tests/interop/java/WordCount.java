/*
 * Kafka Streams' word count, exactly once, until it is killed or its standard input ends.
 *
 * Arguments: the broker, the topic of lines, the topic of counts, the folder of its state, and
 * further settings as NAME=VALUE.
 */

import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;

public class WordCount {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("application.id", "word-count");
        settings.put("state.dir", words[3]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("statestore.cache.max.bytes", "0"); // every count is written
        for (int n = 4; n < words.length; n++) {
            int middle = words[n].indexOf('=');
            settings.put(words[n].substring(0, middle), words[n].substring(middle + 1));
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(words[1])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(words[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(problem -> {
            problem.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close();
    }
}
