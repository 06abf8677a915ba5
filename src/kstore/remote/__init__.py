"""A Kafka cluster over the network, with those methods of a store that the tools use.

Modules:

- acls: Access control lists of a cluster
- admin: Elections, log directories, reassignments, features and versions
- answer_errors: Converts Kafka's error codes in responses to kstore's exceptions
- authentication: The client's side of SASL on a connection
- client_assignors: The assignors of classic members, what they send and how a leader assigns
- client_metrics: What a client counts and measures, under the names of Kafka's clients
- cluster: Finds brokers and leaders, and retries requests
- connection: One connection to a broker, with version negotiation
- consumer: Reads assigned partitions of a cluster
- consumer_membership: A member of a consumer group, by the protocol of KIP-848
- controllers: DescribeCluster of a KRaft controller, and what only a cluster with one serves
- coordinators: Sends requests to the coordinator of a group or transactional id
- fetch_counts: Counts the records that a consumer fetches, in total and by topic
- fetches: Batches of many partitions, with one request to each leader
- group_consumer: Reads the partitions that a consumer group of a cluster assigns
- groups: Group administration: states, members, committed offsets
- membership: A member of a consumer group, by Kafka's classic protocol
- membership_counts: Counts the requests of a member of a group, by either protocol
- offsets: Offsets of many partitions, with one request to each leader
- produce_counts: Counts the records that a producer sends, in total and by topic
- quorum: DescribeQuorum: the controllers of a cluster
- quotas: Quotas of a cluster's clients, and the users of SCRAM
- remote_log: A partition of a cluster: offsets, appends of batches, deletion of records
- store: Presents a cluster to the tools as a store
- topic: A topic of a cluster: settings, partitions, offsets
- transactional_id: A transactional id at its coordinator, and the transaction that is open
- transactional_log: A partition of a cluster whose batches belong to transactions
- transactional_producer: A producer that sends records of one topic in transactions
- transactions: Transaction administration, including aborting a hanging transaction
"""
