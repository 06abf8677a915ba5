/*
 * Kafka 3.9's own cleaner, called in-process on a partition's directory.
 *
 * Reads one command a line from standard input and answers each with one line:
 *
 *   recover DIRECTORY NOW SETTINGS             load as after a kill, close: all side files are made
 *   clean DIRECTORY NOW SETTINGS FIRST_DIRTY   clean up to the last stable offset or the active
 *                                              segment; answers with the first offset not cleaned
 *
 * SETTINGS are topic settings, name=value joined by commas. NOW is what the clock says, always.
 */

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import kafka.log.Cleaner;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.Tuple2;
import scala.runtime.BoxedUnit;

public class Clean39 {
    record Still(long now) implements Time {
        @Override public long milliseconds() { return now; }
        @Override public long nanoseconds() { return now * 1_000_000; }
        @Override public void sleep(long ms) { }
        @Override public void waitObject(Object o, Supplier<Boolean> done, long deadline) { }
    }

    static LogConfig config(String settings) {
        Properties properties = new Properties();
        for (String each : settings.split(",")) {
            String[] pair = each.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        properties.put("cleanup.policy", "compact");
        return new LogConfig(properties);
    }

    static UnifiedLog open(String directory, Time time, String settings, boolean clean,
            KafkaScheduler scheduler) {
        UnifiedLog log = UnifiedLog.apply(
            new File(directory), config(settings), 0L, 0L, scheduler, new BrokerTopicStats(false),
            time, 900_000, new ProducerStateManagerConfig(2_000_000_000, false), 600_000,
            new LogDirFailureChannel(1), clean, Option.empty(), true,
            new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.updateHighWatermark(log.logEndOffset());
        return log;
    }

    static long clean(UnifiedLog log, Time time, long firstDirty) throws Exception {
        int buffer = 1 << 16;
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 24), buffer, 1 << 24, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "throttler", "entries", time), time,
            partition -> BoxedUnit.UNIT);
        long limit = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        LogToClean work = new LogToClean(log.topicPartition(), log, firstDirty,
            Math.max(firstDirty, limit), false);
        Tuple2<Object, ?> done = cleaner.doClean(work, time.milliseconds());
        return (Long) done._1();
    }

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Time time = new Still(Long.parseLong(words[2]));
            String answer;
            try {
                boolean cleaning = words[0].equals("clean");
                UnifiedLog log = open(words[1], time, words[3], cleaning, scheduler);
                answer = cleaning ? String.valueOf(clean(log, time, Long.parseLong(words[4])))
                    : String.valueOf(log.logEndOffset());
                log.close();
            } catch (Exception error) {
                answer = error.getClass().getSimpleName();
                error.printStackTrace();
            }
            System.out.println(answer);
        }
        scheduler.shutdown();
    }
}
