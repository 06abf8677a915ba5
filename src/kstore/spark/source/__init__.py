"""The data source: it plans the offsets of a load as tasks, which read them as Arrow batches.

- ``options``: parses and checks the options of a load
- ``schema``: the columns of Spark's Kafka connector
- ``offsets_json``: Kafka's JSON for offsets and partitions
- ``snapshot``: partitions with start and end offsets, fixed once for each load
- ``time_bounds``: where a load begins and ends, by offset or by time (options push bounds down;
  filters of a query are not pushed)
- ``offset_ranges``: splits offset ranges into byte ranges of segments and assigns them to tasks
- ``batch_plan``: the plan of a batch load
- ``batch_reader``, ``stream_reader``: the classes that Spark calls
- ``read_task``: the body of a task, batch or streaming
- ``range_reader``: reads the columns of an offset range, and caches the stores of a worker
- ``arrow_batches``: columns as Arrow batches in Spark's types
- ``data_loss``: ``failOnDataLoss``
- ``metrics``: how far a stream is behind its log
- ``aggregates``, ``merge_partial_results``: counts and sizes by group, computed in the tasks
"""
