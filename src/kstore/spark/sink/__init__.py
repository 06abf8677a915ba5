"""The sink: tasks stage record batches, and the driver's commit publishes them once.

- ``options``: the options of a write, and the messages of tasks to the commit
- ``spark_writers``: the classes that Spark calls
- ``stager``: encodes Arrow batches as record batches v2 in staged files
- ``arrow_columns``: Arrow columns as arguments of the kernels
- ``commit``: publishes the staged files of a job, aborts a job, removes old files
- ``write_identity``: the identities of writes, and their progress files
- ``repetition``: recognizes a write that was published before
- ``write_dataframe``: ``kstore.spark.write`` and ``fill_headers``
"""
