"""Checks of segments: recovery, verification, salvage.

Modules:

- batch_audit: compares batch headers with both indexes
- header_checksums: checksums of the header fields that the batch checksum does not cover
- salvage: finds valid batches among corrupt bytes
- segment_scan: checks every batch of a segment and rebuilds both indexes
"""
