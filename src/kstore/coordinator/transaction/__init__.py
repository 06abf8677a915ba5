"""The transaction coordinator: a state machine without I/O, its records, and its storage.

Modules:

- embedded_coordinator: The transaction coordinator of embedded producers, which blocks
- end_markers: Appends the control record that ends a transaction to the log of a partition
- id_locks: A lock for each transactional id in use
- store_transactions: Implements the embedded coordinator's effects on a store
- transaction_coordinator: A broker's transaction coordinator, without I/O and clock
- transaction_events: The inputs and outputs of a broker's transaction coordinator
- transaction_owner: The coordinator's interface for embedded producers
- transaction_state_records: Encodes and decodes the records of ``__transaction_state``, byte for
  byte as Kafka
- transaction_state_store: Reads and appends states for a broker
- transaction_topics: Checks that no topic of a transaction is deleted before its commit
"""
