"""Kafka's wire language: fields of its records and messages.

Modules:

- api_keys: Numbers of Kafka's APIs
- error_codes: Kafka's error codes, as Apache Kafka 4.3 has them
- fields: The partition of an internal topic that a name belongs to
- headers: Headers of requests and responses
- kafka_messages: Records of Kafka's internal topics as trees of JSON values, by the table of
  records
- wire: Kafka's primitive types: a reader of bytes that trusts no length, and a writer of chunks

``messages`` has a generated module for each API, ``records`` one for each kind of record of the
coordinators; ``schema`` has the tables that they come from.
"""
