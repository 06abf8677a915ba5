"""A Kafka cluster over the network, with those methods of a store that the tools use.

Modules:

- acls: Access control lists of a cluster
- admin: Elections, log directories, reassignments, features and versions
- answer_errors: Kafka's error codes in answers as errors of kstore
- authentication: The client's side of SASL on a connection
- cluster: Finds brokers and leaders, and asks again where an answer says to
- connection: One connection to a broker: requests in the highest version that both sides support
- consumer: Reads assigned partitions of a cluster
- coordinators: Asks the coordinator of a group or of a transactional id
- group_consumer: Reads the partitions that a consumer group of a cluster assigns
- groups: Groups as an administrator sees them: states, members, committed offsets
- membership: A member of a consumer group, by Kafka's classic protocol
- offsets: Offsets of many partitions, by one request to each leader
- quotas: Quotas of a cluster's clients, and the users of SCRAM
- range_assignor: Kafka's range assignor: consecutive partitions of each topic for each member
- remote_log: A partition of a cluster: offsets, appends of batches, deletion of records
- store: A cluster as the tools see a store
- topic: A topic of a cluster: settings, partitions, offsets
- transactions: Transactions as an administrator sees them, and the way out of a hanging one
"""
