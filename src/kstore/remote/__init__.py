"""A Kafka cluster over the network, with those methods of a store that the tools use.

Modules:

- answer_errors: Kafka's error codes in answers as errors of kstore
- cluster: Finds brokers and leaders, and asks again where an answer says to
- connection: One connection to a broker: requests in the highest version that both sides support
- consumer: Reads assigned partitions of a cluster
- remote_log: A partition of a cluster: offsets, appends of batches, deletion of records
- store: A cluster as the tools see a store
- topic: A topic of a cluster: settings, partitions, offsets
"""
