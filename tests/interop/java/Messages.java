/*
 * What Kafka's own classes make of requests and responses.
 *
 * Reads one message a line from standard input, "KEY REQ|RES VERSION BASE64" or
 * "CLASS RECORD VERSION BASE64" (the class without org.apache.kafka), and answers each
 * with three words: how many bytes Kafka left unread, the bytes that Kafka writes for what it
 * read, in base64, and the message as JSON; with "unknown" where this Kafka does not have the version;
 * or with "refused" and the class of the exception.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Messages {
    static String answer(String[] words) throws Exception {
        short version = Short.parseShort(words[2]);
        ApiMessage message;
        if (words[1].equals("RECORD")) {
            message = (ApiMessage) Class.forName("org.apache.kafka." + words[0])
                .getDeclaredConstructor().newInstance();
        } else {
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(words[0]));
            if (version < type.lowestSupportedVersion() || version > type.highestSupportedVersion(true)) {
                return "unknown";
            }
            message = words[1].equals("REQ") ? type.newRequest() : type.newResponse();
        }
        ByteBuffer data = ByteBuffer.wrap(
            words.length > 3 ? Base64.getDecoder().decode(words[3]) : new byte[0]);
        message.read(new ByteBufferAccessor(data), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] bytes = new byte[message.size(cache, version)];
        message.write(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), cache, version);
        Object json = Class.forName(message.getClass().getName() + "JsonConverter")
            .getMethod("write", message.getClass(), short.class)
            .invoke(null, message, version);
        String base64 = bytes.length == 0 ? "-" : Base64.getEncoder().encodeToString(bytes);
        return data.remaining() + "\t" + base64 + "\t" + json;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            try {
                System.out.println(answer(line.split(" ")));
            } catch (RuntimeException error) {
                System.out.println("refused\t" + error.getClass().getSimpleName());
            }
        }
    }
}
