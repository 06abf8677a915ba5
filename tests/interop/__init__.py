"""Tests that run real Apache Kafka: its tools over kstore's files, its brokers over its folders."""
