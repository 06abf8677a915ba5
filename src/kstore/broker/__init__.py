"""The broker: sockets, requests and answers over a store, for every Kafka client.

Modules:

- access_rules: Kinds of authorization rules: how a denied resource changes a request and its
  response
- access_table: Which resources and operations each API needs
- alter_replica_log_dirs: Moves partitions between log directories on its own threads (Kafka's
  ReplicaAlterLogDirsManager)
- answer_frames: Answers as frames: the size, the header, and the message
- api_table: The table of served APIs: which versions, and which handler
- authentication: The SASL exchange of one connection
- authorization: Checks every request against the access control lists of :mod:`kstore.security`
- broker: ``kstore.Broker`` and ``kstore.serve``: a store as a broker, on a thread of its own
- client_batch: The records of one partition in a Produce request
- client_session: Who a connection's client is: by its TLS certificate or by SASL, and until when
- client_throttling: Measures what clients use against their quotas
- closed_connection_reports: Logs why connections were closed, without a line for each in a flood
- connection: Reads requests, calls their handlers, and sends the responses in order
- connection_limits: Counts the connections of all listeners against the limits
- consumer_group_service: Executes the consumer group coordinator's decisions (KIP-848)
- delayed_fetch: Fetch requests that wait for records
- delayed_fetch_frame: A Fetch request of one partition that waits for records on the fast path
- delayed_produce: Produce requests that wait for acknowledgement
- disk_workers: Threads for work that may block on a disk, in order for each key
- down_convert: Converts records for Fetch 0 to 3, whose clients read only message formats v0 and v1
- durable_commits: Durable acknowledgements: one fsync serves all requests that wait for it
- durable_produces: The fast path for Produce requests of one small batch that wait for the disk
- embedded_groups: Connects embedded consumers to the group coordinator of the broker that serves
  the store
- embedded_transactions: Connects a served store's embedded transactional producers to the broker
- encoded_topics: Caches the encoded topics of Metadata responses, per cluster image
- fetch_frame_reader: Reads one partition for a Fetch request on the fast path
- fetch_frames: The fast path for Fetch requests of one partition
- fetch_reader: Reads the partitions of one Fetch request
- fetch_session: Incremental fetch sessions (KIP-227)
- full_disk: Lets requests that free space succeed on a full disk, with space that the broker has
  reserved
- group_service: Executes the group coordinator's decisions
- hanging_transactions: Finds transactions that are open for longer than the maximum timeout
- internal_topic: An internal topic: its creation, and the loading of its partitions
- json_web_key_refresher: The keys with which a listener verifies tokens, refreshed while the
  broker runs
- leader_hints: The current leader in responses of Produce 10 and Fetch 16 (KIP-951)
- listener: A listening socket and its connections
- listener_set: The listeners of a broker, and their advertised addresses
- logger_levels: Log levels as configs of the BROKER_LOGGER resource
- loop: The event loop: epoll, timers and callbacks, on one thread that owns all state
- member_requests: Requests of classic members, by the protocol that their group uses now
- offsets_appends: Appends to ``__consumer_offsets``, acknowledged within a time limit
- outstanding_request: A request of a connection until its answer is sent
- partitions: The hosted partitions: the log of each, or the error to return instead
- produce_turns: The fast path for Produce requests of one small batch
- purgatory_size: How many requests wait
- quota_rates: Rates and token buckets of quotas, with the time as a parameter
- read_partition_images: Reads the partitions of topics on a disk worker, before a handler on the
  loop needs them
- request: One request, and the ways to respond to it
- request_memory: Limits the request bytes that all connections hold in memory together
- send_queue: Sends responses: bytes with sendmsg, slices of segments with sendfile, or with
  sendmsg to clients on the same machine
- server_properties: Reads Kafka's ``server.properties``: honoured, ignored and rejected keys
- services: The objects that request handlers share
- settings: The broker's settings, typed, under Kafka's names
- tls_contexts: A listener's TLS context, reloaded when its files change
- tls_transport: The TLS layer of a connection
- topic_patterns: Matches the regular expressions of consumer groups with topic names
- transaction_markers: Writes the markers of the transactions that a broker ends, with retries
- transaction_service: Executes the transaction coordinator's decisions

The call of sendfile(2) is ``Slice.send_to``, in ``_native/read/slice.pxi`` over
``_native/files/file_map.pyx``.
"""
