"""Kafka's wire language: fields of its records and messages.

Modules:

- fields: Fields of the records in Kafka's internal topics, and the partition that a name belongs
  to
- kafka_messages: Records of Kafka's internal topics as trees of JSON values, by Kafka's own
  definitions
"""
