"""Jobs over whole stores: each a module that ``kstore spark`` and ``spark-submit`` both run.

The engine works where the bytes are, in the executors' Python processes; only partial results
come back to the driver, which alone puts what executors have made in its place.

- ``partition_job``: the skeleton of the jobs that do the same with each partition: plan, run,
  resume, report
- ``command``: a job as a program; ``task_runner``: tasks and sessions; ``reports``: what a job
  reports of each partition; ``resume_file``: the file to resume from
- ``verify``, ``stats`` (``stats_report``, ``stats_page``): jobs that only read
- ``export`` (``export_target``, ``parquet_files``): records to Parquet
- ``store_changes``: what jobs that change a store share: ``compact``, ``reindex``, ``recompress``
  and ``convert`` (``rewrite``)
- ``restore`` (``restore_plan``, ``restore_settings``, ``restore_target``, ``restore_tasks``,
  ``restore_types``, ``cluster_sender``): segments or Parquet back into a store, or into a cluster
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
