"""Kafka's protocol: the encoding of its requests, responses and internal records.

Modules:

- api_keys: The keys of Kafka's APIs
- error_codes: The error codes of Apache Kafka 4.3
- fields: Texts as Kafka stores them: the partition of a group or transactional id, a text's size
- headers: Headers of requests and responses
- kafka_messages: Decodes records of Kafka's internal topics to JSON values
- message_class: ``@message_class``, a dataclass whose methods are generated at its first use
- wire: Kafka's primitive types: a bounds-checked reader, and a writer of chunks

``messages`` has a generated module for each API, and ``records`` one for each record type of the
coordinators; ``schema`` has the tables from which they are generated.
"""
