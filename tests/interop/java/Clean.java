/*
 * Kafka's own cleaner, called in-process on a partition's directory.
 *
 * Reads one command a line from standard input and answers each with one line, when nothing is
 * under way any more in the directory:
 *
 *   recover DIRECTORY NOW SETTINGS             load as after a kill, close: all side files are made
 *   clean DIRECTORY NOW SETTINGS FIRST_DIRTY   clean up to the last stable offset or the active
 *                                              segment; answers with the first offset not cleaned
 *
 * SETTINGS are topic settings, name=value joined by semicolons. NOW is what the clock says, always.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;

public class Clean {
    static final int EXPIRATION_MS = 2_000_000_000;

    static long clean(KafkaLog opened, Time time, long firstDirty) throws Exception {
        opened.moveWatermarkToEnd();
        int buffer = 1 << 16;
        Class<?> type = KafkaLog.one(KafkaLog.INTERNALS + "Cleaner", "kafka.log.Cleaner");
        Class<?> check = KafkaLog.one(
            opened.scala ? "scala.Function1" : "java.util.function.Consumer");
        Object cleaner = KafkaLog.constructor(type, 8).newInstance(0,
            new SkimpyOffsetMap(1 << 24), buffer, 1 << 24, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "throttler", "entries", time), time,
            KafkaLog.proxy(check, (made, method, arguments) -> null));
        long active = ((LogSegment) opened.call("activeSegment")).baseOffset();
        long limit = Math.min((Long) opened.call("lastStableOffset"), active);
        Object[] bounds = {opened.log, firstDirty, Math.max(firstDirty, limit), false};
        Object[] all = opened.scala ? Stream.concat(Stream.of(opened.call("topicPartition")),
            Stream.of(bounds)).toArray() : bounds;
        Object work = KafkaLog.constructor(KafkaLog.one(KafkaLog.INTERNALS + "LogToClean",
            "kafka.log.LogToClean"), all.length).newInstance(all);
        Object done = KafkaLog.longest(type, "doClean").invoke(cleaner, work, time.milliseconds());
        return (Long) (done instanceof Map.Entry<?, ?> pair ? pair.getKey()
            : done.getClass().getMethod("_1").invoke(done));
    }

    static long answer(String[] words) throws Exception {
        long now = Long.parseLong(words[2]);
        Time time = KafkaLog.clock(() -> now);
        boolean cleaning = words[0].equals("clean");
        KafkaLog opened = new KafkaLog(
            words[1], words[3] + ";cleanup.policy=compact", time, cleaning, EXPIRATION_MS);
        try {
            return cleaning ? clean(opened, time, Long.parseLong(words[4]))
                : (Long) opened.call("logEndOffset");
        } finally {
            opened.close();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                System.out.println(answer(line.split(" ")));
            } catch (Exception error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                cause.printStackTrace();
                System.out.println(cause.toString().replace('\n', ' '));
            }
        }
    }
}
