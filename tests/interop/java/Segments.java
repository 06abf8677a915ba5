/*
 * Kafka's own log, called in-process with a clock that is told: when it rolls, what retention
 * leaves. Reads one command a line, answers each with the base offsets of the segments.
 *
 *   open DIRECTORY NAME=VALUE;...   a new log with these settings
 *   load DIRECTORY NAME=VALUE;... CLEAN START POINT MS
 *                                   a log that is there, with what the checkpoints say of it, at
 *                                   this time; the answer tells its producers too; then closed
 *   append MS BATCH                 one batch (base64), as leader, at this time
 *   retain MS                       retention at this time, everything being below the watermark
 *   delete OFFSET                   raise the log start, as DeleteRecords
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

public class Segments {
    static long now;
    static KafkaLog log;

    static void open(String directory, String settings) throws Exception {
        log = new KafkaLog(directory, settings, KafkaLog.clock(() -> now), true, 86_400_000);
    }

    /** Id, epoch, last sequence, coordinator epoch, transaction since: by the ids. */
    static String producers() throws Exception {
        ProducerStateManager manager = (ProducerStateManager) log.call("producerStateManager");
        Method sequence = ProducerStateEntry.class.getDeclaredMethod("lastSeq"); // not public in 4.x
        sequence.setAccessible(true);
        StringJoiner found = new StringJoiner(",");
        for (ProducerStateEntry each : new TreeMap<>(manager.activeProducers()).values())
            found.add(each.producerId() + ":" + each.producerEpoch() + ":" + sequence.invoke(each) + ":"
                + each.coordinatorEpoch() + ":" + each.currentTxnFirstOffset().orElse(-1));
        return found.toString();
    }

    static String load(String[] words) throws Exception {
        now = Long.parseLong(words[6]);
        log = new KafkaLog(words[1], words[2], KafkaLog.clock(() -> now),
            Boolean.parseBoolean(words[3]), 86_400_000, Long.parseLong(words[4]),
            Long.parseLong(words[5]));
        String found = bases() + ";" + log.call("logStartOffset") + ";" + log.call("logEndOffset")
            + ";" + producers();
        log.close();
        return found;
    }

    static void append(byte[] batch) throws Exception {
        Class<?> type = KafkaLog.one("org.apache.kafka.common.record.internal.MemoryRecords",
            "org.apache.kafka.common.record.MemoryRecords");
        Object records = type.getMethod("readableRecords", ByteBuffer.class)
            .invoke(null, ByteBuffer.wrap(batch));
        if (!log.scala) {
            log.call("appendAsLeader", records, 0);
            return;
        }
        Method method = KafkaLog.longest(log.log.getClass(), "appendAsLeader");
        Object[] arguments = new Object[method.getParameterCount()];
        arguments[0] = records;
        arguments[1] = 0;
        for (int i = 2; i < arguments.length; i++) {
            arguments[i] = method.getParameterTypes()[i].getSimpleName().equals("RequestLocal")
                ? method.getParameterTypes()[i].getMethod("NoCaching").invoke(null)
                : log.call("appendAsLeader$default$" + (i + 1));
        }
        method.invoke(log.log, arguments);
    }

    static String bases() throws Exception {
        StringJoiner found = new StringJoiner(",");
        for (Object segment : (Iterable<?>) log.call("logSegments"))
            found.add(String.valueOf(((LogSegment) segment).baseOffset()));
        return found.toString();
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> open(words[1], words[2]);
            case "load" -> {
                return load(words);
            }
            case "append" -> {
                now = Long.parseLong(words[1]);
                append(Base64.getDecoder().decode(words[2]));
            }
            case "retain" -> {
                now = Long.parseLong(words[1]);
                log.moveWatermarkToEnd();
                log.call("deleteOldSegments");
            }
            case "delete" -> {
                log.moveWatermarkToEnd();
                log.call("maybeIncrementLogStartOffset", Long.parseLong(words[1]),
                    LogStartOffsetIncrementReason.ClientRecordDeletion);
                log.call("deleteOldSegments");
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return bases() + ";" + log.call("logStartOffset") + ";" + log.call("logEndOffset");
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
                Throwable error = named(e.getCause());
                System.out.println("error:" + Errors.forException(error).code() + ":"
                    + error.getClass().getSimpleName());
            }
        }
        System.out.flush();
        System.exit(0);
    }
}
