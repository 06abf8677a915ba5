"""What a broker measures, and the port that shows it.

Counters are plain attributes that the loop's thread writes. A scrape reads them, the logs and the
cluster image on a thread of its own, so that the loop does nothing for it.

Modules:

- broker_metrics: The metrics of one broker: its counters and its port
- counters: The counters of one broker: requests, topics, syncs
- families: Metrics of the broker, under the names that Kafka's JMX exporters use
- health: Whether everything is served, as an HTTP status and JSON
- http_server: The port: ``/metrics``, ``/health`` and ``/live``
- idle_partitions: Sizes and offsets of partitions whose logs are not open
- partition_lines: Metrics of every partition as text
- time_summary: Count, sum and recent quantiles of times
"""
