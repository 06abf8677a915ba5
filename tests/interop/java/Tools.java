/*
 * Kafka's command-line tools in one process, one after another.
 *
 * Reads one JSON object a line from standard input, {"main": CLASS, "words": [...], "input": TEXT},
 * and answers each with one line, {"status": N, "out": TEXT, "err": TEXT}: what the tool printed
 * until it ended, and its exit status. What it prints while the end of the process unwinds is
 * dropped, as a process that ends would not print it.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    static final long LONGEST = 20_000; // ms
    static final Captured out = new Captured();
    static final Captured err = new Captured();
    static volatile Integer status; // of the tool that runs, once it wants to end the process

    /** What a tool prints until it ends. */
    static class Captured extends OutputStream {
        private ByteArrayOutputStream held = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int each) {
            if (status == null) held.write(each);
        }

        @Override
        public synchronized void write(byte[] data, int from, int count) {
            if (status == null) held.write(data, from, count);
        }

        synchronized String take() {
            String found = held.toString(StandardCharsets.UTF_8);
            held = new ByteArrayOutputStream();
            return found;
        }
    }

    /** The tool ends the process. */
    static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    static void end(int with) {
        System.out.flush();
        System.err.flush();
        if (status == null) status = with;
        throw new Ended();
    }

    /** For `System.exit` of the library that parses options. */
    static class NoExit extends SecurityManager {
        @Override
        public void checkExit(int with) {
            end(with);
        }

        @Override
        public void checkPermission(Permission any) {
        }

        @Override
        public void checkPermission(Permission any, Object context) {
        }
    }

    static void run(String main, String[] words) {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) words);
            end(0);
        } catch (InvocationTargetException thrown) {
            if (status == null) { // as Java does for a main that throws
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                status = 1;
            }
        } catch (ReflectiveOperationException wrong) {
            throw new IllegalStateException(wrong);
        } catch (Ended over) {
            // status has it
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setSecurityManager(new NoExit());
        Exit.setExitProcedure((with, message) -> end(with));
        Exit.setHaltProcedure((with, message) -> end(with));
        Exit.setShutdownHookAdder((name, hook) -> { });
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            String main = asked.get("main").asText();
            String[] words = json.convertValue(asked.get("words"), String[].class);
            byte[] input = asked.get("input").asText().getBytes(StandardCharsets.UTF_8);
            System.setIn(new ByteArrayInputStream(input));
            status = null;
            out.take();
            err.take();
            Thread tool = new Thread(() -> run(main, words), "main");
            tool.setDaemon(true);
            tool.start();
            tool.join(LONGEST);
            ObjectNode answer = json.createObjectNode();
            answer.put("status", status == null ? -1 : status);
            status = -1; // nothing more is captured
            answer.put("out", out.take());
            answer.put("err", err.take());
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
