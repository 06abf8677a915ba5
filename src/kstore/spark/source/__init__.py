"""The data source: what a load reads, how its offsets become tasks, and what a task reads.

- ``options``: what a load asks for, checked
- ``schema``: the columns of Spark's Kafka connector
- ``offsets``: Kafka's JSON for offsets and partitions
- ``snapshot``: which partitions, from which offset to which, fixed once for each load
- ``offset_ranges``: offset ranges to pieces of files to tasks
- ``batch_plan``: the plan of a batch load
- ``batch_reader``, ``stream_reader``: the classes that Spark calls
- ``read_task``: what a task does, batch or streaming
- ``range_reader``: the columns of an offset range, and the stores that a worker keeps open
- ``arrow_batches``: columns as Arrow batches in Spark's types
- ``data_loss``: ``failOnDataLoss``
- ``metrics``: how far a stream is behind its log
- ``aggregates``, ``merge_partial_results``: counts and sizes by group, measured in the tasks
"""
