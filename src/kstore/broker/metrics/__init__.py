"""The metrics of a broker, and the HTTP port that exposes them.

The event loop's thread writes the counters, which are plain attributes. A scrape reads the
counters, the logs and the cluster image on its own thread, without work for the event loop.

Modules:

- broker_metrics: The metrics of one broker: its counters and its port
- counters: The counters of one broker: requests, topics, syncs
- health: The health of a broker as HTTP status and JSON
- http_server: The HTTP server for ``/metrics``, ``/health`` and ``/live``
- idle_partitions: Sizes and offsets of partitions whose logs are not open
- kafka_metrics: Metrics of the broker, under the names that Kafka's JMX exporters use
- partition_lines: The metrics of all partitions as text
- time_summary: Count, sum and recent quantiles of durations
"""
