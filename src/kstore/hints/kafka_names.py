"""What to call instead of a name of Kafka's clients that kstore has not."""

from kstore.hints.close_names import close_names

FLUSH_IN_ASYNCIO = "use `await asyncio.to_thread(producer.flush)`, or `await` each delivery"
TRANSACTION_IN_ASYNCIO = "use `with`, in asyncio.to_thread()"
_OF_A_RECORD = ("datetime", "headers", "key", "timestamp", "value")
_STORE_OF_BROKER = "use broker.store, which is a kstore.Store"
_METRICS = (
    "a store has no metrics of its own: {}; a broker has Kafka's, kstore serve --metrics-port"
)
_MEASURES = ("metrics", "statistics", "stats")
OF_BROKERS = {
    **dict.fromkeys(("is_ready", "wait_until_ready"), "it listens once start() returns"),
    **dict.fromkeys(
        ("address", "bootstrap_server", "bootstrap_url", "host", "url"),
        "use bootstrap_servers, 'host:port', or port",
    ),
    **dict.fromkeys(("shutdown", "stop", "terminate"), "use close(), or `with`"),
    **dict.fromkeys(
        ("join", "run", "run_forever", "serve_forever", "wait"),
        "a started broker serves on a thread of its own until close(): "
        "threading.Event().wait() keeps a program alive, and `kstore serve` is one",
    ),
    **dict.fromkeys(
        (
            "add_partitions", "append", "consumer", "create_topic", "create_topics",
            "delete_topic", "groups", "list_topics", "produce", "producer", "topic", "topics",
        ),
        _STORE_OF_BROKER,
    ),
}  # fmt: skip
OF_BATCH_INFOS = {
    **dict.fromkeys(("compute_crc", "is_valid", "verify"), "use log.verify(), which reads them"),
    "batch_size": "use size, in bytes",
    **dict.fromkeys(("codec", "compression_codec", "compression_type"), "use compression"),
    **dict.fromkeys(("first_offset", "offset", "start_offset"), "use base_offset"),
    **dict.fromkeys(("end_offset", "next_offset"), "use last_offset + 1"),
    **dict.fromkeys(("num_records", "record_count", "records_count"), "use count"),
    "records": "use log[batch.base_offset : batch.last_offset + 1]",
    "sequence": "use base_sequence",
    "timestamp": "use first_timestamp, or max_timestamp",
}
OF_BATCHES = {
    name: f"use `for record in batch: record.{name}`, or consumer.records()"
    for name in (*_OF_A_RECORD, "offset")
}
OF_COMMITTED_OFFSETS = {
    "current_offset": "use offset",
    "log_end_offset": "use end_offset",
    "timestamp": "use commit_time",
}
OF_COMPACTION_REPORTS = dict.fromkeys(
    ("deleted", "dropped", "records_removed", "removed"), "use records_read - records_kept"
)
OF_CONFIGS = {
    "changed": "use overrides, the settings that differ from the default",
    **dict.fromkeys(("as_dict", "to_dict"), "use dict(config), or overrides"),
    "update": "use alter({'retention.ms': 3600000}) of the topic",
    "get": "use config['retention.ms'], or config.retention_ms",
}
OF_CONSUMERS = {
    **dict.fromkeys(_MEASURES, _METRICS.format("use lag() and position()")),
    "beginning_offsets": "use the start_offset of a log",
    "commit_async": "use commit()",
    "commit_sync": "use commit()",
    "consume": "use poll(), or `for batch in consumer`",
    "end_offsets": "use lag(), or store.end_offsets('orders')",
    "get_watermark_offsets": "use the start_offset and end_offset of a log",
    "getmany": "use poll()",
    "getone": "use `for record in consumer.records()`",
    "group_metadata": "send_offsets_to_transaction(consumer) takes the consumer itself",
    "incremental_assign": "use assign()",
    "incremental_unassign": "use assign()",
    **dict.fromkeys(("highwater", "high_watermark"), "use lag(), or the end_offset of a log"),
    "list_topics": "use store.topics",
    "messages": "use records()",
    "offsets_for_times": "use seek_to_time(), or offset_at() of a log",
    "partitions_for_topic": "use the partitions of a topic",
    "start": "opening the consumer does it",
    "stop": "use close()",
    "store_offsets": "use commit()",
    "subscribe": "use store.consumer('orders', group='billing'), which takes the topics",
    "subscription": "use assignment",
    "topics": "use assignment; all topics: store.topics",
    "unsubscribe": "use close()",
}
_ALTER_GROUP = (
    "a group is a snapshot: store.alter_group_offsets('billing', 'earliest') changes it (or "
    "'latest', a datetime, {('orders', 0): 42}), and store.group('billing') reads it again"
)
OF_GROUPS = {
    **dict.fromkeys(
        (
            "alter",
            "alter_offsets",
            "commit",
            "reset",
            "reset_offsets",
            "seek",
            "seek_to_beginning",
            "seek_to_end",
            "set_offsets",
        ),
        _ALTER_GROUP,
    ),
    "committed": "use offsets, by partition",
    "consumer": "use store.consumer('orders', group='billing')",
    "delete": "use store.delete_group()",
    "describe": "use offsets, lags and claimed",
    "members": "use claimed, the partitions that open consumers read",
    "state": "use is_claimed",
    "total_lag": "use lag; by partition: lags",
}
_ALTER = "use alter({'retention.ms': 3600000}) of the topic"
_OFFSET_AT = "use offset_at(when)"
_ARROW = ("arrow_batches", "to_arrow_batches", "to_batches", "to_polars", "to_table")
_DELETE = "a key: append(None, key=key); records: delete_records(); all: store.delete_topic()"
_COMMITTED = "use view(isolation_level='read_committed')"
_EXTEND = "use extend()"
_MANY = ("append_all", "append_many", "extend_many", "send_many")
_PERIOD = "use since(when, until), or log[:log.offset_at(when)]"
_FIND = "use scan(where=lambda row: kstore.jit.contains(row.value, b'error')), as columns"
_GROUP = "use to_pandas().groupby('key').size(), or a Counter over the keys of scan()"
_SCAN = "use scan(where=lambda row: row.offset > 5), which gives columns"
_FILES = ("to_csv", "to_json", "to_parquet")
_TO_FILES = (
    "use pyarrow.parquet.write_table(topic.to_arrow(), 'orders.parquet'), or to_pandas(); many "
    "topics: kstore spark export"
)
_NAMES = ("read_batches", "batch_headers", "record_batches")
_TABLES = "use to_arrow(), a pyarrow.Table (its to_batches() are record batches), or scan()"
_COUNT = "use count(), which reads the records"
_CLIENTS = ("consumer", "producer")
_OF_STORE = "use store.consumer('orders', group='billing'), or store.producer('orders')"
_ROWS = "use list(log), columns by scan(), or to_pandas()"
_LAG = "use lag() of a consumer, or store.group('billing').lags"
OF_LOGS = {
    **dict.fromkeys(("alter", "alter_config", "alter_configs", "set_config"), _ALTER),
    **dict.fromkeys(
        ("offset_for_time", "offset_for_timestamp", "offsets_at", "offsets_for_times"), _OFFSET_AT
    ),
    **dict.fromkeys(("nbytes", "size_bytes", "size_in_bytes"), "use size"),
    **dict.fromkeys(("produce", "publish", "send"), "use append()"),
    **dict.fromkeys(("commit", "fsync", "sync"), "use flush()"),
    **dict.fromkeys(("iloc", "loc", "shape", "to_list", "tolist", "values"), _ROWS),
    **dict.fromkeys(_CLIENTS, _OF_STORE),
    **dict.fromkeys(("empty", "is_empty"), "use start_offset == end_offset"),
    "time_range": "use next(iter(log)).timestamp and max_timestamp().timestamp",
    **dict.fromkeys(
        ("earliest_timestamp", "first_timestamp", "min_timestamp"),
        "use next(iter(log)).timestamp; that of the earliest offset may not be the smallest",
    ),
    **dict.fromkeys(
        ("last_timestamp", "latest_timestamp"),
        "use log.max_timestamp().timestamp, or next(iter(log.tail(1))).timestamp",
    ),
    **dict.fromkeys(
        (*_OF_A_RECORD, "offset"),
        "iterating a topic gives its logs: `for log in topic: for record in log`",
    ),
    **dict.fromkeys(_FILES, _TO_FILES),
    **dict.fromkeys(("lag", "lags"), _LAG),
    "truncate": "use truncate_to(offset), or delete_records(before_offset)",
    **dict.fromkeys(("as_dict", "state", "table", "to_dict"), "use latest(), by key"),
    **dict.fromkeys(("delete", "remove", "tombstone"), _DELETE),
    "put": "use append(value, key=key)",
    **dict.fromkeys(_ARROW, _TABLES),
    **dict.fromkeys(_NAMES, "use batches()"),
    **dict.fromkeys(("wait", "wait_for", "wait_until"), "use wait_beyond(offset), or follow()"),
    "describe": "use start_offset, end_offset, size and config",
    **dict.fromkeys(_MANY, _EXTEND),
    **dict.fromkeys(("before", "until"), _PERIOD),
    **dict.fromkeys(("find", "grep", "search"), _FIND),
    **dict.fromkeys(("committed", "read_committed"), _COMMITTED),
    "first": "use next(iter(log))",
    "last": "use log[-1], or tail(1)",
    **dict.fromkeys(("filter", "query", "select", "where"), _SCAN),
    **dict.fromkeys(("count_by_key", "group_by", "groupby"), _GROUP),
    "beginning_offset": "use start_offset",
    "between": "use since(when, until)",
    "name": "use topic and partition",
    "consume": "use follow(), or iterate the log",
    "earliest_offset": "use start_offset",
    "first_offset": "use start_offset",
    "get": "use log[offset], or latest().get(key), which reads the log",
    "last_offset": "use end_offset, the offset of the next record",
    "latest_offset": "use end_offset",
    "length": "use count(), which reads the log, or end_offset - start_offset",
    "log_end_offset": "use end_offset",
    "log_start_offset": "use start_offset",
    "poll": "use follow(), or iterate the log",
    "seek": "use view(offset)",
    **dict.fromkeys(("len", "num_records", "record_count"), _COUNT),
    "repair": "use kstore.repair(path, output), which writes a new directory",
}
_ASYNC_CONSUMER = (
    "`async for record in store.consumer('orders', group='billing').records()` works in asyncio"
)
_ASYNC_PRODUCER = "`await producer.send(...)` works in asyncio; no other class is needed"
_BACKUP = "close the store and copy its directory, or use kstore mirror, or kstore handover"
_PREDICATE = "use log.scan(where=lambda row: row.offset > 5), or kstore.jit.compile_predicate()"
_OPEN = "use kstore.open('data'): a store is a directory, without a broker"
OF_MODULE = {
    **dict.fromkeys(("backup", "snapshot"), _BACKUP),
    **dict.fromkeys(("TopicExists", "TopicAlreadyExistsError"), "use TopicExistsError"),
    **dict.fromkeys(("merge",), "use heapq.merge(*logs, key=lambda record: record.timestamp)"),
    **dict.fromkeys(("murmur2", "partition_for"), "use partition_for(key) of a topic"),
    **dict.fromkeys(("OffsetReset", "OffsetSpec"), "use 'earliest', 'latest' or an aware datetime"),
    **dict.fromkeys(
        ("append", "consumer", "create_topic", "groups", "list_topics", "producer", "topics"),
        "it is a method of a store: `with kstore.open('data') as store:`",
    ),
    **dict.fromkeys(
        (
            "follow",
            "open_log",
            "open_topic",
            "read",
            "read_log",
            "read_topic",
            "records",
            "scan",
            "tail",
        ),
        "use kstore.open('data', mode='r')['orders'], and [0] for the log of partition 0",
    ),
    **dict.fromkeys(
        ("read_arrow", "read_pandas", "to_arrow", "to_pandas"),
        "use kstore.open('data', mode='r')['orders'].to_pandas(), or to_arrow()",
    ),
    "Batch": "use log.batches(), or a consumer's",
    "Partitioner": "use store.producer(partitioner=lambda key, value, count: 0)",
    "AIOKafkaConsumer": _ASYNC_CONSUMER,
    "AIOKafkaProducer": _ASYNC_PRODUCER,
    "AdminClient": "use kstore.open('data'): a store creates and alters topics itself",
    "AsyncConsumer": _ASYNC_CONSUMER,
    "AsyncProducer": _ASYNC_PRODUCER,
    "AsyncStore": _ASYNC_PRODUCER,
    "Config": "use LogConfig, StoreConfig, or a dict of settings",
    "ConsumerRecord": "use Record",
    "KafkaAdminClient": "use kstore.open('data'): a store creates and alters topics itself",
    "KafkaConsumer": "use store.consumer('orders', group='billing')",
    **dict.fromkeys(("Error", "KafkaError"), "use KStoreError"),
    **dict.fromkeys(
        ("ChecksumError", "CorruptError", "CorruptMessageError", "CorruptionError", "CrcError"),
        "use CorruptRecordError, or CorruptFileError for side files",
    ),
    **dict.fromkeys(
        ("NoSuchTopicError", "NotFoundError", "TopicNotFoundError", "UnknownTopicError"),
        "use UnknownTopicOrPartitionError, which is a KeyError too",
    ),
    **dict.fromkeys(("ExistsError", "TopicAlreadyExistsError"), "use TopicExistsError"),
    **dict.fromkeys(("LockError", "LockedError"), "use StoreLockedError"),
    "KafkaException": "use KStoreError",
    **dict.fromkeys(
        ("MessageSizeTooLargeError", "RecordTooLargeError", "TooLargeError"),
        "use MessageTooLargeError",
    ),
    "KafkaProducer": "use store.producer('orders')",
    "OffsetAndMetadata": "an offset is a number: commit({('orders', 0): 42})",
    "NewTopic": "use store.create_topic('orders', partitions=4)",
    "TopicConfig": "use LogConfig, or a dict of settings",
    "aio": f"use `import kstore`: {_ASYNC_PRODUCER}",
    "col": _PREDICATE,
    "compile": _PREDICATE,
    "compile_predicate": _PREDICATE,
    "connect": _OPEN,
    "create": _OPEN,
    "open_store": _OPEN,
}
OF_PRODUCERS = {
    **dict.fromkeys(_MEASURES, _METRICS.format("use on_delivery=, or the end_offset of a log")),
    **dict.fromkeys(_MANY, "use send() for each record; without a thread: extend() of a topic"),
    "abort_transaction": "use `with store.transaction('id') as transaction`",
    "append": "use send(); without a thread: append() of a topic",
    "begin_transaction": "use `with store.transaction('id') as transaction`",
    "commit_transaction": "use `with store.transaction('id') as transaction`",
    "extend": "use send() for each record; without a thread: extend() of a topic",
    "flush_async": "use `await asyncio.to_thread(producer.flush)`",
    "init_transactions": "use producer(transactional_id='id'), or store.transaction('id')",
    "list_topics": "use store.topics",
    "partitions_for": "use the partitions of a topic",
    "poll": "callbacks run in the producer's thread, without it",
    "produce": "use send()",
    "send_and_wait": "use `await producer.send(...)`",
    "send_offsets_to_transaction": "use `with store.transaction('id') as transaction`",
    "start": "opening the producer does it",
    "stop": "use close()",
    "transaction": "use `with store.transaction('id') as transaction`",
}
_FINDINGS = "use findings, each with kind, path, position, offset and sentence"
_OK = "use ok, or raise_if_corrupt()"
OF_REPORTS = {
    **dict.fromkeys(
        ("corruptions", "damages", "errors", "failures", "issues", "problems"), _FINDINGS
    ),
    **dict.fromkeys(("is_ok", "passed", "valid"), _OK),
    "raise_for_errors": "use raise_if_corrupt()",
    "raise_if_damaged": "use raise_if_corrupt()",
}
_GROUP_OFFSETS = "use alter_group_offsets('billing', 'earliest'), or {('orders', 0): 0}"
_AT_EACH_CALL = "a reader sees new records and topics at each call, without it"
OF_STORES = {
    **dict.fromkeys(
        ("ensure_topic", "get_or_create_topic"), "use create_topic('orders', exist_ok=True)"
    ),
    **dict.fromkeys(("exists", "has", "has_topic", "topic_exists"), "use 'orders' in store"),
    **dict.fromkeys(
        _MEASURES, _METRICS.format("use end_offsets(), groups(), and the size of a topic")
    ),
    **dict.fromkeys(("get_topic", "open_topic"), "use store['orders']"),
    **dict.fromkeys(("follow", "tail"), "use consumer('orders'), or follow() of one log"),
    **dict.fromkeys(("backup", "copy", "snapshot"), _BACKUP),
    "merge": "use heapq.merge(*logs, key=lambda record: record.timestamp)",
    "name": "use paths; a topic's name: `for name, topic in store.items()`",
    "publish": "use producer().send(), or store['orders'].append()",
    "repair": "close it, then kstore.repair('data', 'fixed'), which writes a new directory",
    "start_offsets": "use start_offsets() of a topic",
    **dict.fromkeys(
        ("reset_group_offsets", "reset_offsets", "seek_group"),
        _GROUP_OFFSETS,
    ),
    **dict.fromkeys(("commit", "commit_offsets", "set_offsets"), _GROUP_OFFSETS),
    **dict.fromkeys(("create", "new_topic", "add_topic"), "use create_topic()"),
    **dict.fromkeys(("delete", "drop_topic", "remove_topic"), "use delete_topic()"),
    **dict.fromkeys(("partitions", "records", "scan"), "use that of a topic: store['orders']"),
    **dict.fromkeys(("sync", "fsync"), "use flush()"),
    **dict.fromkeys(("clean", "compact_topic"), "use compact() of a topic or a log"),
    **dict.fromkeys(("serve", "broker", "start_broker"), "use kstore.Broker(store)"),
    "size": "use the size of each topic: sum(topic.size for topic in store.values())",
    **dict.fromkeys(("lag", "lags"), "use group('billing').lags, or groups()"),
    "copy_topic": "use extend(log.view(isolation_level='read_committed')) of a log of the copy",
    "describe": "use topics, and the partitions, config, end_offsets() and size of each",
    "rename_topic": "a topic keeps its name, as in Kafka: copy its records by extend()",
    "sizes": "use the size of a topic or a log",
    "alter_config": "use alter_topic('orders', {'retention.ms': 3600000})",
    "alter_configs": "use alter_topic('orders', {'retention.ms': 3600000})",
    "alter_consumer_group_offsets": "use alter_group_offsets()",
    "append": "use store['orders'].append()",
    "consumer_groups": "use groups()",
    "create_partitions": "use add_partitions()",
    "create_topics": "use create_topic() for each topic",
    "delete_consumer_groups": "use delete_group() for each group",
    "delete_groups": "use delete_group() for each group",
    "delete_records": "use delete_records() of a topic or a log",
    "delete_topics": "use delete_topic() for each topic",
    "describe_configs": "use the config of a topic",
    "describe_consumer_groups": "use group(name)",
    "describe_groups": "use group(name)",
    "describe_topic": "use the partitions and the config of a topic",
    "describe_topics": "use the partitions and the config of a topic",
    "incremental_alter_configs": "use alter_topic('orders', {'retention.ms': 3600000})",
    "list_consumer_group_offsets": "use group(name).offsets",
    "list_consumer_groups": "use groups()",
    "list_group_offsets": "use group(name).offsets",
    "list_groups": "use groups()",
    "list_topics": "use topics",
    **dict.fromkeys(("poll", "refresh", "reload"), _AT_EACH_CALL),
    "produce": "use producer().send(), or store['orders'].append()",
    "send": "use producer().send(), or store['orders'].append()",
    "set_config": "use alter_topic('orders', {'retention.ms': 3600000})",
    "subscribe": "use consumer('orders', group='billing')",
    "transactions": "use transaction('id')",
}
_OF_EACH_LOG = "use {}() of each log: `for log in topic`"
_OFFSETS_AT = "use offsets_at(when), by partition"
OF_TOPICS = {
    "follow": "use store.consumer('orders') and its seek_to_end(), for all partitions",
    **dict.fromkeys(
        ("before", "between", "until"), "use since(when, until) of each log: `for log in topic`"
    ),
    **dict.fromkeys(
        ("alter_config", "alter_configs", "configure", "set_config"),
        "use alter({'retention.ms': 3600000})",
    ),
    **dict.fromkeys(
        ("offset_at", "offset_for_time", "offset_for_timestamp", "offsets_for_times"), _OFFSETS_AT
    ),
    **dict.fromkeys(("produce", "publish", "send"), "use append()"),
    **dict.fromkeys(("consume", "subscribe", *_CLIENTS), _OF_STORE),
    **dict.fromkeys(("cleanup_policy", "retention_bytes", "retention_ms"), "use config"),
    **dict.fromkeys(_FILES, _TO_FILES),
    **dict.fromkeys(("lag", "lags"), _LAG),
    **dict.fromkeys(("get_partition", "partition"), "use topic[0], the log of partition 0"),
    "truncate": "use delete_records(), or store.delete_topic() and create_topic()",
    **dict.fromkeys(
        ("delete_config", "reset", "reset_config", "unset"), "use alter({'retention.ms': None})"
    ),
    **dict.fromkeys(("as_dict", "state", "table", "to_dict"), "use latest(), by key"),
    "get_config": "use config",
    **dict.fromkeys(_ARROW, _TABLES),
    **dict.fromkeys(("batches", *_NAMES), "use batches() of each log: `for log in topic`"),
    "merge": "use heapq.merge(*topic, key=lambda record: record.timestamp)",
    "describe": "use partitions, config, end_offsets() and size",
    "repair": "use kstore.repair(path, output), which writes a new directory",
    "segments": "use the segments of a log: topic[0].segments",
    **dict.fromkeys(_MANY, _EXTEND),
    **dict.fromkeys(("num_records", "record_count"), _COUNT),
    **dict.fromkeys(("filter", "query", "select", "where"), _SCAN),
    **dict.fromkeys(("count_by_key", "group_by", "groupby"), _GROUP),
    **{
        name: _OF_EACH_LOG.format(name)
        for name in ("head", "read", "roll", "since", "tail", "truncate_to", "view")
    },
    "beginning_offsets": "use start_offsets(), by partition",
    "create_partitions": "use add_partitions()",
    **dict.fromkeys(("delete", "remove", "tombstone"), _DELETE),
    "put": "use append(value, key=key)",
    "describe_configs": "use config",
    "end_offset": "use end_offsets(), by partition",
    "get": "use latest().get(key), which reads the topic",
    "log": "use topic[0], the log of partition 0",
    "partition_count": "use len(topic)",
    "rename": "a topic keeps its name, as in Kafka: copy its records by extend()",
    "nbytes": "use size",
    "size_bytes": "use size",
    "size_in_bytes": "use size",
    "start_offset": "use start_offsets(), by partition",
}
OF_TOPIC_NAMES = dict.fromkeys(
    ("get", "items", "keys", "values"),
    "store.topics lists names; a store is the mapping: store['orders'], store.items()",
)
OF_TRANSACTIONS = {
    "abort": "use abort_transaction(), or raise in the block",
    **dict.fromkeys(
        ("add_offsets", "commit_offsets", "send_offsets"),
        "use send_offsets_to_transaction(consumer)",
    ),
    "begin": "use begin_transaction()",
    "commit": "use commit_transaction()",
    "produce": "use send()",
    "stop": "use close()",
}
OF_VIEWS = {
    **dict.fromkeys(_ARROW, _TABLES),
    **dict.fromkeys(("before", "until"), _PERIOD),
    "first": "use next(iter(view))",
    "last": "use tail(1)",
    **dict.fromkeys(("filter", "query", "select", "where"), _SCAN),
    "between": "use since(when, until) of the log",
    "end_offset": "use stop",
    "get": "use latest().get(key), which reads the view",
    "offset_at": "use offset_at() of the log",
    "since": "use since(when, until) of the log",
    "start_offset": "use start",
    **dict.fromkeys(("num_records", "record_count"), _COUNT),
    "high_watermark": "use stop",
}


