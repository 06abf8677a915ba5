"""The transaction coordinator: a state machine without I/O, its records, and its storage.

Modules:

- embedded_coordinator: The transaction coordinator of embedded producers, which blocks
- store_transactions: The transactions of a store: implements the effects of the transaction
  coordinator
- transaction_coordinator: Kafka's transaction coordinator of a broker, without I/O and without a
  clock
- transaction_events: What comes into the transaction coordinator of a broker, and what leaves it
- transaction_owner: What an embedded producer asks of the coordinator of its store's transactions
- transaction_state_records: Encodes and decodes the records of ``__transaction_state``, byte for
  byte as Kafka
- transaction_state_store: Reads and appends states and markers for a broker
- transaction_topics: Checks that no topic of a transaction is deleted before its commit
"""
