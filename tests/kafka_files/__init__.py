"""Tests against bytes that Apache Kafka and other clients wrote."""
