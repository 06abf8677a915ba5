"""The broker: sockets, requests and answers over a store, for every Kafka client.

Modules:

- access_rules: Kinds of rules: what a denied resource does to a request and to its answer
- access_table: Which resources and operations each API needs
- answer_frames: Answers as frames: the size, the header, and the message
- api_table: The table of served APIs: which versions, and which handler
- authentication: The SASL exchange of one connection
- authorization: Checks every request against the access control lists of :mod:`kstore.security`
- broker: ``kstore.Broker`` and ``kstore.serve``: a store as a broker, on a thread of its own
- client_batch: The records of one partition in a Produce request
- client_throttling: Measures what clients use against their quotas
- closed_reports: Logs why connections were closed, without a line for each in a flood
- connection: Reads requests, lets handlers answer them, sends the answers in order
- connection_limits: Counts the connections of all listeners against the limits
- consumer_group_service: Carries out what the coordinator of consumer groups decides
- delayed_fetch: Fetch requests that wait for records
- delayed_produce: Produce requests that wait for their acknowledgement
- disk_workers: Threads for work that may wait for a disk, in order for each key
- down_convert: Records for consumers of Fetch 0 to 3, which know messages v0 or v1 only
- durable_commits: Acknowledgements that mean on disk: one sync serves every request that waits
- embedded_transactions: Embedded transactional producers of a store that is served
- encoded_topics: The topics of Metadata's answers as bytes: those of one image are encoded once
- fetch_frames: Fetch requests of one partition, from the bytes of a request to its answer
- fetch_read: Reads the partitions of one Fetch request
- fetch_session: Incremental fetch sessions (KIP-227)
- frame_cutter: Cuts a connection's bytes into frames
- group_service: Carries out what the group coordinator decides
- internal_topic: An internal topic whose partitions a coordinator loads
- late_transactions: Transactions that are open for longer than any may be
- leader_hints: Who leads a partition instead, in answers of Produce 10 and Fetch 16
- listener: A listening socket and its connections
- listener_set: The listeners of a broker, and the addresses that clients are given
- logger_levels: Levels of loggers, as a resource that has settings
- loop: The event loop: epoll, timers and callbacks, on one thread that owns all state
- member_requests: Requests of classic members, by the protocol that their group uses now
- outstanding_request: A request of a connection until its answer is sent
- partitions: The hosted partitions: a log each, or the error that clients get instead
- produce_frames: Produce requests of the usual form, from the bytes of a request to its answer
- purgatory: How many requests wait
- quota_rates: Rates and token buckets of quotas, with the time as a parameter
- replica_moves: Moves between log directories that clients asked for
- request: One request of a client, and the ways to answer it
- request_memory: Bounds the bytes of requests that all connections of a broker hold together
- send_queue: Sends the chunks of answers: bytes by sendmsg, slices of segments by sendfile(2)
- server_properties: Kafka's ``server.properties``: which keys are honoured, ignored and refused
- services: What a handler works with
- settings: The settings of a broker, typed, under Kafka's names
- tls_contexts: The TLS context of a listener, made again when its files were replaced
- tls_transport: TLS below a connection
- topic_patterns: Regular expressions of consumer groups: which topics match
- transaction_markers: Writes the markers of decided transactions
- transaction_service: Carries out what the transaction coordinator decides

The call of sendfile(2) is ``Slice.send_to``, in ``_native/read/slice.pxi`` over
``_native/files/file_map.pyx``.
"""
