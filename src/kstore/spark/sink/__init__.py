"""The sink: tasks stage record batches, and the driver's commit publishes them once.

- ``options``: what a write asks for, and what tasks report to the commit
- ``spark_writers``: the classes that Spark calls
- ``stager``: Arrow batches to record batches v2 in staged files
- ``arrow_columns``: Arrow columns as the kernels take them
- ``commit``: publish what a job staged, abort, and remove leftovers
- ``write_identity``: what counts as a repetition; the progress files
- ``write_dataframe``: ``kstore.spark.write`` and ``fill_headers``
"""
