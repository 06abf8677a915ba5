"""Maintenance of partitions: repair, reindexing, another codec or message format.

Modules:

- epoch_repair: Corrects leader epochs of salvaged batches that contradict the other batches
- reindex: Rebuilds all derived files of a partition: indexes, producer state, header checksums
- repair: ``kstore repair``: copies the valid batches of a damaged directory into a new one
- repair_losses: Records of a damaged partition that no repair can save
- rewrite: Rewrites rolled segments with another codec or in another message format
"""
