/*
 * Kafka's AdminClient of any version from 0.11 to 3.9: topics, settings, ACLs, log directories.
 *
 * Arguments: the broker, a prefix of topics, a directory to move to ("-": no log directories).
 * Prints one line for each call: its name and "ok" or the error.
 */

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;

public class OneAdmin {
    static final String COMMON = "org.apache.kafka.common.";

    static void step(String name, Callable<KafkaFuture<?>> call) throws Exception {
        String outcome = "ok";
        try {
            call.call().get();
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            outcome = cause.getClass().getSimpleName() + " " + cause.getMessage();
        }
        System.out.println(name + ": " + outcome.replace('\n', ' '));
    }

    /** A Resource until 1.1, a ResourcePattern with a type of its own since 2.0; so of filters. */
    static Object resource(String kind, String name) throws Exception {
        boolean isOld = !exists(COMMON + "resource.ResourcePattern");
        Class<?> types = Class.forName(COMMON + "resource.ResourceType");
        Object topic = types.getField("TOPIC").get(null);
        Class<?> made = Class.forName(
            COMMON + "resource.Resource" + (isOld ? "" : "Pattern") + kind);
        if (isOld) return made.getConstructor(types, String.class).newInstance(topic, name);
        Class<?> patterns = Class.forName(COMMON + "resource.PatternType");
        Object literal = patterns.getField("LITERAL").get(null);
        return made.getConstructor(types, String.class, patterns)
            .newInstance(topic, name, literal);
    }

    static boolean exists(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException error) {
            return false;
        }
    }

    static void acls(AdminClient admin, String topic) throws Exception {
        Object resource = resource("", topic), filter = resource("Filter", topic);
        List<AclBinding> bindings = new ArrayList<>();
        for (String user : new String[] {"User:alice", "User:bob"}) {
            AccessControlEntry entry = new AccessControlEntry(
                user, "*", AclOperation.READ, AclPermissionType.ALLOW);
            bindings.add(AclBinding.class
                .getConstructor(resource.getClass(), AccessControlEntry.class)
                .newInstance(resource, entry));
        }
        AclBindingFilter alice = AclBindingFilter.class
            .getConstructor(filter.getClass(), AccessControlEntryFilter.class)
            .newInstance(filter, new AccessControlEntryFilter(
                "User:alice", null, AclOperation.ANY, AclPermissionType.ANY));
        step("create ACLs", () -> admin.createAcls(bindings).all());
        step("describe ACLs", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        step("delete ACLs", () -> admin.deleteAcls(Collections.singletonList(alice)).all());
        step("describe one's ACLs", () -> admin.describeAcls(alice).values());
    }

    /** By name: the clients of 0.11 have none, those of 3.9 and 4.0 others. */
    static KafkaFuture<?> logDirs(AdminClient admin) throws Exception {
        Object found = AdminClient.class.getMethod("describeLogDirs", Collection.class)
            .invoke(admin, Collections.singletonList(1));
        String all = exists("org.apache.kafka.clients.admin.LogDirDescription")
            ? "allDescriptions" : "all";
        return (KafkaFuture<?>) found.getClass().getMethod(all).invoke(found);
    }

    static KafkaFuture<?> move(AdminClient admin, String topic, String path) throws Exception {
        Map<Object, String> moves = new HashMap<>();
        Class<?> replica = Class.forName(COMMON + "TopicPartitionReplica");
        moves.put(replica.getConstructor(String.class, int.class, int.class)
            .newInstance(topic, 0, 1), path);
        Object found = AdminClient.class.getMethod("alterReplicaLogDirs", Map.class)
            .invoke(admin, moves);
        return (KafkaFuture<?>) found.getClass().getMethod("all").invoke(found);
    }

    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("retries", "0");
        settings.put("request.timeout.ms", "20000");
        String one = words[1] + "-one", two = words[1] + "-two";
        Map<String, String> kept = new HashMap<>();
        kept.put("retention.ms", "-1");
        kept.put("segment.bytes", "1000000");
        NewTopic wide = new NewTopic(one, 2, (short) 1).configs(kept);
        NewTopic assigned = new NewTopic(two, Collections.singletonMap(0, Arrays.asList(1)));
        NewTopic wrong = new NewTopic("a b", 1, (short) 1);
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, one);
        try (AdminClient admin = AdminClient.create(settings)) {
            step("create", () -> admin.createTopics(Arrays.asList(wide, assigned)).all());
            Thread.sleep(1500); // until all of the broker knows them
            step("create again", () -> admin.createTopics(Arrays.asList(wide)).all());
            step("create a wrong name", () -> admin.createTopics(Arrays.asList(wrong)).all());
            step("only check", () -> admin.createTopics(
                Arrays.asList(new NewTopic(words[1] + "-three", 1, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all());
            step("describe", () -> admin.describeTopics(Arrays.asList(one)).all());
            step("settings", () -> admin.describeConfigs(Arrays.asList(topic)).all());
            acls(admin, one);
            if (!words[2].equals("-")) {
                step("log directories", () -> logDirs(admin));
                step("move to nowhere", () -> move(admin, one, "/nowhere/at/all"));
                step("move to where it is", () -> move(admin, one, words[2]));
                step("move an unknown one", () -> move(admin, "unknown", words[2]));
            }
            step("delete", () -> admin.deleteTopics(Arrays.asList(two)).all());
            step("delete an unknown one", () -> admin.deleteTopics(Arrays.asList("unknown")).all());
        }
    }
}