OF_DELIVERIES = {
    "add_callback": "use add_done_callback(), or send(..., on_delivery=...)",
    "add_errback": "use add_done_callback(), or send(..., on_delivery=...)",
    "failed": "use exception(), None for an appended record",
    "get": "use result(timeout)",
    "is_done": "use done()",
    "offset": "use result().offset, which waits for it",
    "partition": "use result().partition, which waits for it",
    "succeeded": "use exception(), None for an appended record",
}
CONSUMER_IN_ASYNCIO = (
    "use `async for record in consumer.records()` and `await consumer.commit()`, or `await "
    "asyncio.to_thread(consumer.poll, timeout=1)`"
)
_POLLED = "poll() returns {partition: records}: use .values(), or consumer.records()"
OF_POLLED_RECORDS = dict.fromkeys((*_OF_A_RECORD, "error", "offset", "partition", "topic"), _POLLED)
OF_PARTITION_NUMBERS = dict.fromkeys(
    (
        "append", "compact", "config", "delete_records", "end_offset", "extend", "flush",
        "follow", "head", "high_watermark", "id", "leader", "latest", "log", "offset_at",
        "partition", "path", "read", "records", "replicas", "scan", "since", "size",
        "start_offset", "tail", "to_arrow", "to_pandas", "topic", "verify", "view",
    ),
    "partitions are numbers: topic[0] is the log of partition 0, `for log in topic` has all",
)  # fmt: skip
OF_NAMES_OF_TOPICS = dict.fromkeys(
    (
        "alter", "append", "config", "end_offsets", "extend", "latest", "name", "num_partitions",
        "partitions", "records", "scan", "size", "start_offsets", "topic", "verify",
    ),
    "iterating a store gives names, as of any mapping: `for topic in store.values()`, "
    "`for name, topic in store.items()`",
)  # fmt: skip
OF_NAMES_OF_GROUPS = dict.fromkeys(
    ("is_claimed", "lag", "lags", "name", "offsets", "uncommitted"),
    "groups() is a dict by name: `for group in store.groups().values()`, `for name, group in "
    "store.groups().items()`",
)
OF_POSITIONS = dict.fromkeys(
    (*_OF_A_RECORD, "error", "topic"),
    "a position is a partition and an offset; give a callback the key, "
    "`on_delivery=lambda error, at, key=key: ...`",
)
OF_TOPIC_PARTITIONS = {
    **dict.fromkeys(
        (*_OF_A_RECORD, "offset"),
        _POLLED,
    ),
    **dict.fromkeys(
        ("add_done_callback", "get", "result"),
        "in a transaction send() returns the partition; offsets come with the commit",
    ),
}


def of_module(name: str) -> str | None:
    """The advice for a name that the module kstore does not have; None without one."""
    if name in OF_MODULE or not name[:1].isupper():
        return OF_MODULE.get(name)
    from kstore import errors

    stem = name.removesuffix("Error")  # Java's names have no such end
    error = f"{stem}Error"
    if error in vars(errors):
        return f"use {error}"
    if error in OF_MODULE:
        return OF_MODULE[error]
    stems = [each.removesuffix("Error") for each in vars(errors) if each.endswith("Error")]
    close = [f"{each}Error" for each in close_names(stem, stems)]
    if stem == name and not close:
        return None
    return f"errors are in kstore.errors: {', '.join(close) or 'KStoreError is the base of all'}"
