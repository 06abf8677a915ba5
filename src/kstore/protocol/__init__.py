"""Kafka's wire language: fields of its records and messages."""
