"""Checks of segments: recovery, header checksums, salvage.

Modules:

- find_valid_batches: finds valid batches among corrupt bytes
- header_checksums: checksums of the header fields that the batch checksum does not cover
- segment_scan: checks every batch of a segment and rebuilds both indexes
"""
