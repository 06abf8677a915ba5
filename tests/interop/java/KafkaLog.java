/*
 * Opens Kafka's own log in-process, under a clock that is told, whatever the version: names and
 * constructors that differ between 3.9 and 4.x are looked up by reflection.
 *
 * A log has a scheduler of one thread. What Kafka leaves to it (the leader epochs' file, for one)
 * is finished by settle(), before anybody looks at the directory.
 */

import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Comparator;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class KafkaLog {
    static final String INTERNALS = "org.apache.kafka.storage.internals.log.";

    final Object log; // a UnifiedLog
    final boolean scala;
    private final KafkaScheduler scheduler = new KafkaScheduler(1);

    KafkaLog(String directory, String settings, Time time, boolean clean, int expirationMs)
            throws Exception {
        this(directory, settings, time, clean, expirationMs, 0, 0);
    }

    /** With what the directory's checkpoints say of its log start and its recovery point. */
    KafkaLog(String directory, String settings, Time time, boolean clean, int expirationMs,
            long logStart, long recoveryPoint) throws Exception {
        Properties found = new Properties();
        for (String each : settings.split(";"))
            found.put(each.split("=", 2)[0], each.split("=", 2)[1]);
        Class<?> type = one(INTERNALS + "UnifiedLog", "kafka.log.UnifiedLog");
        scala = type.getName().startsWith("kafka.");
        Object stats = one("org.apache.kafka.storage.log.metrics.BrokerTopicStats",
            "kafka.server.BrokerTopicStats").getConstructor(boolean.class).newInstance(false);
        Object none = scala ? Class.forName("scala.Option").getMethod("empty").invoke(null)
            : Optional.empty();
        File folder = new File(directory);
        folder.mkdirs();
        scheduler.startup();
        Object[] first = {folder, new LogConfig(found), logStart, recoveryPoint, scheduler, stats, time, 900_000,
            new ProducerStateManagerConfig(expirationMs, false), 600_000,
            new LogDirFailureChannel(1), clean, none};
        Object[] last = {new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER};
        Stream<Object> arguments = scala
            ? Stream.of(Stream.of(first), Stream.<Object>of(true), Stream.of(last)).flatMap(s -> s)
            : Stream.concat(Stream.of(first), Stream.of(last));
        log = longest(type, scala ? "apply" : "create").invoke(null, arguments.toArray());
    }

    /** Return when all is done that was left to the scheduler for now. */
    void settle() throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        scheduler.scheduleOnce("settle", done::countDown);
        done.await();
    }

    /** As settle, and the log closed; what was to be done later is not. */
    void close() throws Exception {
        settle();
        call("close");
        settle();
        scheduler.shutdown();
    }

    void moveWatermarkToEnd() throws Exception {
        call("updateHighWatermark", call("logEndOffset"));
    }

    Object call(String name, Object... arguments) throws Exception {
        for (Method method : log.getClass().getMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != arguments.length)
                continue;
            if (arguments.length == 1 && method.getParameterTypes()[0] != long.class)
                continue;
            return method.invoke(log, arguments);
        }
        throw new NoSuchMethodException(name);
    }

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

    /** A class's constructor with so many parameters. */
    static Constructor<?> constructor(Class<?> type, int parameters) {
        return Stream.of(type.getConstructors()).filter(c -> c.getParameterCount() == parameters)
            .findFirst().orElseThrow();
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(
            KafkaLog.class.getClassLoader(), new Class<?>[] {type}, handler));
    }

    /** A clock that says what it is told; waiting is the system's. */
    static Time clock(LongSupplier now) {
        return proxy(Time.class, (made, method, arguments) -> switch (method.getName()) {
            case "milliseconds" -> now.getAsLong();
            case "nanoseconds", "hiResClockMs" -> now.getAsLong() * 1_000_000;
            default -> method.invoke(Time.SYSTEM, arguments);
        });
    }
}
