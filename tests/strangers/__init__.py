"""`make strangers`: the test suites of Kafka's clients against kstore, and against Kafka.

- ``__main__``: the command line.
- ``brokers``: a fresh kstore, or a fresh Kafka node, with the settings that a suite needs.
- ``suite``: what a suite is, and a command that is run with a time limit.
- ``expectations``: the expected failures, each with its reason, and what differs from them.
- ``table``: the scores of all runs, as text.
- ``junit``: results in the XML that pytest and jest write.
- ``kafka_python``, ``franz_go``, ``kafka_tools``: suites from package registries.
- ``confluent_python``, ``librdkafka``, ``aiokafka``, ``kafkajs``: suites from a source tree.
"""
