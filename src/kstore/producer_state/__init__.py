"""What a log knows of its producers and their transactions, in memory and in snapshots.

Modules:

- reader_producer_state: What is known of a log's producers from outside, where another process
  writes it
- replay: Replaying segments for what their batches and markers say of producers and transactions
- snapshot: Producer snapshots (``N.snapshot``): what a broker knew of each producer before offset
  N
- state: What a log knows of its producers, and the files that keep it: snapshots, transaction
  index

The table of producers, with their expiry, is native: ``_native/append/producer_table``.
"""
