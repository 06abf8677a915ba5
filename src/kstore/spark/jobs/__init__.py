"""Jobs over all partitions of a store, as modules for ``kstore spark`` and ``spark-submit``.

Tasks work on the files in the executors' Python processes. Only partial results return to the
driver, which alone changes the store: it renames the files that executors have staged.

- ``partition_job``: the base class of jobs that process each partition: plan, run, resume, report
- ``command``: a job as a program; ``task_runner``: tasks and sessions; ``reports``: the reports
  on partitions; ``resume_file``: the file of ``--resume``
- ``verify``, ``stats`` (``stats_report``, ``stats_page``): jobs that only read
- ``export`` (``export_target``, ``parquet_files``): records to Parquet
- ``store_changes``: shared by the jobs that change a store: ``compact``, ``reindex``,
  ``recompress`` and ``convert`` (``rewrite``)
- ``restore`` (``restore_driver``, ``restore_plan``, ``restore_settings``, ``restore_target``,
  ``restore_tasks``, ``restore_types``, ``cluster_sender``): segments or Parquet back into a store,
  or into a cluster
"""

JOBS = {
    "verify": "check every checksum, offset and index entry of a store",
    "stats": "report sizes, rates, codecs, keys and times of topics; with plots",
    "export": "write records to Parquet files by topic and date, only new ones",
    "reindex": "rebuild indexes, producer snapshots and header checksums of a store",
    "recompress": "rewrite the segments of a store with another codec",
    "convert": "rewrite messages v0 and v1 of a store as record batches v2",
    "compact": "compact the topics of a store, several partitions at a time",
    "restore": "restore segments or Parquet into a log directory, or into a cluster",
}
