"""The transaction coordinator: a state machine without I/O, its records, and its storage.

Modules:

- coordinator: The transaction coordinator: fences producers and decides the outcome of transactions
- store_transactions: The transactions of a store: implements the effects of the transaction
  coordinator
- transaction_state_records: Encodes and decodes the records of ``__transaction_state``, byte for
  byte as Kafka
- transaction_topics: Checks that no topic of a transaction is deleted before its commit
"""
