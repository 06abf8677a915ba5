/*
 * Kafka's own log, called in-process with a clock that is told: when it rolls, what retention
 * leaves. Reads one command a line, answers each with the base offsets of the segments.
 *
 *   open DIRECTORY NAME=VALUE;...   a new log with these settings
 *   append MS BATCH                 one batch (base64), as leader, at this time
 *   retain MS                       retention at this time, everything being below the watermark
 *   delete OFFSET                   raise the log start, as DeleteRecords
 *
 * Names that differ between 3.9 and 4.x are looked up by reflection.
 */

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Comparator;
import java.util.Optional;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class Segments {
    static long now;
    static Object log;

    static Class<?> one(String... names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new ClassNotFoundException(names[0]);
    }

    static Method longest(Class<?> type, String name) {
        return Stream.of(type.getMethods()).filter(m -> m.getName().equals(name))
            .max(Comparator.comparingInt(Method::getParameterCount)).orElseThrow();
    }

    static Object call(String name, Object... arguments) throws Exception {
        for (Method method : log.getClass().getMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != arguments.length)
                continue;
            if (arguments.length == 1 && method.getParameterTypes()[0] != long.class)
                continue;
            return method.invoke(log, arguments);
        }
        throw new NoSuchMethodException(name);
    }

    static final InvocationHandler CLOCK = (proxy, method, arguments) -> switch (method.getName()) {
        case "milliseconds" -> now;
        case "nanoseconds", "hiResClockMs" -> now * 1_000_000;
        default -> method.invoke(Time.SYSTEM, arguments);
    };

    static void open(String directory, String settings) throws Exception {
        Properties found = new Properties();
        for (String each : settings.split(";"))
            found.put(each.split("=")[0], each.split("=")[1]);
        Time time = (Time) Proxy.newProxyInstance(
            Segments.class.getClassLoader(), new Class<?>[] {Time.class}, CLOCK);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Class<?> type = one("org.apache.kafka.storage.internals.log.UnifiedLog",
            "kafka.log.UnifiedLog");
        boolean scala = type.getName().startsWith("kafka.");
        Object stats = one("org.apache.kafka.storage.log.metrics.BrokerTopicStats",
            "kafka.server.BrokerTopicStats").getConstructor(boolean.class).newInstance(false);
        Object none = scala ? Class.forName("scala.Option").getMethod("empty").invoke(null)
            : Optional.empty();
        File folder = new File(directory);
        folder.mkdirs();
        Object[] first = {folder, new LogConfig(found), 0L, 0L, scheduler, stats, time, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(1), true, none};
        Object[] last = {new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER};
        Stream<Object> arguments = scala
            ? Stream.of(Stream.of(first), Stream.<Object>of(true), Stream.of(last)).flatMap(s -> s)
            : Stream.concat(Stream.of(first), Stream.of(last));
        log = longest(type, scala ? "apply" : "create").invoke(null, arguments.toArray());
    }

    static void append(byte[] batch) throws Exception {
        Class<?> type = one("org.apache.kafka.common.record.internal.MemoryRecords",
            "org.apache.kafka.common.record.MemoryRecords");
        Object records = type.getMethod("readableRecords", ByteBuffer.class)
            .invoke(null, ByteBuffer.wrap(batch));
        if (!log.getClass().getName().startsWith("kafka.")) {
            call("appendAsLeader", records, 0);
            return;
        }
        Method method = longest(log.getClass(), "appendAsLeader");
        Object[] arguments = new Object[method.getParameterCount()];
        arguments[0] = records;
        arguments[1] = 0;
        for (int i = 2; i < arguments.length; i++) {
            arguments[i] = method.getParameterTypes()[i].getSimpleName().equals("RequestLocal")
                ? method.getParameterTypes()[i].getMethod("NoCaching").invoke(null)
                : call("appendAsLeader$default$" + (i + 1));
        }
        method.invoke(log, arguments);
    }

    static void watermark() throws Exception {
        call("updateHighWatermark", call("logEndOffset"));
    }

    static String bases() throws Exception {
        StringJoiner found = new StringJoiner(",");
        for (Object segment : (Iterable<?>) call("logSegments"))
            found.add(String.valueOf(((LogSegment) segment).baseOffset()));
        return found.toString();
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> open(words[1], words[2]);
            case "append" -> {
                now = Long.parseLong(words[1]);
                append(Base64.getDecoder().decode(words[2]));
            }
            case "retain" -> {
                now = Long.parseLong(words[1]);
                watermark();
                call("deleteOldSegments");
            }
            case "delete" -> {
                watermark();
                call("maybeIncrementLogStartOffset", Long.parseLong(words[1]),
                    LogStartOffsetIncrementReason.ClientRecordDeletion);
                call("deleteOldSegments");
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return bases() + ";" + call("logStartOffset") + ";" + call("logEndOffset");
    }

    /** What a client is told: of records that were refused, why. */
    static Throwable named(Throwable error) throws Exception {
        for (Method method : error.getClass().getMethods())
            if (method.getName().equals("invalidException"))
                return (Throwable) method.invoke(error);
        return error;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                System.out.println(answer(line.split(" ")));
            } catch (InvocationTargetException e) {
                e.getCause().printStackTrace();
                System.out.println("error:" + named(e.getCause()).getClass().getSimpleName());
            }
        }
        System.out.flush();
        System.exit(0);
    }
}
