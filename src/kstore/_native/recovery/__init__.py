"""Checks of segments: recovery, verification, salvage.

Modules:

- find_valid_batches: finds valid batches among corrupt bytes
- header_checksums: checksums of the header fields that the batch checksum does not cover
- index_audit: compares batch headers with both indexes
- segment_scan: checks every batch of a segment and rebuilds both indexes
"""
