"""Jobs over whole stores: each a module that ``kstore spark`` and ``spark-submit`` both run.

The engine works where the bytes are, in the executors' Python processes; only partial results
come back to the driver, which alone puts what executors have made in its place.
"""

JOBS = {
    "verify": "check every checksum, offset and index entry of a store",
    "stats": "tell what topics are made of: sizes, rates, codecs, keys, times; with plots",
    "export": "write records to Parquet files by topic and date, only what is new",
    "reindex": "make indexes, producer snapshots and seals of a store anew",
    "recompress": "write the segments of a store anew with another codec",
    "convert": "write messages v0 and v1 of a store anew as record batches v2",
    "compact": "compact the topics of a store, several partitions at a time",
    "restore": "put segments or Parquet back into a log directory, or into a cluster",
}
