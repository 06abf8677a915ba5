"""The state of a log's producers and their transactions, in memory and in snapshots.

Modules:

- collect_aborted: Looks up aborted transactions, as Kafka's collectAbortedTxns
- producer_ids: Assigns producer ids and sequence numbers
- reader_producer_state: The producer state of a log that another process writes
- replay: Replays the batches and markers of segments into a producer table
- snapshot: Producer snapshots (``N.snapshot``): the state of each producer before offset N
- state: The producer state of a log, the expiry of producer ids, and its files: snapshots and
  transaction indexes

The table of producers is native: ``_native/append/producer_table``.
"""
