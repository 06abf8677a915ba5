"""Command lines of tools, for `test_tool_texts`: each is run by both tools on one broker.

``{name}`` stands for a topic of the run: both tools make the same changes, each to its own.
``FILE:name`` is a file of `tool_files`, ``ADDRESS`` the address of the server. A line that names no
server gets it at its end; ``@`` stands for it, ``-`` for none. In DIFFERENT a line has the reason
why kstore prints something else.
"""

from typing import NamedTuple

_T = "org.apache.kafka.tools."


class Tool(NamedTuple):
    """The name of a tool, the main class of its counterpart, and the command lines."""

    name: str
    main: str
    lines: tuple[str, ...]
    different: dict[str, str]


_USAGE = "a wrong number is an error of the options: with the usage, on standard error"
_ONE_LINE = "Kafka prints the arguments and a trace; kstore the exception's message, or more"
_SLIP = "Kafka's slip: it prints the class Optional"
_GROUPS_SLIP = "Kafka's slip, corrected in Kafka 4: it names options that do not help"
_NO_FILE = "kstore says that there is no file"
_MISSING = "one sentence for a missing option in all tools"
_ALTERS = "kstore topics also alters settings"

TOPICS = Tool(
    "topics",
    _T + "TopicCommand",
    (
        "--list", "--list --exclude-internal", "--list --topic orders", "--list --topic nope",
        "--describe", "--describe --topic orders", "--describe --topic nope --if-exists",
        "--describe --exclude-internal", "--describe --topics-with-overrides",
        "--describe --under-replicated-partitions", "--describe --unavailable-partitions",
        "--describe --under-min-isr-partitions", "--describe --at-min-isr-partitions",
        "--describe --topic orders --under-replicated-partitions --at-min-isr-partitions",
        "--create --topic {new} --partitions 2 --replication-factor 1 --config retention.ms=5000",
        "--create --topic {new} --if-not-exists", "--create --topic {a.b}",
        "--create --topic {given} --replica-assignment 1,1", "--create --topic orders",
        "--alter --topic {given} --partitions 3", "--alter --topic {given} --partitions 2",
        "--alter --topic {given} --partitions 4 --replica-assignment 1,1,1,1",
        "--alter --topic nope --partitions 4 --if-exists", "--delete --topic {new}",
        "--delete --topic nope --if-exists", "--create --topic 'bad name'", "--create --topic ..",
        "--create", "--create --topic z --partitions 0",
        "--create --topic z --replication-factor 3", "--create --topic z --replication-factor 0",
        "--create --topic z --config nope=1", "--create --topic z --config retention.ms=x",
        "--create --topic z --config retention.ms", "--create --topic z --replica-assignment 9",
        "--create --topic z --partitions 2 --replica-assignment 1",
        "--create --topic z --delete-config x", "--create --topic z --if-exists",
        "--create --topic z --exclude-internal", "--list --partitions 2", "--list --config a=b",
        "--list --if-exists", "--list --unavailable-partitions", "--list --describe", "",
        "--alter --topic orders", "--alter --partitions 3", "--delete", "--nope", "--list --nope",
        "--describe --unavailable-partitions --topics-with-overrides", "--list -",
        "--describe --if-exists", "--delete --topic x --partitions 2", "--topic -",
        "--alter --topic orders --partitions 5 --replication-factor 1",
        "--alter --topic orders --partitions 0", "--create --topic z --replica-assignment 1:1",
        "--create --topic z --replica-assignment 1:2,1", "--list --create --topic z",
        "--describe --topic orders --config a=b", "--create --topic z --config cleanup.policy=nope",
        "--create --topic orders,other", "--delete --topic orders --force",
        "--describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ",
        "--describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ --if-exists",
        "--describe --topic-id AAAAAAAAAAAAAAAAAAAAAA --topic orders",
        "--describe --topic orders --partition-size-limit-per-response 10",
    ),
    {
        "--describe --topic nope": _SLIP,
        "--delete --topic nope": _SLIP,
        "--alter --topic nope --partitions 4": _SLIP,
        "--create --topic z --partitions x": _USAGE,
        "--create --topic z --replication-factor x": _USAGE,
        "--create --topic z --replica-assignment x": "kstore explains the option on the next line",
        "--list --topic [": "a wrong pattern is an error of the options",
        "--alter --topic orders --config retention.ms=-1": _ALTERS,
        "--alter --topic orders --delete-config retention.ms": _ALTERS,
        "--list --topic-id AAAAAAAAAAAAAAAAAAAAAA": "Kafka ignores the option",
        "--describe --topic-id nope": "kstore says what an id looks like",
    },
)  # fmt: skip
_NO_USAGE = "Kafka's tool prints no usage, and another word before"
OFFSETS = Tool(
    "get-offsets",
    _T + "GetOffsetShell",
    (
        "", "--topic orders", *(
            f"--topic orders --time {when}"
            for when in (
                -1, "latest", -2, "earliest", -3, "max-timestamp", -4, "earliest-local", -5,
                "latest-tiered", 0, 99_999_999_999_999, "nope",
            )
        ),
        "--topic orders --partitions 0", "--topic orders --partitions 0,2",
        "--topic orders --partitions 9", "--topic orders --partitions x", "--topic nope",
        "--topic-partitions orders:0", "--topic-partitions orders:0-2",
        "--topic-partitions orders:1-", "--topic-partitions orders:-1",
        "--topic-partitions orders", "--topic-partitions :0", "--topic-partitions orders:x",
        "--topic-partitions 'o.*:0,other'", "--topic-partitions '[:0'",
        "--topic-partitions a:b:c", "--topic orders --topic-partitions orders:0",
        "--topic-partitions orders:2-1", "--topic-partitions orders:0 --partitions 0",
        "--topic-partitions orders:99", "--topic orders --time yesterday",
        "--exclude-internal-topics", "--topic '['", "--topic orders,other",
        "- --topic orders --broker-list ADDRESS", "--topic orders --broker-list x:1",
    ),
    {
        "--nope": _NO_USAGE,
        "- --broker-list ADDRESS --broker-list ADDRESS": _NO_USAGE,
        "--topic orders --time -9": "kstore refuses a time that Kafka's broker would refuse",
        "-": "kstore takes a directory, too",
    },
)  # fmt: skip
DELETE_RECORDS = Tool(
    "delete-records",
    _T + "DeleteRecordsCommand",
    (
        *(
            f"--offset-json-file FILE:{name}"
            for name in (
                "offsets", "offsets-all", "offsets-twice", "offsets-none", "offsets-text",
                "version-2", "no-partitions", "no-json", "missing", "moved", "config",
            )
        ),
        "--offset-json-file FILE:offsets --offset-json-file FILE:offsets", "--topic orders",
        "", "--nope", "--offset-json-file FILE:offsets -",
    ),
    {"--offset-json-file FILE:offsets-beyond": "the status is 1 where a partition was refused"},
)  # fmt: skip
CONFIGS = Tool(
    "configs",
    "kafka.admin.ConfigCommand",
    (
        "--describe --entity-type topics --entity-name orders", "--describe --topic orders",
        "--describe --topic orders --all", "--describe --entity-type brokers",
        "--describe --entity-type brokers --entity-name 1", "--describe --broker 1 --all",
        "--describe --entity-type brokers --entity-default", "--describe --broker-defaults",
        "--describe --broker x", "--describe --entity-type broker-loggers --entity-name 1",
        "--describe --broker-logger 1", "--describe --broker-logger x",
        "--describe --entity-type broker-loggers", "--describe --entity-type users",
        "--describe --entity-type users --entity-default", "--describe --user noone",
        "--describe --entity-type clients", "--describe --entity-type ips",
        "--describe --entity-type client-metrics", "--describe --topic other --force",
        "--alter --topic {set} --add-config retention.ms=2000 --force",
        "--describe --entity-type topics --entity-name orders --entity-name other",
        "--alter --topic {set} --add-config retention.ms=2000,segment.bytes=1048576",
        "--alter --topic {set} --add-config cleanup.policy=[compact,delete]",
        "--alter --topic {set} --add-config-file FILE:config", "--describe --topic {set}",
        "--alter --topic {set} --delete-config segment.bytes",
        "--alter --topic {set} --delete-config segment.bytes",
        "--alter --topic orders --delete-config nope", "--describe",
        "--alter --topic orders", "--alter --topic orders --add-config retention.ms",
        "--alter --topic orders --add-config ''", "--alter --describe --topic orders",
        "--alter --topic orders --add-config a=b --add-config-file FILE:config", "--topic orders",
        "--alter --entity-type topics --add-config retention.ms=1", "--nope",
        "--describe --entity-type topics --entity-type brokers",
        "--describe --topic orders --entity-type topics", "--describe --topic orders --broker 1",
        "--describe --topic orders --entity-name other", "--describe --entity-name orders",
        "--describe --topic orders --add-config a=b",
        "--describe --topic orders --bootstrap-controller ADDRESS",
        "--describe --topic orders --delete-config retention.ms",
        "--alter --user {alice} --add-config SCRAM-SHA-256=[iterations=1,password=x]",
        "--alter --entity-type brokers --add-config log.cleaner.threads=2",
        "--alter --broker 1 --add-config log.cleaner.threads=2", "--describe --broker 1",
        "--alter --broker 1 --delete-config nope",
        "--alter --broker-defaults --add-config log.cleaner.threads=2",
        "--describe --broker-defaults", "--alter --broker-logger 1 --add-config nope=INFO",
        "--alter --broker-logger 1 --delete-config nope", "--describe --client-metrics m",
        "--alter --user {alice} --add-config producer_byte_rate=1024",
        "--describe --user {alice}", "--alter --user {alice} --delete-config producer_byte_rate",
        "--alter --client {c} --add-config request_percentage=10",
        "--alter --ip 1.2.3.4 --add-config connection_creation_rate=5", "--describe --ip 1.2.3.4",
        "--alter --user {bob} --add-config SCRAM-SHA-256=[iterations=8192,password=x]",
        "--describe --user {bob}", "--alter --user {bob} --delete-config SCRAM-SHA-256",
    ),
    {
        "--describe --topic nope": _ONE_LINE,
        "--alter --topic orders --add-config nope=1": _ONE_LINE,
        "--alter --topic orders --add-config a=b=c": "kstore takes a value with an equals sign",
        "- --describe --topic orders --bootstrap-controller ADDRESS": _ONE_LINE,
        "- --describe --entity-type topics --bootstrap-controller ADDRESS": _ONE_LINE,
        "--describe --entity-type groups": "of Kafka 4",
        "--describe --entity-type nope": "groups are a type, too",
        "--alter --user {alice} --add-config nope=1": "the broker's sentence, not the tool's",
    },
)  # fmt: skip
LOG_DIRS = Tool(
    "log-dirs",
    _T + "LogDirsCommand",
    (
        "--describe --topic-list orders", "--describe --topic-list nope",
        "--describe --broker-list 1 --topic-list orders", "--describe --broker-list 9",
        "--describe --broker-list x", "--describe --broker-list 1,x", "--topic-list orders", "",
        "--describe --topic orders", "--describe --topic-list orders --topic-list other",
        "--nope", "--describe -",
    ),
    {"--describe extra": "kstore refuses a word without an option"},
)  # fmt: skip
TRANSACTIONS = Tool(
    "transactions",
    _T + "TransactionsCommand",
    (
        "@ list", "@ list --duration-filter 10", "@ list --duration-filter -1",
        "@ list --duration-filter x", "@ list --duration-filter",
        "@ describe-producers --topic orders --partition x",
        "@ describe-producers --topic orders --partition 0", "@ describe",
        "@ describe-producers --topic orders", "@ describe-producers --partition 0",
        "@ describe-producers --topic orders --partition 0 --broker-id 1", "@ find-hanging",
        "@ find-hanging --topic orders", "@ find-hanging --topic orders --partition 0",
        "@ find-hanging --partition 0", "@ find-hanging --broker-id 1", "@",
        "@ abort --topic orders --partition 0", "@ abort --partition 0",
        "@ abort --topic orders --partition 0 --start-offset 5",
        "@ abort --topic orders --partition 0 --producer-id 5",
        "@ abort --topic orders --partition 0 --producer-id 5 --producer-epoch 1", "@ list --nope",
        "@ describe --nope x", "@ describe-producers --topic orders --nope",
    ),
    {
        "@ describe --transactional-id nope": "kstore prints the broker's sentence",
        "@ abort": "kstore names another one of the missing options",
        "@ nope": "kstore lists the actions in another order",
        "list @": "kstore takes the server after the action, too",
    },
)  # fmt: skip
LEADERS = Tool(
    "leader-election",
    _T + "LeaderElectionCommand",
    (
        "--election-type preferred --topic orders --partition 0",
        "--election-type PREFERRED --all-topic-partitions",
        "--election-type unclean --topic orders --partition 0",
        "--election-type nope --all-topic-partitions", "--election-type preferred",
        "--election-type preferred --topic orders",
        "--election-type preferred --topic nope --partition 0",
        "--election-type preferred --topic orders --partition 99",
        "--election-type preferred --topic orders --partition x",
        "--election-type preferred --path-to-json-file FILE:elected",
        "--election-type preferred --path-to-json-file FILE:elected-twice",
        "--election-type preferred --path-to-json-file FILE:elected-unknown",
        "--election-type preferred --path-to-json-file FILE:missing",
        "--election-type preferred --topic orders --partition 0 --all-topic-partitions", "--nope",
    ),
    {
        "--all-topic-partitions": _MISSING,
        "--election-type preferred --path-to-json-file FILE:no-json": "kstore names the form",
    },
)  # fmt: skip
REASSIGN = Tool(
    "reassign-partitions",
    _T + "reassign.ReassignPartitionsCommand",
    (
        "--list", "--verify --reassignment-json-file FILE:moved", "--verify", "--execute",
        "--cancel", "", "--list --verify", "--list --reassignment-json-file FILE:moved", "--nope",
        "--cancel --reassignment-json-file FILE:moved",
        "--execute --reassignment-json-file FILE:moved", "--generate", "--list --generate",
        "--generate --topics-to-move-json-file FILE:topics --broker-list 1",
        "--generate --topics-to-move-json-file FILE:topics --broker-list 1 --disable-rack-aware",
        "--generate --topics-to-move-json-file FILE:topics", "--generate --broker-list 1",
        "--generate --reassignment-json-file FILE:moved", "--list --disable-rack-aware",
        "--verify --reassignment-json-file FILE:moved --broker-list 1",
        "--execute --reassignment-json-file FILE:moved --throttle 5 --additional "
        "--replica-alter-log-dirs-throttle 0",
        "--execute --reassignment-json-file FILE:moved --throttle -5",
        "--execute --reassignment-json-file FILE:moved --replica-alter-log-dirs-throttle=6",
        "--verify --reassignment-json-file FILE:moved", "--list --additional",
        *(f"--verify --reassignment-json-file FILE:moved {each}"
          for each in ("--throttle 5", "--additional", "--timeout 5",
                       "--replica-alter-log-dirs-throttle 0")),
        "--cancel --reassignment-json-file FILE:moved --additional",
        "--execute --reassignment-json-file FILE:moved --preserve-throttles",
        "--execute @ --reassignment-json-file FILE:moved --throttle",
        "--execute --reassignment-json-file FILE:moved-away",
        # Without --preserve-throttles Kafka's tool waits a minute for the broker.
        "--verify --reassignment-json-file FILE:moved-away --preserve-throttles",
        "--cancel --reassignment-json-file FILE:moved-away --preserve-throttles",
    ),
    {
        **{
            f"--generate --topics-to-move-json-file FILE:{words}": "errors are on standard error"
            for words in (
                "topics --broker-list 9", "topics --broker-list 1,1", "topics --broker-list x",
                "topics-twice --broker-list 1", "topics-unknown --broker-list 1",
                "no-json --broker-list 1", "version-2 --broker-list 1",
            )
        },
        "--verify --reassignment-json-file FILE:missing": "errors are on standard error",
        "--execute --reassignment-json-file FILE:moved --throttle x": _USAGE,
    },
)  # fmt: skip
CONSUMER = Tool(
    "console-consumer",
    _T + "consumer.ConsoleConsumer",
    (
        "--topic orders --partition 0 --offset earliest --max-messages 3",
        "--topic orders --partition 0 --offset 2 --max-messages 2 --property print.key=true "
        "--property print.offset=true --property print.partition=true "
        "--property print.timestamp=true --property print.headers=true "
        "--property key.separator=:",
        "--topic orders --partition 0 --offset earliest --max-messages 2 "
        "--property print.value=false --property print.key=true --property line.separator=;",
        "--topic orders --partition 0 --offset latest --timeout-ms 100",
        "--topic orders --partition 0 --offset 0 --max-messages 0",
        "--topic orders --partition 0 --offset nope", "--topic orders --partition 0 --offset -5",
        "--topic orders --offset 2", "--topic orders --partition x", "--partition 0", "",
        "--include ord --topic orders", "--topic orders --group g --partition 0",
        "--topic orders --from-beginning --offset 2 --partition 0",
         "--nope",
        "--topic orders --from-beginning --consumer-property auto.offset.reset=latest",
        "--topic orders --timeout-ms x", "--topic orders -",
        *(f"--topic orders --partition 0 --offset 1 --max-messages 2 --formatter {each}"
          for each in ("kafka.tools.LoggingMessageFormatter", "kafka.tools.NoOpMessageFormatter",
                       _T + "consumer.LoggingMessageFormatter --property print.key=true")),
    ),
    {
        "--topic orders --group g --consumer-property group.id=h": "kstore names its options",
        **dict.fromkeys(
            (
                "--topic orders --group g --consumer-property group.protocol=x",
                "--topic orders --group g --consumer-property group.remote.assignor=range",
                "--topic orders --group g --consumer-property session.timeout.ms=3000",
            ),
            "Kafka's tool logs what its consumer refuses",
        ),
        "--topic orders --partition 0 --offset earliest --max-messages 1 --property nope=true":
            "kstore refuses a property that it does not know",
        "--topic orders --partition 0 --offset earliest --max-messages 1 --formatter nope.Nope":
            "kstore names the formatters that it has",
    },
)  # fmt: skip
_IGNORED = "kstore refuses an option that has no effect"
GROUPS = Tool(
    "consumer-groups",
    _T + "consumer.group.ConsumerGroupCommand",
    (
        "--list", "--list --state", "--describe --group nope", "--describe --all-groups",
        "--describe --group g --offsets --members", "--describe --group g --members --state",
        "--describe --all-groups --group g", "--describe --group g --topic orders",
        "--describe --group g --state stable", "--describe --group g --type",
        "--list --group g", "--list --topic orders", "--list --group g --topic orders",
        "--list --all-groups", "--list --members", "--list --verbose --offsets",
        "--list --describe --group g", "--list --delete", "--list --reset-offsets", "--list -",
        "--delete", "--delete --topic orders", "--delete --group g --topic orders",
        "--delete --all-groups --group g", "--delete --group g --members",
        "--delete --describe --group g", "--delete --delete-offsets --group g --topic orders",
        "--reset-offsets", "--reset-offsets --group g", "--reset-offsets --group g --to-earliest",
        "--reset-offsets --topic orders --to-earliest", "--reset-offsets --group g --topic orders",
        *(
            f"--reset-offsets --group g --topic orders {words}"
            for words in (
                "--to-latest --to-earliest", "--to-latest --shift-by 1 --execute",
                "--to-datetime 1 --to-current", "--to-offset 1 --from-file x --by-duration y",
                "--to-earliest --dry-run --execute", "--to-earliest --all-groups",
                "--to-earliest --verbose", "--to-earliest --state --execute", "--execute --export",
            )
        ),
        "--reset-offsets --group g --topic orders:x --to-latest --execute",
        "", "--group g", "--topic orders --to-latest", "--state", "--nope",
    ),
    {
        "--describe": _GROUPS_SLIP,
        "--list --describe": _GROUPS_SLIP,
        "--delete-offsets": _GROUPS_SLIP,
        "--delete-offsets --group g": _GROUPS_SLIP,
        "--delete-offsets --all-groups --topic orders": _GROUPS_SLIP,
        "--list --execute": _IGNORED,
        "--describe --group g --to-latest": _IGNORED,
        "--delete --group nope --all-topics": _IGNORED,
        "--reset-offsets --group g --topic orders --all-topics --to-latest --dry-run": _IGNORED,
        "--list --state nope": "kstore sorts the states",
        "--list --type nope": "kstore sorts the types",
        "--delete --group nope": "Kafka names its ExecutionException, too",
        "--reset-offsets --group g --topic orders --to-offset x": _USAGE,
        "--reset-offsets --group g --topic orders --to-offset -1": "kstore's offsets begin at 0",
        "--reset-offsets --group g --topic nope --to-earliest":
            "kstore ends with 1 where nothing was reset",
        "--reset-offsets --group g --topic orders:7 --to-latest --dry-run":
            "kstore says that there is no such partition, and ends with 1",
        "--reset-offsets --group g --topic orders --to-earliest --dry-run":
            "Kafka forgets the line ends of this table",
    },
)  # fmt: skip
ACLS = Tool(
    "acls",
    "kafka.admin.AclCommand",
    (
        "--list", "--list --topic orders", "--add --allow-principal User:a --topic orders",
        "--add --topic orders", "", "--list --add", "--nope",
        "--add --allow-principal bad --topic orders --operation read",
        "--add --allow-principal User:a --operation read", "--add", "--remove",
        "--add --allow-principal User:a --topic orders --producer --operation read",
        "--add --allow-principal User:a --group g --producer",
        "--add --allow-principal User:a --topic orders --consumer",
        "--add --allow-principal User:a --topic orders --resource-pattern-type match",
        "--add --allow-principal User:a --topic orders --idempotent",
        "--add --producer --idempotent",
        "--add --allow-principal User:a --delegation-token t --operation read",
        "--add --deny-host 1.2.3.4 --topic orders", "--list --remove",
        "--remove --topic orders --producer --allow-principal User:a --operation read",
        "--list --allow-principal User:a", "--list --principal User:a",
        "--list --topic orders --topic other --resource-pattern-type any",
    ),
    {
        "--list -": "kstore has no option for the properties of an authorizer",
        "--add --topic orders --allow-principal User:a --operation nope":
            "kstore names the word; Kafka takes it for an operation that no resource has",
        "--add --allow-principal User:a --cluster --operation read":
            "the operations in another order",
        "--add --allow-principal User:a --topic orders --resource-pattern-type nope":
            "errors are on standard error",
    },
)  # fmt: skip
CLUSTER = Tool(
    "cluster",
    _T + "ClusterTool",
    (
        "cluster-id", "cluster-id --nope", "-", "- --nope", "- unregister --nope", "- cluster-id",
        "- cluster-id --bootstrap-controller ADDRESS", "- cluster-id -C ADDRESS",
        "- unregister --id 9 -C ADDRESS", "- cluster-id -b ADDRESS -C ADDRESS",
    ),
    {
        "list-endpoints": "of Kafka 4",
        "- nope": "it has an action of Kafka 4",
        "unregister": "Kafka names the short option, too",
        "- cluster-id --bootstrap-server": "Kafka names the short option, too",
        "cluster-id --config FILE:missing": _NO_FILE,
    },
)  # fmt: skip
FEATURES = Tool(
    "features",
    _T + "FeatureCommand",
    (
        "@ describe --nope", "@ describe extra", "@", "@ --nope", "@ nope", "- describe",
        "@ disable --nope", "- --bootstrap-controller ADDRESS describe",
        "@ --bootstrap-controller ADDRESS describe",
    ),
    dict.fromkeys(("@ upgrade --metadata 3.9", "@ upgrade", "@ downgrade"),
                  "kstore changes no levels: its broker has one"),
)  # fmt: skip
QUORUM = Tool(
    "metadata-quorum",
    _T + "MetadataQuorumCommand",
    (
        "@ describe", "@ describe --status --replication", "@ describe --status --human-readable",
        "@ describe --nope", "@ describe extra", "@", "@ --nope",
    ),
    {
        **dict.fromkeys(("@ nope", "@ add-controller"), "kstore only describes"),
        "- describe --status": "kstore has no --bootstrap-controller",
        "- describe --status --bootstrap-server": "Kafka takes the server before the action",
    },
)  # fmt: skip
VERSIONS = Tool(
    "broker-api-versions",
    "kafka.admin.BrokerApiVersionsCommand",
    ("--nope",),
    {
        "": "kstore knows later versions of the requests",
        "-": "Kafka prints its usage without a sentence",
        "--command-config FILE:missing": _NO_FILE,
    },
)
PRODUCER = Tool(
    "console-producer",
    "kafka.tools.ConsoleProducer",
    (
        "--nope",
        "",
        "--topic other --topic orders",
        "--topic other --request-required-acks x",
        "- --topic other --broker-list ADDRESS --broker-list ADDRESS",
        *(
            f"--topic other --{name} x"
            for name in (
                "timeout",
                "batch-size",
                "max-block-ms",
                "max-memory-bytes",
                "request-timeout-ms",
                "message-send-max-retries",
                "retry-backoff-ms",
                "metadata-expiry-ms",
                "max-partition-memory-bytes",
                "socket-buffer-size",
            )
        ),
    ),
    {
        "--topic other -": _MISSING,
        "--topic": "Kafka has another option in mind, which is missing, too",
        "--topic other --producer-property nope": "kstore refuses a property without a value",
        "--topic other --producer.config FILE:missing": _NO_FILE,
        "--topic other --line-reader nope.Nope": "kstore runs no Java classes",
        "--topic other --compression-codec nope": "kstore refuses a codec in its own words",
        "--topic other --property nope": "kstore refuses a property that it does not know",
    },
)
_SENT = "- --topic other --num-records 3 --throughput -1"
_HEADER = "Kafka prints the header before it reads its numbers"
PRODUCER_PERF = Tool(
    "producer-perf",
    _T + "ProducerPerformance",
    (
        "- --nope", "- --topic other --num-records 3", _SENT, f"{_SENT} --record-size 5",
        "- --topic other --throughput 1 --record-size 5", f"{_SENT} --record-size x",
        "- --topic other --num-records x --throughput -1",
        f"{_SENT} --record-size 5 --payload-monotonic", f"{_SENT} --payload-file FILE:missing",
        f"{_SENT} --record-size 5 --print-metrics",
        f"{_SENT} --record-size 5 --transactional-id a --transaction-duration-ms 5",
        f"{_SENT} --record-size 5 --transaction-duration-ms x",
        f"{_SENT} --record-size 5 --producer-props nope",
        f"{_SENT} --record-size 5 --producer-props bootstrap.servers=x acks=nope",
    ),
    {
        "-": "Kafka prints its help",
        f"{_SENT} --record-size 0": "kstore checks the number first",
        f"{_SENT} --record-size 5 --producer-props": "Kafka counts the arguments",
        f"{_SENT} --record-size 5 --producer.config FILE:missing": _NO_FILE,
        "- --topic other --num-records 3 --throughput x": "kstore takes whole numbers",
    },
)  # fmt: skip
CONSUMER_PERF = Tool(
    "consumer-perf",
    _T + "ConsumerPerformance",
    ("--nope", "", "--topic orders", "--messages 3"),
    {
        "--topic orders --messages 3 -": _MISSING,
        "--topic orders --messages x": _HEADER,
        "- --topic orders --messages 3 --broker-list x:1 --broker-list x:1": _HEADER,
        "--topic orders --messages 3 --reporting-interval 0": _HEADER,
        "--topic orders --messages 3 --fetch-size x": _HEADER,
        "--topic orders --messages 3 --date-format i": _HEADER,
        "--topic orders --messages 3 --consumer.config FILE:missing": _NO_FILE,
        "--topic orders --messages -1": "kstore refuses a number below 0",
    },
)  # fmt: skip
VERIFIABLE_PRODUCER = Tool(
    "verifiable-producer",
    _T + "VerifiableProducer",
    (
        "--nope", "", "--topic", "--topic other -", "--topic other --acks 2",
        "--topic other --broker-list x:1",
        *(
            f"--topic other --{name} x"
            for name in (
                "max-messages", "throughput", "repeating-keys", "value-prefix",
                "message-create-time",
            )
        ),
    ),
    {
        "--topic other --acks x": "for kstore each is a word",
        "--topic other --max-messages 0 --producer.config FILE:missing": _NO_FILE,
    },
)  # fmt: skip
VERIFIABLE_CONSUMER = Tool(
    "verifiable-consumer",
    _T + "VerifiableConsumer",
    (
        "--nope", "--topic orders", "--group-id g", "--topic orders --group-id g --max-messages",
        "--topic orders --group-id g -", "--topic orders --group-id g --max-messages x",
        "--topic orders --group-id g --session-timeout x",
        "- --topic orders --group-id g --broker-list x:1 --bootstrap-server x:1",
    ),
    {
        "": "Kafka names another one of the missing options",
        "--topic orders --group-id g --reset-policy nope": "an error of the options",
        "--topic orders --group-id g --assignment-strategy nope.Nope": "kstore runs no Java",
    },
)  # fmt: skip
LATENCY = Tool(
    "end-to-end-latency",
    _T + "EndToEndLatency",
    ("- x:1 t 1 2 5", "- x:1 t 1 0 5", "- x:1 t x all 5", "- x:1 t 1 all x", "- x:1 t x 0 5"),
    {
        "-": "kstore has Kafka 4's named options, too",
        "- a": "the usage names the tool",
        "- x:1 t 1 all 5 FILE:missing more": "the usage names the tool",
        "- x:1 t 1 all 5 FILE:missing": _NO_FILE,
    },
)
TOOLS = (
    TOPICS, OFFSETS, DELETE_RECORDS, CONFIGS, LOG_DIRS, TRANSACTIONS, LEADERS, REASSIGN, CONSUMER,
    GROUPS, ACLS, CLUSTER, FEATURES, QUORUM, VERSIONS, PRODUCER, PRODUCER_PERF, CONSUMER_PERF,
    VERIFIABLE_PRODUCER, VERIFIABLE_CONSUMER, LATENCY,
)  # fmt: skip
