"""Work on whole partitions: repair of damaged ones, new indexes, another codec or format.

Modules:

- epoch_repair: Leader epochs of salvaged batches that cannot be right, and what they were
- reindex: Everything beside the log files of a partition made anew: indexes, producer state, seals
- repair: ``kstore repair``: a new directory with everything that is sound in a damaged one
- repair_losses: Records that a damaged partition has lost altogether: what a repair cannot save
- rewrite: Sealed segments rewritten with another codec or in another message format
"""
