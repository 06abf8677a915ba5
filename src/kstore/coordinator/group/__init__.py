"""Consumer groups: their members, committed offsets, and the claims of embedded consumers.

Modules:

- alter_groups: Changes and deletes the committed offsets of groups, as Kafka's admin client does
- classic_answers: Builds the responses to JoinGroup and SyncGroup, and responds to waiting requests
- classic_checks: Checks requests against the state of a classic group: member, static member
  (fencing), generation, protocol
- classic_coordinator: The coordinator of classic groups, without I/O and clock
- classic_events: The inputs and outputs of the coordinator of classic groups
- classic_group: A classic group: state, members, protocol votes
- classic_member: A member of a classic group
- classic_rebalance: The rebalance of a classic group: its members join, then wait for their
  assignments
- classic_records: Encodes and decodes the records of classic groups in
  ``__consumer_offsets``
- classic_requests: Requests of the classic protocol to a consumer group
- classic_timers: All deadlines of the coordinator of classic groups, in one heap
- consumer_coordinator: The coordinator of consumer groups (KIP-848), without I/O and clock
- consumer_events: The inputs and outputs of the coordinator of consumer groups
- consumer_group: A consumer group: members, epochs, target assignments
- consumer_member: A member of a consumer group, and its reconciliation with the target assignment
- consumer_records: Encodes and decodes the records of consumer groups in ``__consumer_offsets``
- deadline_heap: A heap of deadlines
- embedded_member: A consumer of this process as a member of its group, by Kafka's classic protocol
  without sockets
- embedded_offsets: A group's committed offsets: a writer keeps them in a log, other processes in a
  file
- group_migration: Converts a living group between the two protocols
- list_groups: Lists consumer groups with their committed offsets, lag and claims
- loaded_commits: Commits of ``__consumer_offsets`` by group, decoded when their group is first
  requested
- local_group: A group of the consumers of one process, which share its claims and, without a
  broker, its partitions
- member_description: A member of a consumer group as tools show it: described by a broker, or read
  from a log
- offset_expiration: Decides which committed offsets expire
- offset_records: Encodes and decodes the offset commits of ``__consumer_offsets``, byte for byte as
  Kafka
- offsets_store: Reads and appends to ``__consumer_offsets`` for a broker
- offsets_table: The commits in a partition of ``__consumer_offsets``, as Kafka's own records
- partition_claims: Claims that keep two consumers of one group from reading the same partition
- pending_commits: The commits of open transactions in a partition of ``__consumer_offsets``
- range_assignor: Kafka's range assignor for classic members: each gets consecutive partitions of
  each topic
- reader_offsets_file: ``kstore.offsets.<group>``: the commits of a process that may not write the
  store's logs
- roundrobin_assignor: Kafka's round-robin assignor for classic members: partitions of all topics
  are dealt in turn
- server_assignors: The assignors of consumer groups, ``uniform`` and ``range``
- sticky_assignor: Kafka's sticky assignors for classic members: members keep what they have
- store_group: What embedded consumers of a group commit: carries out ``embedded_offsets``
- stored_groups: Groups with their members, as ``__consumer_offsets`` has them, for tools beside a
  broker
- subscription: Encodes and decodes subscriptions and assignments of classic members
- verify_keys: Extends the audit of ``__consumer_offsets``: decodes the keys of its records

Static members: ``classic_group`` has their table, ``classic_coordinator`` replaces an instance,
``classic_checks`` fences the one before; in consumer groups all three are in
``consumer_coordinator`` and ``consumer_group``, and ``classic_requests`` fences classic members.
"""
